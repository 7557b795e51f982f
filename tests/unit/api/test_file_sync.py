"""A host that shares no file system with the server: its directory goes there and back through the endpoint's S3."""

import errno
import io
import json
import os
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.base import nofollow
from sagelet_engine.base.key_names import Why
from sagelet_engine.base.left_on_node import left_below
from sagelet_engine.model.batch_keys import staging_bucket
from sagelet_engine.model.principal import owner
from sagelet_engine.runtimes.slurm.file_sync.s3 import Batches, EndpointRefuses, Ticket
from support.api_world import ACCOUNT, ApiWorld
from support.batches import Remote

#: Levels of directories, and how many calls may be nested meanwhile, which are fewer. The work grows with the square of
#: the levels, because each path is opened from its root.
DEEP, NESTED = 450, 400


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path / "server", bridge, auth=True) as running:
        yield running


@pytest.fixture
def remote(world: ApiWorld, tmp_path: Path) -> Remote:
    return Remote(world, tmp_path)


def test_a_directory_goes_to_the_node_and_what_changes_comes_back(remote: Remote) -> None:
    remote.begin()
    syncing = remote.launch()
    remote.collected(lambda: remote.text("opt-ml/checkpoints/new"))
    assert json.loads(remote.text("run/started.json"))["started_ms"] == 1
    assert remote.text("run/output.log") == "from the server\n"
    assert not (remote.root / "opt-ml/checkpoints/old").exists()
    assert not remote.text("run/exit.json")
    # Another server, as after `kill -9`.
    remote.file_sync = remote.restarted()
    remote.tell("T")
    remote.collected(lambda: remote.text("run/exit.json"))
    assert syncing.wait(120) == 3
    assert json.loads(remote.text("run/exit.json"))["exit_code"] == 3
    assert remote.text("run/output.log") == "from the server\ntold T\n"
    assert (remote.root / "opt-ml/model/net/weights").read_bytes() == b"w" * 3_000_000
    assert os.readlink(remote.root / "opt-ml/model/link") == "net/weights"
    assert not os.path.lexists(remote.root / "opt-ml/model/outside")
    assert not list(remote.node.rglob("one/*"))
    remote.file_sync.close(remote.job.launch_id)
    assert list(remote.world.sagelet.s3.objects.list(owner(ACCOUNT), staging_bucket(ACCOUNT), "")) == []


def test_batches_that_come_twice_or_were_sent_by_a_killed_server_change_nothing(remote: Remote) -> None:
    remote.begin()
    syncing = remote.launch()
    remote.collected(lambda: remote.text("run/output.log"))
    before, output = remote.state().read_text(), remote.text("run/output.log")
    remote.tell("T")
    # Killed after it sent, before it wrote that down: the next server sends more.
    remote.state().write_text(before)
    remote.tell("TK")
    names = [found.key for found in remote.world.sagelet.s3.objects.list(owner(ACCOUNT), staging_bucket(ACCOUNT), "")]
    assert [name.rpartition("/")[2] for name in names if "/down/" in name] == ["00000002.tar", "00000003.tar"]
    remote.collected(lambda: remote.text("run/exit.json"))
    syncing.wait(120)
    assert remote.text("run/output.log").startswith(output)
    assert remote.text("run/output.log").count("from the server") == 1


def test_a_host_reaches_its_own_batches_only(remote: Remote, world: ApiWorld, tmp_path: Path) -> None:
    other = Remote(world, tmp_path, "two")
    other.begin()
    mine = Ticket(**{key: value for key, value in remote.ticket().items() if key not in ("root", "allocation")})
    theirs = replace(mine, prefix=f"{other.job.launch_id}/")
    assert Batches(mine).get("algo-1/down/00000001.tar") is None
    with pytest.raises(EndpointRefuses, match="403"):
        Batches(theirs).get("algo-1/down/00000001.tar")
    with pytest.raises(EndpointRefuses, match="403"):
        Batches(replace(mine, secret="guessed")).get("algo-1/down/00000001.tar")
    with pytest.raises(EndpointRefuses, match="403"):
        Batches(replace(mine, bucket=staging_bucket(ACCOUNT), prefix="")).get("")


