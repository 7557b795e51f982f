"""Channels in Pipe mode: a real feeder process and real FIFOs, read as training code reads them."""

import gzip
import json
import os
import signal
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.base.held_files import is_locked
from sagelet_engine.data.channels import recordio, spool
from sagelet_engine.data.channels.dealing import shuffled
from sagelet_engine.data.channels.pipe_mode import PipeFeed, PipeFeedLost
from sagelet_engine.data.channels.sources import JobObjects
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.model.job import SecondaryStatus
from sagelet_engine.model.training import TrainingJob
from support.channels import channel, job_with, manifest
from support.fakes import FakeObjects
from support.world import World, until

BIG = os.urandom(3_000_000)


class Pipes:
    """The feed of one job, and a reader of its FIFOs with a deadline."""

    def __init__(self, objects: FakeObjects, directories: JobDirectories, job: TrainingJob) -> None:
        self.feed = PipeFeed(job, directories)
        self._objects = JobObjects(objects, job)
        self.directories = directories
        for name in job.hosts:
            directories.host(name).create()

    def start(self) -> "Pipes":
        self.feed.stage(self._objects)
        self.feed.start()
        return self

    def path(self, epoch: int, host: str = "algo-1") -> Path:
        return self.directories.host(host).channels / f"training_{epoch}"

    def read(self, epoch: int, size: int = -1, host: str = "algo-1") -> bytes:
        until(lambda: self.path(epoch, host).exists())
        return read(self.path(epoch, host), size)

    @property
    def pid(self) -> int:
        return int(json.loads((self.directories.root / "pipe/feeder.json").read_text())["pid"])

    @property
    def alive(self) -> bool:
        return is_locked(self.directories.root / "pipe/lock")


def read(path: Path, size: int = -1, seconds: float = 30) -> bytes:
    """Blocks as training code does, but not for ever."""

    def blocking() -> bytes:
        with path.open("rb", buffering=0 if size >= 0 else -1) as pipe:
            return pipe.read(size)

    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(blocking).result(seconds)
    finally:
        pool.shutdown(wait=False)


@pytest.fixture
def objects(tmp_path: Path) -> FakeObjects:
    return FakeObjects(tmp_path / "s3")


@pytest.fixture
def pipes(objects: FakeObjects, tmp_path: Path) -> Iterator[Callable[..., Pipes]]:
    made: list[Pipes] = []

    def make(*channels: dict[str, Any], hosts: int = 1) -> Pipes:
        directories = JobDirectories(tmp_path / "jobs" / str(len(made)))
        made.append(Pipes(objects, directories, job_with(*channels, hosts=hosts)))
        return made[-1]

    yield make
    for one in made:
        one.feed.end()
        until(lambda one=one: not one.alive)  # type: ignore[misc]


def piped(url: str = "s3://in/d/", **more: Any) -> dict[str, Any]:
    return channel(url, mode="Pipe", **more)


def put(objects: FakeObjects, **contents: bytes) -> None:
    for name, data in contents.items():
        objects.put("in", f"d/{name}", data)


def records(data: bytes) -> list[bytes]:
    """An independent reader of RecordIO."""
    found, at = [], 0
    while at < len(data):
        magic, length = struct.unpack_from("<II", data, at)
        assert magic == 0xCED7230A
        found.append(data[at + 8 : at + 8 + length])
        at += 8 + (length + 3) // 4 * 4
    return found


# --- epochs ---------------------------------------------------------------------------------------------------------


def test_each_epoch_streams_all_objects_and_the_next_pipe_comes_after_it(
    objects: FakeObjects, pipes: Callable[..., Pipes]
) -> None:
    put(objects, a=BIG, b=b"", c=b"end")
    feed = pipes(piped()).start()
    for epoch in range(3):
        assert sorted(path.name for path in feed.path(0).parent.iterdir()) == [f"training_{epoch}"]
        assert feed.path(epoch).is_fifo()
        # Not `feed.read`: whoever saw the end of an epoch finds the next pipe at once.
        assert read(feed.path(epoch)) == BIG + b"end"


