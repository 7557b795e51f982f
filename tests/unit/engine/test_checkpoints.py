"""Checkpoints out to S3: continuous, whole, deletions and all, and after a crash of the server, too."""

import errno
import io
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from sagelet_engine.base import nofollow
from sagelet_engine.base.errors import ClientFault
from sagelet_engine.data import directory_sync
from sagelet_engine.data.checkpoints import Checkpoints
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.model import training
from sagelet_engine.model.job import JobStatus
from sagelet_engine.model.principal import owner
from support.fakes import FakeObjects
from support.world import World, key, request, until

CONFIG = {"S3Uri": "s3://ck/run"}


class Bench:
    """A job's hosts on the disk, and what syncs them; `again` is what a restarted server has."""

    def __init__(self, root: Path, hosts: int = 1, **config: str) -> None:
        resources = {"InstanceType": "ml.m5.large", "InstanceCount": hosts}
        body = request("one", ResourceConfig=resources, CheckpointConfig={**CONFIG, **config})
        self._job = training.create(key("one"), "id", body, {}, 0)
        self._directories = JobDirectories.of(root / "data", self._job)
        self.objects = FakeObjects(root / "s3")
        for name in self._job.hosts:
            self._directories.host(name).create()
            self.path(host=name).mkdir()
        self.again()
        self.checkpoints.begin()

    def again(self) -> None:
        self.checkpoints = Checkpoints(self.objects, self._job, self._directories)

    def path(self, name: str = "", host: str = "algo-1") -> Path:
        return self._directories.host(host).opt_ml / "checkpoints" / name

    def look(self) -> None:
        """Two looks: a file is taken when it did not change in between."""
        self.checkpoints.sync()
        self.checkpoints.sync()

    def stored(self) -> dict[str, bytes]:
        return self.objects.under("ck")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_files_go_out_as_they_are_and_deletions_follow(bench: Bench) -> None:
    bench.path("deep/er").mkdir(parents=True)
    bench.path("a").write_bytes(b"1")
    bench.path("deep/er/b").write_bytes(b"")
    bench.look()
    assert bench.stored() == {"run/a": b"1", "run/deep/er/b": b""}
    bench.path("deep/er/b").unlink()
    bench.path("a").rename(bench.path("c"))
    bench.look()
    assert bench.stored() == {"run/c": b"1"}


def test_what_did_not_change_is_not_sent_again(bench: Bench) -> None:
    bench.path("a").write_bytes(b"1")
    for _ in range(3):
        bench.look()
    bench.checkpoints.sync(final=True)
    assert bench.objects.uploads == ["s3://ck/run/a"]


def test_a_file_of_the_same_size_that_was_written_anew_goes_out(bench: Bench) -> None:
    bench.path("a").write_bytes(b"1")
    bench.look()
    bench.path("a").write_bytes(b"2")
    os.utime(bench.path("a"), ns=(1, 1))
    bench.look()
    assert bench.stored() == {"run/a": b"2"}


def test_a_file_that_is_being_written_waits_and_the_last_look_takes_it(bench: Bench) -> None:
    with bench.path("big").open("wb", buffering=0) as file:
        for _ in range(4):
            file.write(b"part")
            bench.checkpoints.sync()
            assert bench.stored() == {}
    bench.checkpoints.sync(final=True)
    assert bench.stored() == {"run/big": b"part" * 4}


def test_a_file_that_changes_while_it_is_copied_is_not_sent_torn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.path("a").write_bytes(b"old")
    copy = directory_sync.copy_whole

    def slow(*arguments: Any) -> None:
        copy(*arguments)
        bench.path("a").write_bytes(b"newer")

    monkeypatch.setattr(directory_sync, "copy_whole", slow)
    bench.look()
    assert bench.stored() == {}
    monkeypatch.undo()
    bench.look()
    assert bench.stored() == {"run/a": b"newer"}


