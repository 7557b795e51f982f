"""Inputs into /opt/ml and results out of it; nothing of the machine comes in or gets out."""

import errno
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.data import inputconfig
from sagelet_engine.data.artifacts import Uploader
from sagelet_engine.data.channels.sources import relative_path
from sagelet_engine.data.layout import HostDirectories, JobDirectories
from sagelet_engine.data.staging import Stager, checkpoint_directory
from sagelet_engine.model.principal import Principal
from sagelet_engine.model.spec import CheckpointSpec
from sagelet_engine.model.training import TrainingJob, create
from support.fakes import FakeObjects
from support.jobs import archive
from support.world import key, request


@pytest.fixture
def objects(tmp_path: Path) -> FakeObjects:
    return FakeObjects(tmp_path / "s3")


@pytest.fixture
def host(tmp_path: Path) -> HostDirectories:
    return JobDirectories(tmp_path / "job").host("algo-1")


def job_of(**changes: Any) -> TrainingJob:
    return create(key("one"), "id", request("one", **changes), {}, 1000)


def channel(uri: str, name: str = "training") -> dict[str, Any]:
    return {"ChannelName": name, "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": uri}}}


@pytest.fixture
def stage(objects: FakeObjects, host: HostDirectories) -> Callable[..., Path]:
    """Stages a job of these request members; returns its /opt/ml."""

    def run(**changes: Any) -> Path:
        Stager(objects, job_of(**changes)).stage(host)
        return host.opt_ml

    return run


def files(directory: Path) -> dict[str, bytes]:
    return {p.relative_to(directory).as_posix(): p.read_bytes() for p in directory.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("key", "prefix", "path"),
    [
        ("data/train/a", "data", "train/a"),
        ("data/train/a", "data/", "train/a"),
        ("data/train/a", "data/tr", "train/a"),
        ("data/a", "data/a", "a"),
        ("a", "", "a"),
        ("deep/a", "", "deep/a"),
        ("/a", "", "a"),
        ("data//a", "data/", "a"),
        ("data", "data", "data"),
        ("database", "data", "database"),
        ("x/data-1/a", "x/data", "data-1/a"),
        ("data/", "data/", ""),
    ],
)
def test_where_an_object_lands(key: str, prefix: str, path: str) -> None:
    assert relative_path(key, prefix) == path


def test_a_channel_holds_all_objects_under_its_prefix(objects: FakeObjects, stage: Callable[..., Path]) -> None:
    for name in ("data/a", "data/deep/b", "other/c"):
        objects.put("in", name, name.encode())
    opt_ml = stage(InputDataConfig=[channel("s3://in/data/")])
    assert files(opt_ml / "input/data") == {
        "training/a": b"data/a",
        "training/deep/b": b"data/deep/b",
        "training-manifest": b"data/\ns3://in/data/a\ns3://in/data/deep/b\n",
    }


def test_staging_again_starts_from_an_empty_directory(objects: FakeObjects, stage: Callable[..., Path]) -> None:
    objects.put("in", "data/a", b"1")
    opt_ml = stage(InputDataConfig=[channel("s3://in/data/")])
    (opt_ml / "input/data/training/half").write_bytes(b"from before the crash")
    assert files(stage(InputDataConfig=[channel("s3://in/data/")]) / "input/data/training") == {"a": b"1"}


@pytest.mark.parametrize("uri", ["s3://nowhere/x", "s3://in/nothing"])
def test_a_channel_without_objects_is_the_clients_fault(
    objects: FakeObjects, stage: Callable[..., Path], uri: str
) -> None:
    objects.put("in", "data/a", b"1")
    with pytest.raises(ClientFault, match=f'Data download failed:No S3 objects found under S3 URL "{uri}" given'):
        stage(InputDataConfig=[channel(uri)])


class ListedObjects(FakeObjects):
    """S3 may hold keys that no file system can; here they are listed and hold their own names."""

    def __init__(self, root: Path, *keys: str) -> None:
        super().__init__(root)
        self._keys = keys

    def list(self, principal: Principal, bucket: str, prefix: str) -> Any:
        from sagelet_engine.model.objects import ObjectInfo

        return (ObjectInfo(name, 1) for name in self._keys if name.startswith(prefix))

    def download(self, principal: Principal, bucket: str, key: str, target: Path) -> None:
        target.write_text(key)


def staged(host: HostDirectories, tmp_path: Path, *keys: str) -> dict[str, bytes]:
    job = job_of(InputDataConfig=[channel("s3://in/d/")])
    Stager(ListedObjects(tmp_path, *keys), job).stage(host)
    return files(host.channels / "training")


