"""Channels on the store itself: what is copied, what is not, and what the training code can change."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sagelet_engine.data.channels.sources import JobObjects
from sagelet_engine.data.channels.spool import Spool
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.data.staging import Stager
from sagelet_engine.model.principal import allow_all, owner
from sagelet_engine.model.training import TrainingJob, create
from sagelet_engine.s3.job_objects import JobObjectStore
from sagelet_engine.s3.store import S3Store
from support.world import key, request


def job_of(mode: str) -> TrainingJob:
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://bucket/d/"}
    channel = {"ChannelName": "train", "InputMode": mode, "DataSource": {"S3DataSource": source}}
    return create(key("one"), "id", request("one", InputDataConfig=[channel]), {}, 0)


@pytest.fixture
def objects(store: S3Store) -> JobObjectStore:
    made = JobObjectStore(store, allow_all)
    for name in ("a", "deep/b", "back\\slash", "k" * 250):
        with made.create(owner("123456789012"), "bucket", f"d/{name}") as out:
            out.write(name.encode())
    return made


@pytest.fixture
def stage(objects: JobObjectStore, tmp_path: Path) -> Callable[..., Path]:
    def run(mode: str, *, protected: bool) -> Path:
        host = JobDirectories(tmp_path / "job").host("algo-1")
        Stager(objects, job_of(mode), protected=protected).stage(host)
        return host.channels / "train"

    return run


def contents(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


WHOLE = {name: name.encode() for name in ("a", "deep/b", "back\\slash", "k" * 250)}


@pytest.mark.parametrize(
    ("mode", "protected", "links"), [("FastFile", True, 2), ("FastFile", False, 1), ("File", True, 1)]
)
def test_only_a_protected_fast_file_channel_has_links(
    stage: Callable[..., Path], store: S3Store, mode: str, protected: bool, links: int
) -> None:
    directory = stage(mode, protected=protected)
    assert contents(directory) == WHOLE
    assert {path.stat().st_nlink for path in directory.rglob("*") if path.is_file()} == {links}
    if links == 1:
        for path in directory.rglob("*"):
            if path.is_file():
                path.chmod(0o644)
                path.write_bytes(b"changed by the job")
    _, data = store.open("bucket", "d/a")
    with data:
        assert data.read() == b"a"


def test_pipes_stream_from_links(objects: JobObjectStore, tmp_path: Path) -> None:
    job = job_of("Pipe")
    Spool(JobObjects(objects, job), job.spec.channels[0], tmp_path / "spool").fill()
    files = [path for path in (tmp_path / "spool").iterdir() if path.name.isdigit()]
    assert sorted(path.read_bytes() for path in files) == sorted(WHOLE.values())
    assert {path.stat().st_nlink for path in files} == {2}