def test_a_file_that_grows_as_fast_as_it_is_copied_holds_nobody_up(bench: Bench) -> None:
    path = bench.path("a")
    path.write_bytes(b"old")

    class Growing(io.BytesIO):
        def write(self, data: Any) -> int:
            with path.open("ab") as more:
                more.write(data)
            return super().write(data)

    with path.open("rb", buffering=0) as source:
        directory_sync.copy_whole(source, copied := Growing(), 3)
    assert copied.getvalue() == b"old"


def test_what_others_put_there_stays(bench: Bench) -> None:
    bench.objects.put("ck", "run/theirs", b"x")
    bench.objects.put("ck", "run2/theirs", b"x")
    bench.path("a").write_bytes(b"1")
    bench.look()
    bench.path("a").unlink()
    bench.checkpoints.sync(final=True)
    assert set(bench.stored()) == {"run/theirs", "run2/theirs"}
    assert not bench.path("theirs").exists()


def test_a_deletion_of_what_was_restored_follows(bench: Bench) -> None:
    bench.objects.put("ck", "run/old", b"old")
    bench.path("old").write_bytes(b"old")
    bench.checkpoints.begin()
    bench.look()
    assert bench.objects.uploads == []
    bench.path("old").unlink()
    bench.look()
    assert bench.stored() == {}


def test_what_another_prefix_brought_is_neither_sent_nor_deleted(bench: Bench) -> None:
    """The URI `s3://ck/run` also restores `run-10/x`."""
    for name in ("x", "y"):
        bench.objects.put("ck", f"run-10/{name}", b"theirs")
        bench.path("run-10").mkdir(exist_ok=True)
        bench.path(f"run-10/{name}").write_bytes(b"theirs")
    bench.checkpoints.begin()
    bench.look()
    assert bench.objects.uploads == []
    bench.path("run-10/x").unlink()
    bench.path("run-10/y").write_bytes(b"my own now")
    bench.look()
    assert bench.stored() == {"run-10/x": b"theirs", "run-10/y": b"theirs", "run/run-10/y": b"my own now"}


def test_hosts_share_one_prefix(tmp_path: Path) -> None:
    bench = Bench(tmp_path, hosts=2)
    bench.path("a").write_bytes(b"1")
    bench.path("b", "algo-2").write_bytes(b"2")
    bench.look()
    assert bench.stored() == {"run/a": b"1", "run/b": b"2"}
    bench.path("a").unlink()
    bench.look()
    assert bench.stored() == {"run/b": b"2"}


def test_a_deletion_does_not_take_what_another_host_wrote(tmp_path: Path) -> None:
    bench = Bench(tmp_path, hosts=2)
    bench.path("same").write_bytes(b"1")
    bench.path("same", "algo-2").write_bytes(b"2")
    bench.look()
    bench.path("same", "algo-2").unlink()
    for _ in range(2):
        bench.checkpoints.sync(final=True)
        assert bench.stored() == {"run/same": b"1"}
        bench.again()
    bench.path("same").unlink()
    bench.look()
    assert bench.stored() == {}


@pytest.mark.parametrize("instead", ["link", "link to its directory", "directory"])
def test_something_else_by_that_name_on_another_host_is_no_file(tmp_path: Path, instead: str) -> None:
    bench = Bench(tmp_path, hosts=2)
    bench.path("deep").mkdir()
    bench.path("deep/a").write_bytes(b"1")
    bench.look()
    other = bench.path("deep", "algo-2")
    if instead == "link to its directory":
        other.symlink_to(tmp_path)
        (tmp_path / "a").touch()
    else:
        other.mkdir()
        (other / "a").symlink_to("/etc/hostname") if instead == "link" else (other / "a").mkdir()
    bench.path("deep/a").unlink()
    bench.checkpoints.sync(final=True)
    assert bench.stored() == {}


def test_of_one_name_the_last_host_has_the_last_word(tmp_path: Path) -> None:
    bench = Bench(tmp_path, hosts=3)
    for number in (3, 1, 2):
        bench.path("same", f"algo-{number}").write_bytes(str(number).encode())
    bench.look()
    bench.checkpoints.sync(final=True)
    assert bench.stored() == {"run/same": b"3"}