@pytest.mark.parametrize("name", ["d/../../../etc/x", "d/..", "d/a/../b", "d/a\0b", "d/" + "x" * 300])
def test_a_key_that_makes_no_file_name_is_the_clients_fault(host: HostDirectories, tmp_path: Path, name: str) -> None:
    with pytest.raises(ClientFault, match="Data download failed"):
        staged(host, tmp_path, name)
    assert not (tmp_path / "etc").exists()


@pytest.mark.parametrize(
    "keys", [("d/a", "d/a/b"), ("d/a/b", "d/a"), ("d/a/", "d/a"), ("d/a", "d/a/"), ("d/a", "d//a")]
)
def test_two_objects_that_need_the_same_path_are_the_clients_fault(
    host: HostDirectories, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    with pytest.raises(ClientFault, match="need the same path"):
        staged(host, tmp_path, *keys)


def test_directory_markers_become_directories(host: HostDirectories, tmp_path: Path) -> None:
    assert staged(host, tmp_path, "d/", "d/a/", "d/a/b", "d/empty/") == {"a/b": b"d/a/b"}
    assert (host.channels / "training/empty").is_dir()


# --- checkpoints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("local", "path"),
    [
        (None, "checkpoints"),
        ("", "checkpoints"),
        ("/opt/ml/checkpoints/", "checkpoints"),
        ("/opt/ml/a/b", "a/b"),
        ("/opt/ml//etc", "etc"),
        ("/opt/ml/./a", "a"),
    ],
)
def test_the_checkpoint_path_lies_within_opt_ml(host: HostDirectories, local: str | None, path: str) -> None:
    config = {} if local is None else {"LocalPath": local}
    assert checkpoint_directory(host, CheckpointSpec.of(config)) == host.opt_ml / path


@pytest.mark.parametrize("local", ["/state", "/opt/ml", "/opt/ml/", "/opt/ml/../x", "/opt/mlx/y", "x", "/opt/ml/a\0b"])
def test_another_checkpoint_path_is_refused(host: HostDirectories, local: str) -> None:
    with pytest.raises(ClientFault, match=r"CheckpointConfig.LocalPath .*under /opt/ml only"):
        checkpoint_directory(host, CheckpointSpec.of({"LocalPath": local}))


def test_no_checkpoints_yet_is_fine(stage: Callable[..., Path]) -> None:
    opt_ml = stage(CheckpointConfig={"S3Uri": "s3://new/run"})
    assert list((opt_ml / "checkpoints").iterdir()) == []


@pytest.mark.parametrize("config", [{"S3Uri": "s3://b/c"}, {"S3Uri": "s3://b/c", "LocalPath": ""}])
def test_the_container_is_told_where_its_checkpoints_are(
    stage: Callable[..., Path], host: HostDirectories, config: dict[str, str]
) -> None:
    stage(CheckpointConfig=config)
    inputconfig.write(job_of(CheckpointConfig=config), "algo-1", host)
    assert json.loads((host.config / "checkpointconfig.json").read_text()) == {"LocalPath": "/opt/ml/checkpoints"}


# --- the source of an isolated job ----------------------------------------------------------------------------------