def test_a_reader_that_leaves_early_gets_the_next_epoch_from_its_start(
    objects: FakeObjects, pipes: Callable[..., Pipes]
) -> None:
    put(objects, a=BIG)
    feed = pipes(piped()).start()
    assert feed.read(0, 10) == BIG[:10]
    assert feed.read(1, 10) == BIG[:10]
    assert feed.read(2) == BIG


def test_channels_are_fed_side_by_side(objects: FakeObjects, pipes: Callable[..., Pipes]) -> None:
    put(objects, a=BIG)
    feed = pipes(piped(), piped(name="second")).start()
    with feed.path(0).open("rb", buffering=0) as held:
        assert held.read(5) == BIG[:5]
        assert read(feed.path(0).with_name("second_0")) == BIG


def test_a_pipe_that_the_container_replaced_by_a_link_is_not_followed(
    objects: FakeObjects, pipes: Callable[..., Pipes], tmp_path: Path
) -> None:
    put(objects, a=b"new")
    victim = tmp_path / "victim"
    victim.write_text("old")
    feed = pipes(piped(), piped(name="other")).start()
    feed.read(0)
    # The feeder waits in open for epoch 1; what it opens after that is what the container left there.
    target = feed.path(2)
    target.symlink_to(victim)
    assert feed.read(1) == b"new"
    log = feed.directories.root / "pipe/log"
    until(lambda: "nothing more is fed" in log.read_text())
    assert victim.read_text() == "old"
    assert read(feed.path(0).with_name("other_0")) == b"new"
    feed.feed.check()


# --- order and shares -----------------------------------------------------------------------------------------------


def test_a_seed_shuffles_every_epoch_anew(objects: FakeObjects, pipes: Callable[..., Pipes]) -> None:
    letters = "abcdefghij"
    put(objects, **{letter: letter.encode() for letter in letters})
    feed = pipes(piped(ShuffleConfig={"Seed": 5})).start()
    epochs = [feed.read(epoch).decode() for epoch in range(3)]
    assert epochs == ["".join(shuffled(letters, 5, epoch)) for epoch in range(3)]
    assert len(set(epochs)) == 3


def test_shares_change_hosts_from_epoch_to_epoch_only_when_shuffled(
    objects: FakeObjects, pipes: Callable[..., Pipes]
) -> None:
    letters = "abcdefghij"
    put(objects, **{letter: letter.encode() for letter in letters})
    feed = pipes(piped(S3DataDistributionType="ShardedByS3Key"), hosts=2).start()
    for epoch in range(2):
        assert [feed.read(epoch, host=host) for host in ("algo-1", "algo-2")] == [b"acegi", b"bdfhj"]
    feed = pipes(piped(S3DataDistributionType="ShardedByS3Key", ShuffleConfig={"Seed": 1}), hosts=2).start()
    for epoch in range(2):
        order = "".join(shuffled(letters, 1, epoch))
        shares = [feed.read(epoch, host=host).decode() for host in ("algo-1", "algo-2")]
        assert shares == [order[::2], order[1::2]]


def test_a_manifest_gives_objects_and_order(objects: FakeObjects, pipes: Callable[..., Pipes]) -> None:
    put(objects, a=b"1", b=b"2", c=b"3")
    objects.put("in", "m", manifest("s3://in/d/", "c", "a"))
    assert pipes(piped("s3://in/m", kind="ManifestFile")).start().read(0) == b"31"


# --- content --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 300_001])
def test_each_object_is_a_record_of_its_own(objects: FakeObjects, pipes: Callable[..., Pipes], size: int) -> None:
    put(objects, a=b"x" * size, b=b"yes")
    read_back = records(pipes(piped(RecordWrapperType="RecordIO")).start().read(0))
    assert read_back == [b"x" * size, b"yes"]


def test_gzip_is_unpacked_before_it_is_wrapped(objects: FakeObjects, pipes: Callable[..., Pipes]) -> None:
    put(objects, a=gzip.compress(BIG), b=gzip.compress(b"b") + gzip.compress(b"c"))
    feed = pipes(piped(CompressionType="Gzip", RecordWrapperType="RecordIO")).start()
    assert records(feed.read(0)) == [BIG, b"bc"]