def test_what_one_host_deletes_of_the_restored_stays_deleted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, hosts=2)
    bench.objects.put("ck", "run/old", b"old")
    for host in ("algo-1", "algo-2"):
        bench.path("old", host).write_bytes(b"old")
    bench.checkpoints.begin()
    bench.look()
    bench.path("old", "algo-1").unlink()
    bench.look()
    assert bench.stored() == {}
    bench.again()
    bench.checkpoints.sync(final=True)
    assert bench.stored() == {}
    bench.path("old", "algo-2").write_bytes(b"new")
    bench.checkpoints.sync(final=True)
    assert bench.stored() == {"run/old": b"new"}


def test_the_next_server_sends_what_is_missing_and_deletes_what_went_meanwhile(bench: Bench) -> None:
    for name in ("kept", "went", "changed"):
        bench.path(name).write_bytes(name.encode())
    bench.look()
    bench.objects.uploads.clear()
    bench.path("went").unlink()
    bench.path("changed").write_bytes(b"CHANGED")
    bench.path("new").write_bytes(b"new")
    bench.again()
    bench.look()
    assert bench.stored() == {"run/kept": b"kept", "run/changed": b"CHANGED", "run/new": b"new"}
    assert sorted(bench.objects.uploads) == ["s3://ck/run/changed", "s3://ck/run/new"]


def test_an_s3_that_forgot_gets_everything_again(bench: Bench) -> None:
    bench.path("a").write_bytes(b"1")
    bench.look()
    bench.objects.delete(owner(""), "ck", "run/a")
    bench.again()
    bench.look()
    assert bench.stored() == {"run/a": b"1"}


@pytest.mark.parametrize("call", ["batch", "delete"])
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_an_object_leaves_none_behind(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, call: str, after: bool
) -> None:
    """Killed at the upload of one file or the deletion of another: the next server has them both right."""
    bench.path("old").write_bytes(b"1")
    bench.look()
    bench.path("old").unlink()
    bench.path("tmp").write_bytes(b"2")
    work = getattr(bench.objects, call)

    @contextmanager
    def dying_batch(*arguments: Any) -> Iterator[Any]:
        with work(*arguments) as batch:
            yield batch
            if not after:
                raise KeyboardInterrupt
        raise KeyboardInterrupt

    def dying(*arguments: Any) -> None:
        if after:
            work(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bench.objects, call, dying_batch if call == "batch" else dying)
        with pytest.raises(KeyboardInterrupt):
            bench.look()
    bench.path("tmp").unlink()
    bench.path("new").write_bytes(b"3")
    bench.again()
    bench.checkpoints.sync(final=True)
    assert bench.stored() == {"run/new": b"3"}


@pytest.mark.parametrize("place", ["checkpoints", "state", "state/deep"])
def test_a_link_in_place_of_the_directory_is_refused(tmp_path: Path, place: str) -> None:
    bench = Bench(tmp_path, LocalPath=f"/opt/ml/{place}")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/deep").mkdir()
    (tmp_path / "secret/key").write_text("secret")
    top = bench.path().parent / place.split("/")[0]
    if top.exists():
        top.rmdir()
    top.symlink_to(tmp_path / "secret")
    with pytest.raises(ClientFault, match=f"/opt/ml/{place} is a symbolic link"):
        bench.checkpoints.sync(final=True)
    assert bench.stored() == {}


