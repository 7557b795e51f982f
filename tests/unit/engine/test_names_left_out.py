"""Files whose names make no key of S3: they stay behind, the log says which, and the job is as it would be without."""

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.key_names import LeftOut, makes_key
from support.world import World, key, until

NO_UTF8 = os.fsdecode(b"loss-\xff\xfe.csv")
#: A path that is longer than a key may be, of parts that are names.
LONG = "/".join(["d" * 250] * 5)
CHECKPOINTS = {"CheckpointConfig": {"S3Uri": "s3://ck/run"}}
FILES = {"OutputDataConfig": {"S3OutputPath": "s3://out", "CompressionType": "NONE"}}
ARCHIVE = {"OutputDataConfig": {"S3OutputPath": "s3://out"}}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    running = World(tmp_path)
    yield running
    running.engine.close()


def write(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(b"w")


def run(world: World, directory: str, *names: str, **changes: Any) -> list[str]:
    """The log of a job whose script writes these files into a directory of /opt/ml."""
    world.create("one", **changes)
    world.host("one")
    root = world.settings.data / "jobs" / "123456789012" / "us-east-1" / world.job("one").id / "algo-1" / "opt-ml"
    write(root / directory, *names)
    world.host("one").end(0)
    ended = world.ended("one")
    assert (ended.secondary.value, ended.failure_reason) == ("Completed", None)
    return [line for line in world.log("one") if "sagelet: warning" in line]


@pytest.mark.parametrize(
    ("directory", "changes", "bucket", "prefix"),
    [
        ("checkpoints", CHECKPOINTS, "ck", "run/"),
        ("model", FILES, "out", "one/output/model/"),
        ("output/data", FILES, "out", "one/output/output/"),
    ],
)
def test_the_rest_is_uploaded(world: World, directory: str, changes: dict[str, Any], bucket: str, prefix: str) -> None:
    (warning,) = run(world, directory, "good", f"deep/{NO_UTF8}", f"{LONG}/far", "deep/w", **changes)
    assert sorted(world.objects.under(bucket)) == [f"{prefix}deep/w", f"{prefix}good"]
    assert f"sagelet: warning: not uploaded from /opt/ml/{directory}: " in warning
    assert "'deep/loss-\\xff\\xfe.csv'" in warning
    assert "ddd..." in warning


def links(directory: Path) -> None:
    (directory / "last").symlink_to("real")
    (directory / "all").symlink_to("deep")
    (directory / "out").symlink_to("/etc/passwd")
    os.mkfifo(directory / "pipe")


@pytest.mark.parametrize(
    ("directory", "prefix"), [("model", "one/output/model/"), ("output/data", "one/output/output/")]
)
def test_links_go_as_the_files_that_they_name(world: World, directory: str, prefix: str) -> None:
    world.create("one", **FILES)
    opt_ml = world.host("one").plan.hosts[0].opt_ml
    write(opt_ml / directory, "real", "deep/w")
    links(opt_ml / directory)
    world.host("one").end(0)
    world.ended("one")
    assert sorted(world.objects.under("out")) == [f"{prefix}{name}" for name in ("all/w", "deep/w", "last", "real")]
    start = f"sagelet: warning: not uploaded from /opt/ml/{directory}: "
    assert sorted(line.removeprefix(start)[:6] for line in world.log("one") if start in line) == ["'out'.", "'pipe'"]


def test_an_archive_keeps_links_and_names_pipes(world: World) -> None:
    world.create("one", **ARCHIVE)
    opt_ml = world.host("one").plan.hosts[0].opt_ml
    write(opt_ml / "model", "real", "deep/w")
    links(opt_ml / "model")
    world.host("one").end(0)
    world.ended("one")
    content = io.BytesIO(world.objects.under("out")["one/output/model.tar.gz"])
    with tarfile.open(fileobj=content) as archive:
        kinds = {member.name: member.linkname for member in archive.getmembers()}
    assert kinds == {"all": "deep", "deep": "", "deep/w": "", "last": "real", "out": "/etc/passwd", "real": ""}
    warnings = [line for line in world.log("one") if "sagelet: warning" in line]
    where = "sagelet: warning: not uploaded from /opt/ml/model: "
    assert warnings == [f"{where}'pipe'. Only files go to S3, not pipes, sockets and devices"]


def test_an_archive_has_names_of_any_bytes(world: World) -> None:
    assert run(world, "model", "good", NO_UTF8, f"{LONG}/far", **ARCHIVE) == []
    assert list(world.objects.under("out")) == ["one/output/model.tar.gz"]


def test_a_path_that_the_system_does_not_open_is_left_out_of_an_archive(world: World) -> None:
    """A script makes one with relative names."""
    world.create("one", **ARCHIVE)
    world.host("one")
    root = world.settings.data / "jobs" / "123456789012" / "us-east-1" / world.job("one").id / "algo-1" / "opt-ml"
    write(root / "model", "good")
    here = os.open(root / "model", os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=here)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    world.host("one").end(0)
    assert world.ended("one").secondary.value == "Completed"
    (warning,) = [line for line in world.log("one") if "sagelet: warning" in line]
    assert "not uploaded from /opt/ml/model: 'dddd" in warning
    assert list(world.objects.under("out")) == ["one/output/model.tar.gz"]


def test_a_host_that_trains_is_warned_and_once(world: World) -> None:
    world.create("one", **CHECKPOINTS)
    world.host("one")
    root = world.settings.data / "jobs" / "123456789012" / "us-east-1" / world.job("one").id / "algo-1" / "opt-ml"
    write(root / "checkpoints", NO_UTF8)
    streams = "123456789012", "us-east-1", "one/"
    until(lambda: world.engine.logs.streams(*streams))
    until(lambda: any("sagelet: warning" in line for line in world.log("one")))
    assert not world.job("one").terminal
    world.host("one").end(0)
    world.ended("one")
    assert len([line for line in world.log("one") if "sagelet: warning" in line]) == 1


def test_what_makes_a_key() -> None:
    assert makes_key("a" * 1024)
    assert makes_key("ü" * 512)
    assert not makes_key("ü" * 513)
    assert not makes_key(NO_UTF8)


@pytest.mark.parametrize(("count", "lines", "more"), [(1, 1, ""), (8, 2, ""), (50, 10, ""), (53, 10, " and 3 more. ")])
def test_warnings_name_each_file_once_and_count_the_rest_of_many(count: int, lines: int, more: str) -> None:
    left_out = LeftOut("/opt/ml/model")
    for number in [*range(count)] * 2:
        left_out.add(f"\x1b[2J{number:02}\u202e")
    said = left_out.tell()
    assert len(said) == lines
    assert [f"'\\x1b[2J{number:02}\\u202e'" in "".join(said) for number in range(min(count, 50))] == [True] * min(
        count, 50
    )
    assert [" more. " in line for line in said] == [False] * (lines - 1) + [bool(more)]
    assert more in said[-1]
    assert "".join(said).isprintable()
    assert left_out.tell() == []


def test_directories_in_one_another_without_end(world: World) -> None:
    """Neither a path nor a function that calls itself reaches the bottom; all else is uploaded, and the job deleted."""
    world.create("one", **CHECKPOINTS, **FILES)
    world.host("one")
    root = world.settings.data / "jobs" / "123456789012" / "us-east-1" / world.job("one").id / "algo-1" / "opt-ml"
    for directory in ("checkpoints", "model"):
        write(root / directory, "good")
        here = os.open(root / directory, os.O_RDONLY)
        for _ in range(2500):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open("w", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.close(here)
    world.host("one").end(0)
    assert world.ended("one").failure_reason is None
    assert len([line for line in world.log("one") if "sagelet: warning" in line]) == 2
    assert list(world.objects.under("ck")) == ["run/good"]
    world.engine.jobs.delete(key("one"))
    assert not root.exists()
    # The retention thread reaches the bottom.
    until(lambda: not any((world.settings.data / "removed").iterdir()))