@pytest.mark.parametrize(
    "damaged", [b"plain", gzip.compress(b"x" * 1000, mtime=0)[:-9], b""], ids=["plain", "cut", "empty"]
)
def test_an_object_that_is_no_gzip_file_is_named(
    objects: FakeObjects, pipes: Callable[..., Pipes], damaged: bytes
) -> None:
    put(objects, a=gzip.compress(b"a"), z=damaged)
    if not damaged:
        assert pipes(piped(CompressionType="Gzip")).start().read(0) == b"a"
        return
    with pytest.raises(ClientFault, match="s3://in/d/z is not a gzip file"):
        pipes(piped(CompressionType="Gzip")).start()


def test_an_augmented_manifest_streams_its_attributes_in_order(
    objects: FakeObjects, pipes: Callable[..., Pipes]
) -> None:
    put(objects, a=b"image a", b=b"image b")
    entries = [
        {"image-ref": "s3://in/d/b", "label": 7, "extra": "not asked for", "boxes": {"x": [1, 2.5]}, "name": "größe"},
        {"name": "two", "boxes": None, "label": 8, "image-ref": "s3://in/d/a"},
        {"name": "three", "boxes": True, "label": 9, "image-ref": "s3://in/d/b"},
    ]
    objects.put("in", "m", "\n\n".join(json.dumps(entry) for entry in entries).encode())
    names = ["label", "image-ref", "name", "boxes"]
    config = piped("s3://in/m", kind="AugmentedManifestFile", AttributeNames=names, RecordWrapperType="RecordIO")
    feed = pipes(config).start()
    assert records(feed.read(0)) == [
        *(b"7", b"image b", "größe".encode(), b'{"x": [1, 2.5]}'),
        *(b"8", b"image a", b"two", b"null"),
        *(b"9", b"image b", b"three", b"true"),
    ]
    assert len(list((feed.directories.root / "pipe/channels/training").iterdir())) == 3, "an object was fetched twice"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("no json", "line 2 .* it is not a JSON object"),
        ("[1]", "line 2 .* it is not a JSON object"),
        ("{}", "line 2 .* it has no attribute 'image-ref'"),
        ('{"image-ref": 5}', "line 2 .* its image-ref is not the S3 URI of an object: 5"),
        ('{"image-ref": "https://x/y"}', "line 2 .* is not the S3 URI"),
        ('{"image-ref": "s3://in/none"}', "the object s3://in/none does not exist"),
    ],
)
def test_a_bad_line_of_a_manifest_is_named(
    objects: FakeObjects, pipes: Callable[..., Pipes], line: str, why: str
) -> None:
    put(objects, a=b"a")
    objects.put("in", "m", f'{{"image-ref": "s3://in/d/a"}}\n{line}\n'.encode())
    with pytest.raises(ClientFault, match=f"^Data download failed:.*{why}"):
        pipes(piped("s3://in/m", kind="AugmentedManifestFile", AttributeNames=["image-ref"])).start()


def test_a_channel_without_objects_is_the_clients_fault(pipes: Callable[..., Pipes]) -> None:
    with pytest.raises(ClientFault, match='No S3 objects found under S3 URL "s3://none/x" given'):
        pipes(piped("s3://none/x")).start()