def test_links_to_outside_and_pipes_are_left_out_and_named(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").write_text("secret")
    bench.path("link").symlink_to(tmp_path / "secret/key")
    bench.path("directory").symlink_to(tmp_path / "secret")
    bench.path("nowhere").symlink_to("missing")
    bench.path("up").symlink_to("../../../../secret/key")
    bench.path("self").symlink_to("self")
    os.mkfifo(bench.path("pipe"))
    bench.path("file").write_bytes(b"1")
    bench.checkpoints.sync(final=True)
    assert bench.stored() == {"run/file": b"1"}
    start = "sagelet: warning: not uploaded from /opt/ml/checkpoints: "
    links, special = sorted(text.removeprefix(start) for _, text in bench.checkpoints.warnings())
    assert links.startswith("'directory', 'link', 'nowhere', 'self', 'up'. A link is uploaded if it names a file of")
    assert special == "'pipe'. Only files go to S3, not pipes, sockets and devices"
    bench.checkpoints.sync(final=True)
    assert bench.checkpoints.warnings() == []


def test_what_a_link_names_in_the_same_directory_goes_under_its_name(bench: Bench) -> None:
    """Lightning's last.ckpt, a directory `latest`, absolute links, and the layout of the Hugging Face Hub's cache."""
    bench.path("epoch=0.ckpt").write_bytes(b"0")
    bench.path("last.ckpt").symlink_to("epoch=0.ckpt")
    bench.path("absolute").symlink_to("/opt/ml/checkpoints/epoch=0.ckpt")
    bench.path("host").symlink_to(bench.path("epoch=0.ckpt"))
    bench.path("checkpoint-10").mkdir()
    bench.path("checkpoint-10/optimizer.pt").write_bytes(b"10")
    bench.path("latest").symlink_to("checkpoint-10")
    bench.path("models--gpt2/blobs").mkdir(parents=True)
    bench.path("models--gpt2/snapshots/r").mkdir(parents=True)
    bench.path("models--gpt2/blobs/b").write_bytes(b"blob")
    bench.path("models--gpt2/snapshots/r/config.json").symlink_to("../../blobs/b")
    bench.look()
    files = {
        "run/epoch=0.ckpt": b"0",
        "run/last.ckpt": b"0",
        "run/absolute": b"0",
        "run/host": b"0",
        "run/checkpoint-10/optimizer.pt": b"10",
        "run/latest/optimizer.pt": b"10",
        "run/models--gpt2/blobs/b": b"blob",
        "run/models--gpt2/snapshots/r/config.json": b"blob",
    }
    assert bench.stored() == files
    assert bench.checkpoints.warnings() == []
    bench.path("epoch=1.ckpt").write_bytes(b"1")
    bench.path("last.ckpt").unlink()
    bench.path("last.ckpt").symlink_to("epoch=1.ckpt")
    bench.path("latest").unlink()
    bench.look()
    del files["run/latest/optimizer.pt"]
    assert bench.stored() == {**files, "run/epoch=1.ckpt": b"1", "run/last.ckpt": b"1"}


def test_a_link_that_waits_for_its_file_is_not_named_at_once(bench: Bench) -> None:
    bench.path("last").symlink_to("next")
    bench.checkpoints.sync()
    assert bench.checkpoints.warnings() == []
    bench.path("next").write_bytes(b"1")
    bench.look()
    assert bench.checkpoints.warnings() == []
    assert bench.stored() == {"run/last": b"1", "run/next": b"1"}


def test_a_file_that_may_not_be_read_is_left_out_and_stays_in_s3(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(root: nofollow.Root, inner: nofollow.Inner) -> BinaryIO:
        if inner == ("locked",):
            raise PermissionError(errno.EACCES, "Permission denied", "locked")
        return opened(root, inner)

    opened = nofollow.open_file
    bench.path("locked").write_bytes(b"1")
    bench.look()
    monkeypatch.setattr(nofollow, "open_file", denied)
    bench.path("locked").write_bytes(b"22")
    bench.path("open").write_bytes(b"3")
    bench.checkpoints.sync(final=True)
    assert bench.stored() == {"run/locked": b"1", "run/open": b"3"}
    ((_, warning),) = bench.checkpoints.warnings()
    assert warning.endswith("'locked'. The server's user may not read the file: change the mode")


def test_a_directory_that_may_not_be_read_is_named_and_its_files_stay_in_s3(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.path("deep").mkdir()
    bench.path("deep/a").write_bytes(b"1")
    bench.look()
    monkeypatch.setattr(os, "access", lambda name, *_arguments, **_options: name != "deep")
    bench.checkpoints.sync(final=True)
    assert bench.stored() == {"run/deep/a": b"1"}
    ((_, warning),) = bench.checkpoints.warnings()
    assert "'deep/'. The server's user may not read" in warning


def test_a_job_directory_that_was_removed_from_outside_deletes_nothing(bench: Bench, tmp_path: Path) -> None:
    bench.path("a").write_bytes(b"1")
    bench.look()
    bench.path().parent.rename(tmp_path / "elsewhere")
    bench.checkpoints.sync(final=True)
    assert bench.stored() == {"run/a": b"1"}


def test_a_directory_that_cannot_be_read_deletes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.path("deep").mkdir()
    bench.path("deep/a").write_bytes(b"1")
    bench.look()
    walk = os.fwalk

    def denied(*arguments: Any, onerror: Callable[[OSError], None], **options: Any) -> Any:
        onerror(PermissionError("deep"))
        return walk(*arguments, onerror=onerror, **options)

    monkeypatch.setattr(os, "fwalk", denied)
    with pytest.raises(PermissionError):
        bench.checkpoints.sync(final=True)
    assert bench.stored() == {"run/deep/a": b"1"}


# --- in the life of a job -------------------------------------------------------------------------------------------


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_sync, "PERIOD", 0.01)


def running(world: World) -> Path:
    """A job that runs; its checkpoint directory."""
    world.create("one", CheckpointConfig=CONFIG)
    opt_ml = world.host("one").plan.hosts[0].opt_ml
    until(lambda: world.job("one").launched)
    return opt_ml / "checkpoints"


@pytest.mark.usefixtures("quick")
def test_checkpoints_are_in_s3_while_the_job_runs(world: World) -> None:
    world.objects.put("ck", "run/step-1", b"old")
    world.objects.put("ck", "run-of-another/step-9", b"theirs")
    directory = running(world)
    assert {path.name for path in directory.iterdir()} == {"step-1", "run-of-another"}
    (directory / "step-2").write_bytes(b"new")
    until(lambda: "run/step-2" in world.objects.under("ck"))
    (directory / "step-1").unlink()
    until(lambda: set(world.objects.under("ck", "run/")) == {"run/step-2"})
    assert not world.job("one").terminal
    (directory / "step-3").write_bytes(b"last")
    world.host("one").end(0)
    assert world.ended("one").status is JobStatus.COMPLETED
    assert world.objects.under("ck", "run/") == {"run/step-2": b"new", "run/step-3": b"last"}
    assert world.objects.uploads.count("s3://ck/run/step-2") == 1
    assert world.objects.under("ck", "run-of") == {"run-of-another/step-9": b"theirs"}
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "checkpoints-one"])