def test_a_batch_that_would_leave_the_directory_ends_its_host(remote: Remote, tmp_path: Path) -> None:
    made = tmp_path / "evil.tar"
    with tarfile.open(made, "w") as archive:
        member = tarfile.TarInfo("../../escaped")
        member.size = 1
        archive.addfile(member, io.BytesIO(b"x"))
    key = f"{remote.job.launch_id}/algo-1/up/00000001.tar"
    remote.world.sagelet.s3.objects.upload(owner(ACCOUNT), made, staging_bucket(ACCOUNT), key)
    assert remote.file_sync.collect() == 1
    assert "cannot be taken" in json.loads(remote.text("run/exit.json"))["error"]
    assert not list(tmp_path.rglob("escaped"))
    assert "outside of the directory" in json.loads(remote.state().read_text())["failed"]


def test_names_of_any_bytes_go_up_and_those_that_no_system_has_stay(remote: Remote) -> None:
    syncing = remote.agent()
    node, odd = remote.node / remote.base / "opt-ml/model", os.fsdecode(b"\xff\n")
    (node / odd).write_text("1")
    above = os.open(node, os.O_RDONLY)
    for _ in range(17):
        os.mkdir("d" * 250, dir_fd=above)
        below = os.open("d" * 250, os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    os.close(above)
    syncing.send(last=True)
    assert remote.file_sync.collect() == 1
    assert remote.text(f"opt-ml/model/{odd}") == "1"
    assert remote.state().exists()
    assert not remote.text("run/exit.json")


def test_whatever_takes_anothers_place_arrives(remote: Remote) -> None:
    """A directory where a file or a link was, and the other way round; a file that grows; one with two names."""
    syncing, model = remote.agent(), remote.node / remote.base / "opt-ml/model"
    (model / "d").mkdir()
    (model / "d/f").write_text("1")
    (model / "f").write_text("2")
    (model / "l").symlink_to("d/f")
    os.link(model / "f", model / "same")
    syncing.send(last=True)
    remote.file_sync.collect()
    assert [remote.text(f"opt-ml/model/{name}") for name in ("d/f", "f", "l", "same")] == ["1", "2", "1", "2"]
    (model / "d/f").unlink()
    (model / "d").rmdir()
    (model / "d").write_text("file")
    for name in ("f", "l"):
        (model / name).unlink()
        (model / name).mkdir()
        (model / name / "x").write_text(name)
    syncing.send(last=True)
    remote.file_sync.collect()
    assert [remote.text(f"opt-ml/model/{name}") for name in ("d", "f/x", "l/x")] == ["file", "f", "l"]
    assert not remote.text("run/exit.json")


def test_links_come_as_what_they_name_and_the_server_learns_what_stays(remote: Remote, tmp_path: Path) -> None:
    """Links by absolute paths, and by ways through other directories, are sent as the way that they lead."""
    syncing, host = remote.agent(), remote.node / remote.base
    kept, model = host / "opt-ml/checkpoints", host / "opt-ml/model"
    (kept / "step-5").mkdir()
    (kept / "step-5/w").write_text("5")
    (kept / "last").symlink_to("/opt/ml/checkpoints/step-5")
    (kept / "step-5/here").symlink_to(kept / "step-5/w")
    (kept / "around").symlink_to("step-5/../last/w")
    (kept / "loop").symlink_to("loop")
    (kept / "out").symlink_to("/etc/passwd")
    (kept / "up").symlink_to("../../../../etc/passwd")
    os.mkfifo(model / "pipe")
    syncing.send(last=True)
    assert remote.file_sync.collect() == 1
    assert [remote.text(f"opt-ml/checkpoints/{name}") for name in ("last/w", "step-5/here", "around")] == ["5"] * 3
    assert os.readlink(remote.root / "opt-ml/checkpoints/last") == "step-5"
    assert not any(os.path.lexists(remote.root / f"opt-ml/checkpoints/{name}") for name in ("loop", "out", "up"))
    left = {"loop": Why.LINK, "out": Why.LINK, "up": Why.LINK}
    assert left_below(remote.root / "run", PurePath("checkpoints")) == left
    assert left_below(remote.root / "run", PurePath("model")) == {"pipe": Why.SPECIAL}
    # It leads elsewhere now, and one of those that stayed is a file.
    (kept / "step-6").mkdir()
    (kept / "step-6/w").write_text("6")
    (kept / "last").unlink()
    (kept / "last").symlink_to("/opt/ml/checkpoints/step-6")
    (kept / "out").unlink()
    (kept / "out").write_text("a file")
    syncing.send(last=True)
    remote.file_sync.collect()
    assert [remote.text(f"opt-ml/checkpoints/{name}") for name in ("last/w", "around", "out")] == ["6", "6", "a file"]
    assert left_below(remote.root / "run", PurePath("checkpoints")) == {"loop": Why.LINK, "up": Why.LINK}
    assert not remote.text("run/exit.json")


def test_a_file_that_comes_and_goes_is_not_reported(remote: Remote) -> None:
    """A script may make a link before its file: what is left out at two looks is said, or at the last."""
    syncing, kept = remote.agent(), remote.node / remote.base / "opt-ml/checkpoints"
    os.mkfifo(kept / "short")
    syncing.send()
    (kept / "short").unlink()
    os.mkfifo(kept / "long")
    for _ in range(3):
        syncing.send()
    remote.file_sync.collect()
    assert left_below(remote.root / "run", PurePath("checkpoints")) == {"long": Why.SPECIAL}


def test_what_the_agent_may_not_read_stays_and_is_not_gone(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    syncing, kept = remote.agent(), remote.node / remote.base / "opt-ml/checkpoints"
    (kept / "d").mkdir()
    for name in ("d/inner", "known"):
        (kept / name).write_text(name)
    syncing.send(last=True)
    remote.file_sync.collect()
    (kept / "new").write_text("new")
    with monkeypatch.context() as closed:
        _close(closed, kept, "d", "known", "new")
        syncing.send(last=True)
        remote.file_sync.collect()
        found = {name: remote.text(f"opt-ml/checkpoints/{name}") for name in ("d/inner", "known", "new")}
        assert found == {"d/inner": "d/inner", "known": "known", "new": ""}
        left = {"known": Why.UNREADABLE, "d/": Why.UNREADABLE, "new": Why.UNREADABLE}
        assert left_below(remote.root / "run", PurePath("checkpoints")) == left
    syncing.send(last=True)
    remote.file_sync.collect()
    assert remote.text("opt-ml/checkpoints/new") == "new"
    assert left_below(remote.root / "run", PurePath("checkpoints")) == {}


def _close(patch: pytest.MonkeyPatch, directory: Path, *names: str) -> None:
    """Lets the kernel's answers be those to a user without the right. Root, who may run this test, has every right."""
    inodes = {(directory / name).stat().st_ino for name in names}
    access, listed, opened = os.access, os.listdir, nofollow.open_at

    def may(name: str, mode: int, *, dir_fd: int, **options: Any) -> bool:
        return os.stat(name, dir_fd=dir_fd).st_ino not in inodes and access(name, mode, dir_fd=dir_fd, **options)

    def entries(place: int) -> list[str]:
        if os.stat(place).st_ino in inodes:
            raise PermissionError(errno.EACCES, "Permission denied")
        return listed(place)

    def open_at(parent: int, name: str) -> BinaryIO:
        if os.stat(name, dir_fd=parent).st_ino in inodes:
            raise PermissionError(errno.EACCES, "Permission denied", name)
        return opened(parent, name)

    patch.setattr(os, "access", may)
    patch.setattr(os, "listdir", entries)
    patch.setattr(nofollow, "open_at", open_at)


def test_directories_of_any_depth_go_up(remote: Remote) -> None:
    syncing, model = remote.agent(), remote.node / remote.base / "opt-ml/model"
    above = os.open(model, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=above)
        below = os.open("d", os.O_RDONLY, dir_fd=above)
        os.close(above)
        above = below
    os.close(above)
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(NESTED)
        syncing.send(last=True)
        remote.file_sync.collect()
        assert not remote.text("run/exit.json")
        assert (remote.root / "opt-ml/model" / "/".join(["d"] * DEEP)).is_dir()
    finally:
        sys.setrecursionlimit(limit)
        # pytest's own removal calls itself for each level.
        for directory in (model, remote.root / "opt-ml/model"):
            os.removedirs(directory / "/".join(["d"] * DEEP))