def tar_of(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.parametrize("value", ['"s3://code/job/sourcedir.tar.gz"', "s3://code/job/sourcedir.tar.gz"])
def test_an_isolated_job_gets_its_source_as_files(objects: FakeObjects, stage: Callable[..., Path], value: str) -> None:
    objects.put("code", "job/sourcedir.tar.gz", tar_of(**{"train.py": b"pass"}))
    opt_ml = stage(EnableNetworkIsolation=True, HyperParameters={"sagemaker_submit_directory": value})
    assert files(opt_ml / "code") == {"train.py": b"pass"}
    assert not (opt_ml / "sourcedir.tar.gz").exists()


@pytest.mark.parametrize(
    "archive",
    [None, b"no tar", tar_of(a=b"x" * 100_000)[:60], tar_of(**{"../../out": b"x"})],
    ids=["absent", "no tar", "cut", "leaves"],
)
def test_a_source_archive_that_cannot_be_taken_is_the_clients_fault(
    objects: FakeObjects, stage: Callable[..., Path], archive: bytes | None
) -> None:
    if archive is not None:
        objects.put("code", "s.tar.gz", archive)
    with pytest.raises(ClientFault, match=r"Data download failed:source archive s3://code/s\.tar\.gz"):
        stage(EnableNetworkIsolation=True, HyperParameters={"sagemaker_submit_directory": "s3://code/s.tar.gz"})


@pytest.mark.parametrize("value", ["/opt/ml/input/data/code", '"file:///opt/ml/code"', "5", ""])
def test_a_source_that_lies_in_the_container_is_left_to_the_toolkit(stage: Callable[..., Path], value: str) -> None:
    opt_ml = stage(EnableNetworkIsolation=True, HyperParameters={"sagemaker_submit_directory": value})
    assert files(opt_ml / "code") == {}


# --- results --------------------------------------------------------------------------------------------------------


@pytest.fixture
def upload(objects: FakeObjects, tmp_path: Path, stage: Callable[..., Path]) -> Callable[..., list[str]]:
    def run(**changes: Any) -> list[str]:
        Uploader(objects, job_of(**changes), JobDirectories(tmp_path / "job")).upload()
        return objects.uploads

    return run


def test_an_empty_directory_leaves_no_object(stage: Callable[..., Path], upload: Callable[..., list[str]]) -> None:
    stage()
    assert upload() == []


def test_results_are_packed_with_their_content_at_the_root(
    stage: Callable[..., Path], upload: Callable[..., list[str]], tmp_path: Path
) -> None:
    opt_ml = stage()
    (opt_ml / "model/deep").mkdir()
    (opt_ml / "model/deep/w").write_bytes(b"w")
    (opt_ml / "output/data/log").write_bytes(b"l")
    assert upload() == ["s3://out/models/one/output/model.tar.gz", "s3://out/models/one/output/output.tar.gz"]
    with tarfile.open(tmp_path / "s3/out/models/one/output/model.tar.gz") as archive:
        assert archive.getnames() == ["deep", "deep/w"]
    assert not (tmp_path / "job/work").exists()


@pytest.mark.parametrize("compression", ["GZIP", "NONE"])
@pytest.mark.parametrize("replaced", ["model", "output", "output/data"])
def test_a_directory_that_the_container_made_a_link_brings_nothing_of_the_machine_out(
    stage: Callable[..., Path],
    upload: Callable[..., list[str]],
    tmp_path: Path,
    replaced: str,
    compression: str,
) -> None:
    (tmp_path / "secret/data").mkdir(parents=True)
    (tmp_path / "secret/key").write_text("secret")
    (tmp_path / "secret/data/key").write_text("secret")
    changes = {
        "OutputDataConfig": {"S3OutputPath": "s3://out", "CompressionType": compression},
    }
    opt_ml = stage(**changes)
    (opt_ml / replaced).rename(opt_ml / "aside")
    (opt_ml / replaced).symlink_to(tmp_path / "secret")
    with pytest.raises(ClientFault, match=r"symbolic link"):
        upload(**changes)
    assert not (tmp_path / "s3/out").exists()


def test_links_within_the_model_are_packed_as_links(
    stage: Callable[..., Path], upload: Callable[..., list[str]], tmp_path: Path
) -> None:
    opt_ml = stage()
    (opt_ml / "model/host").symlink_to("/etc/hostname")
    os.mkfifo(opt_ml / "model/pipe")
    upload()
    with tarfile.open(tmp_path / "s3/out/models/one/output/model.tar.gz") as archive:
        assert [(member.name, member.issym()) for member in archive] == [("host", True)]


def test_the_source_is_there_before_the_hosts_start_and_a_bad_one_is_left_to_the_toolkit(
    objects: FakeObjects, stage: Callable[..., Path]
) -> None:
    objects.put("code", "good.tar.gz", archive({"train.py": "pass"}))
    objects.put("code", "bad.tar.gz", b"no archive")
    for name, expected in (("good", {"train.py": b"pass"}), ("bad", {}), ("missing", {})):
        opt_ml = stage(HyperParameters={"sagemaker_submit_directory": f'"s3://code/{name}.tar.gz"'})
        assert files(opt_ml / "code") == expected


def test_half_an_archive_is_not_left_when_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, directories = job_of(), JobDirectories(tmp_path / "job")
    directories.host("algo-1").create()
    (directories.host("algo-1").model / "weights").write_bytes(b"w")

    def full(directory: Path, target: BinaryIO, left_out: object) -> None:
        target.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    objects = FakeObjects(tmp_path / "s3")
    monkeypatch.setattr("sagelet_engine.base.tarballs.pack", full)
    with pytest.raises(OSError, match="No space left"):
        Uploader(objects, job, directories).upload()
    assert objects.uploads == []


def test_results_without_a_bucket_are_the_clients_fault(tmp_path: Path) -> None:
    job, directories = job_of(), JobDirectories(tmp_path / "job")
    directories.host("algo-1").create()
    (directories.host("algo-1").model / "weights").write_bytes(b"w")
    objects = FakeObjects(tmp_path / "s3")
    objects.missing.add("out")
    with pytest.raises(ClientFault, match=r"Data upload failed:the bucket of s3://out/.* does not exist"):
        Uploader(objects, job, directories).upload()