def test_a_local_path_outside_of_opt_ml_fails_the_job(world: World) -> None:
    world.create("one", CheckpointConfig={**CONFIG, "LocalPath": "/state"})
    assert (world.ended("one").failure_reason or "").startswith("ClientError: CheckpointConfig.LocalPath '/state'")


@pytest.mark.usefixtures("quick")
def test_a_restarted_server_goes_on_with_the_checkpoints(world: World) -> None:
    directory = running(world)
    (directory / "a").write_bytes(b"1")
    until(lambda: "run/a" in world.objects.under("ck"))
    world.engine.close()
    (directory / "a").unlink()
    (directory / "b").write_bytes(b"2")
    world.engine = world.boot()
    until(lambda: world.objects.under("ck") == {"run/b": b"2"})
    world.host("one").end(0)
    world.ended("one")
    assert world.objects.under("ck") == {"run/b": b"2"}


@pytest.mark.usefixtures("quick")
def test_an_s3_that_fails_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    upload: Callable[..., None] = world.objects.upload
    failures = iter([OSError("no space left")] * 3)

    def sometimes(*arguments: Any) -> None:
        if error := next(failures, None):
            raise error
        upload(*arguments)

    monkeypatch.setattr(world.objects, "upload", sometimes)
    (running(world) / "a").write_bytes(b"1")
    until(lambda: "run/a" in world.objects.under("ck"))
    world.host("one").end(0)
    assert world.ended("one").status is JobStatus.COMPLETED


def test_the_ledger_is_no_file_of_the_container(world: World) -> None:
    directory = running(world)
    ledger = directory.parent.parent / "checkpoints.json"
    assert json.loads(ledger.read_text()) == []
    world.host("one").end(0)
    world.ended("one")