def test_an_object_too_large_for_a_record_is_refused(
    objects: FakeObjects, pipes: Callable[..., Pipes], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(objects, a=b"12345")
    monkeypatch.setattr(spool.recordio, "MAX_LENGTH", 4)
    with pytest.raises(ClientFault, match=r"s3://in/d/a \(5 bytes\) does not fit into a RecordIO record"):
        pipes(piped(RecordWrapperType="RecordIO")).start()
    assert pipes(piped()).start().read(0) == b"12345"


def test_the_frame_of_a_record() -> None:
    assert recordio.header(5) == bytes.fromhex("0a23d7ce05000000")
    assert [len(recordio.padding(size)) for size in range(5)] == [0, 3, 2, 1, 0]
    with pytest.raises(ValueError, match="do not fit"):
        recordio.header(2**29)


# --- life of the feeder ---------------------------------------------------------------------------------------------


def test_the_feeder_is_started_once_and_ends_with_its_job(objects: FakeObjects, pipes: Callable[..., Pipes]) -> None:
    put(objects, a=b"a")
    feed = pipes(piped()).start()
    pid = feed.pid
    feed.feed.start()
    assert feed.pid == pid
    feed.feed.check()
    feed.feed.end()
    until(lambda: not Path(f"/proc/{pid}").exists())
    assert not (feed.directories.root / "pipe").exists()
    feed.feed.end()


def test_memory_does_not_grow_with_what_is_streamed(objects: FakeObjects, pipes: Callable[..., Pipes]) -> None:
    put(objects, **{f"n{number}": BIG for number in range(40)})
    feed = pipes(piped()).start()
    with feed.path(0).open("rb") as pipe:
        total = sum(len(chunk) for chunk in iter(lambda: pipe.read(1 << 20), b""))
    assert total == 40 * len(BIG)
    status = Path(f"/proc/{feed.pid}/status").read_text().splitlines()
    (peak,) = [int(line.split()[1]) for line in status if line.startswith("VmHWM:")]
    assert peak < 40_000, f"{peak} KiB"


def test_a_feeder_that_is_gone_is_noticed(objects: FakeObjects, pipes: Callable[..., Pipes]) -> None:
    put(objects, a=b"a")
    feed = pipes(piped()).start()
    os.kill(feed.pid, signal.SIGKILL)
    until(lambda: not feed.alive)
    with pytest.raises(PipeFeedLost, match="ended before the job"):
        feed.feed.check()


def test_what_breaks_the_feeder_is_told(objects: FakeObjects, pipes: Callable[..., Pipes]) -> None:
    put(objects, a=b"a")
    feed = pipes(piped()).start()
    feed.feed.end()
    until(lambda: not feed.alive)
    feed.path(0).unlink()
    feed.path(0).mkdir()
    with pytest.raises(PipeFeedLost, match=r"did not start: (.|\n)*FileExistsError"):
        feed.start()


# --- in the life of a job -------------------------------------------------------------------------------------------


def pipe_of(world: World, name: str, epoch: int) -> Path:
    return Path(world.host(name).plan.hosts[0].opt_ml / f"input/data/training_{epoch}")


def pipe_directory(world: World, name: str) -> Path:
    return JobDirectories.of(world.settings.data, world.job(name)).root / "pipe"


def test_a_restart_of_the_server_neither_cuts_nor_repeats_a_stream(world: World) -> None:
    world.objects.put("in", "d/a", BIG)
    world.create("one", InputDataConfig=[piped()])
    with pipe_of(world, "one", 0).open("rb") as pipe:
        begun = pipe.read(1_000_000)
        world.restart()
        assert begun + pipe.read() == BIG
    assert read(pipe_of(world, "one", 1)) == BIG
    world.host("one").end(0)
    assert world.ended("one").secondary is SecondaryStatus.COMPLETED
    assert not pipe_directory(world, "one").exists()


def test_a_job_whose_stream_was_cut_does_not_complete(world: World) -> None:
    world.objects.put("in", "d/a", BIG)
    world.create("one", InputDataConfig=[piped()])
    world.host("one")
    until(lambda: world.job("one").launched)
    os.kill(json.loads((pipe_directory(world, "one") / "feeder.json").read_text())["pid"], signal.SIGKILL)
    job = world.ended("one")
    assert job.secondary is SecondaryStatus.FAILED
    assert str(job.failure_reason).startswith("InternalServerError")
    assert world.runtime.reaped == [job.id]
    assert not pipe_directory(world, "one").exists()


def test_a_stopped_job_leaves_no_feeder(world: World) -> None:
    world.objects.put("in", "d/a", b"a")
    world.create("one", InputDataConfig=[piped()])
    host = world.host("one")
    until(lambda: world.job("one").launched)
    pid = json.loads((pipe_directory(world, "one") / "feeder.json").read_text())["pid"]
    world.engine.jobs.stop(world.job("one").key)
    until(lambda: host.signals)
    host.end(143)
    assert world.ended("one").secondary is SecondaryStatus.STOPPED
    until(lambda: not Path(f"/proc/{pid}").exists())
