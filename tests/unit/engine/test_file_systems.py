"""FileSystemDataSource: a directory of this machine becomes a channel; nothing is copied, nothing else reached."""

import json
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.data.file_systems import directory_of
from sagelet_engine.data.layout import HostDirectories
from sagelet_engine.model.file_systems import FileSystemSource
from sagelet_engine.model.job import JobStatus
from sagelet_engine.model.runtime import Mount
from support.world import World, until

ID = "fs-0123456789abcdef0"


def source(path: str = "/", **changes: str) -> dict[str, str]:
    return {
        "FileSystemId": ID,
        "FileSystemType": "FSxLustre",
        "DirectoryPath": path,
        "FileSystemAccessMode": "ro",
        **changes,
    }


def channel(path: str, name: str = "training", **changes: str) -> dict[str, Any]:
    return {"ChannelName": name, "DataSource": {"FileSystemDataSource": source(path, **changes)}}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files/deep/er").mkdir(parents=True)
    (tmp_path / "files/deep/a").touch()
    (tmp_path / "outside").mkdir()
    return tmp_path / "files"


@pytest.fixture
def world(tmp_path: Path, files: Path) -> Any:
    made = World(tmp_path, file_systems={ID: files})
    yield made
    made.engine.close()


@pytest.mark.parametrize(
    ("path", "found"),
    [("/", ""), ("", ""), ("/deep", "deep"), ("deep/er/", "deep/er"), ("//deep//er", "deep/er"), ("/in", "deep")],
)
def test_a_path_is_taken_from_the_root_of_the_file_system(files: Path, path: str, found: str) -> None:
    (files / "in").symlink_to("deep")
    assert directory_of(FileSystemSource.of(source(path)), {ID: files}) == (files / found).resolve()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/..", "must not leave it"),
        ("/deep/../../outside", "must not leave it"),
        ("/deep\0", "must not leave it"),
        ("/out", "is a link that leaves it"),
        ("/out/deep", "is a link that leaves it"),
        ("/root", "is a link that leaves it"),
        ("/nowhere", "is not a directory of the file system"),
        ("/deep/a", "is not a directory of the file system"),
    ],
)
def test_no_path_leads_out_of_the_file_system(files: Path, path: str, why: str) -> None:
    (files / "out").symlink_to("../outside")
    (files / "root").symlink_to("/")
    with pytest.raises(ClientFault, match=why):
        directory_of(FileSystemSource.of(source(path)), {ID: files})


def test_a_file_system_that_nothing_stands_in_for_is_named_with_its_remedy(files: Path) -> None:
    other = FileSystemSource.of(source(FileSystemId="fs-aaaaaaaa"))
    with pytest.raises(ClientFault, match="--file-system fs-aaaaaaaa=/DIRECTORY"):
        directory_of(other, {ID: files})


def test_the_directory_is_mounted_on_every_host_and_not_copied(world: World, files: Path) -> None:
    world.create(
        "one",
        InputDataConfig=[channel("/deep"), channel("/", "free", FileSystemAccessMode="rw")],
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 1},
    )
    for host in world.all_hosts("one"):
        plan = next(plan for plan in host.plan.hosts if plan.name == host.handle.host)
        assert plan.mounts == (
            Mount(files / "deep", "input/data/training", read_only=True),
            Mount(files, "input/data/free", read_only=False),
        )
        assert plan.read_only == ()
        directories = HostDirectories(plan.opt_ml.parent)
        assert sorted(path.name for path in directories.channels.rglob("*")) == ["free", "training"]
        config = json.loads((directories.config / "inputdataconfig.json").read_text())
        assert config["training"] == {
            "TrainingInputMode": "File",
            "S3DistributionType": "FullyReplicated",
            "RecordWrapperType": "None",
        }
        downloads = json.loads((directories.config / "init-config.json").read_text())["channels"]["free"]
        assert downloads["s3DataSource"] is None
        assert downloads["fileSystemDataSource"] == {
            "fileSystemId": ID,
            "fileSystemAccessMode": "rw",
            "fileSystemType": "FSxLustre",
            "directoryPath": "/",
        }
        request = json.loads((directories.config / "trainingjobconfig.json").read_text())
        assert request["InputDataConfig"][0]["DataSource"] == {"FileSystemDataSource": source("/deep")}
        host.end(0)
    assert world.ended("one").status is JobStatus.COMPLETED
    assert sorted(path.name for path in files.rglob("*")) == ["a", "deep", "er"]


def test_a_directory_that_is_gone_when_the_job_starts_fails_it(world: World, files: Path) -> None:
    world.create("one", InputDataConfig=[channel("/later")])
    until(lambda: world.job("one").terminal)
    assert (world.ended("one").failure_reason or "").startswith(
        "ClientError: The DirectoryPath '/later' is not a directory"
    )
