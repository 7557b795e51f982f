"""Disks that are full or not to be written: state, jobs' directories and objects each on a small one of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.disks import SmallDisk, bind, own_mounts, unbind
from support.failpoints import BUCKET, Mortal
from support.killed_jobs import check_bill, model, trains
from support.server import until

pytestmark = [pytest.mark.xla, pytest.mark.mounts]

#: Prints until it gets a signal to end.
PRINTS = 'i=0;until [ -e {outside}/{word} ];do echo "line $i";i=$((i+1));sleep 0.02;done;echo w >model/w'
#: Prints nothing until then.
WAITS = "echo ready;until [ -e {outside}/{word} ];do sleep 0.02;done;echo w >model/w"
MakeWorld = Callable[..., "World"]


class World:
    """A server with one part of its data directory on a small disk, the rest elsewhere."""

    def __init__(self, root: Path, small: str, inodes: int = 0) -> None:
        data = root / "data"
        places = {"state": data, "jobs": data / "jobs", "s3": data / "s3"}
        self.bound: list[Path] = []
        self._root = root
        self.disk = SmallDisk(root / "disk", places[small], 24, inodes)
        if small == "state":
            self._bind()
        # Of its own, as `sagelet up` would make it: an open one with `lost+found` in it is refused.
        data.chmod(0o700)
        self.mortal = Mortal(root, [], "--runtime", "process", "--max-jobs", "3")
        self.mortal.start()
        self.mortal.client("s3").create_bucket(Bucket=BUCKET)

    def _bind(self) -> None:
        for name in ("jobs", "s3", "runtime"):
            bind(self._root / name, self._root / "data" / name)
            self.bound.append(self._root / "data" / name)

    def mend(self) -> None:
        """A disk that failed is there again."""
        bound = bool(self.bound)
        self._unbind()
        self.disk.mount_again()
        if bound:
            self._bind()

    def _unbind(self) -> None:
        while self.bound:
            unbind(self.bound.pop())

    def close(self) -> None:
        self.mortal.close()
        self._unbind()
        self.disk.unmount()
        self.disk.remove()

    def runs(self, script: str, word: str) -> str:
        """A job that runs; `let_go(WORD)` ends it."""
        name = self.mortal.create(word, script.format(outside="/opt/ml/input/data/outside", word=word))
        until(lambda: self.mortal.log(name))
        return name

    def let_go(self, word: str) -> None:
        (self.mortal.outside / word).touch()


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[MakeWorld]:
    made: list[World] = []
    own_mounts()

    def make(small: str, inodes: int = 0) -> World:
        made.append(World(tmp_path, small, inodes))
        return made[-1]

    yield make
    for world in made:
        world.close()


def submit(mortal: Mortal) -> None:
    """A job too many, which the disk may or may not take."""
    mortal.create("more", "true")


def last_message(mortal: Mortal, name: str) -> str:
    job = mortal.client("sagemaker").describe_training_job(TrainingJobName=name)
    return str(job["SecondaryStatusTransitions"][-1]["StatusMessage"])


def refusal(call: Callable[[], Any]) -> tuple[str, int, str]:
    """Code, HTTP status and message of the first refusal: the last blocks of a disk may hold a call or two."""

    def refused() -> ClientError | None:
        try:
            call()
        except ClientError as error:
            return error
        return None

    error = until(refused).response
    return error["Error"]["Code"], error["ResponseMetadata"]["HTTPStatusCode"], error["Error"]["Message"]


def test_a_full_disk_under_the_state(make_world: MakeWorld) -> None:
    world = make_world("state")
    mortal = world.mortal
    name = world.runs(PRINTS, "prints")
    world.disk.fill()
    code, status, message = refusal(lambda: submit(mortal))
    assert (code, status) == ("InternalFailure", 500)
    assert "Free space on its disk" in message
    assert mortal.describe(name)["TrainingJobStatus"] == "InProgress"
    code, status, message = refusal(lambda: mortal.client("sagemaker").stop_training_job(TrainingJobName=name))
    assert (code, status) == ("InternalFailure", 500)
    world.let_go("prints")
    until(lambda: list(mortal.server.data.glob("jobs/**/run/exit.json")))
    assert mortal.describe(name)["TrainingJobStatus"] == "InProgress"
    world.disk.free()
    job = mortal.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job
    check_bill(job)
    (lines,) = mortal.log(name).values()
    assert lines == [f"line {number}" for number in range(len(lines))]
    assert model(mortal, name) == {"w"}
    trains(mortal)(mortal)


def test_a_full_disk_under_the_jobs(make_world: MakeWorld) -> None:
    world = make_world("jobs")
    mortal = world.mortal
    name = world.runs(WAITS, "neighbour")
    world.disk.fill()
    late = mortal.ended(mortal.create("late", "true"))
    assert late["TrainingJobStatus"] == "Failed"
    assert late["FailureReason"].startswith("InternalServerError")
    assert "No space left on device" in late["SecondaryStatusTransitions"][-1]["StatusMessage"]
    assert mortal.describe(name)["TrainingJobStatus"] == "InProgress"
    world.disk.free()
    world.let_go("neighbour")
    assert mortal.ended(name)["TrainingJobStatus"] == "Completed"
    assert model(mortal, name) == {"w"}
    trains(mortal)(mortal)


def test_a_script_that_fills_the_disk_of_the_jobs(make_world: MakeWorld) -> None:
    """Its end cannot be noted beside it; the job ends all the same, and another one runs as soon as there is space."""
    world = make_world("jobs")
    mortal = world.mortal
    name = mortal.create("fills", "while echo 0123456789abcdef;do true;done >model/all 2>/dev/null;exit 9")
    job = mortal.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"] == "AlgorithmError: , exit code: 9"
    mortal.client("sagemaker").delete_training_job(TrainingJobName=name)
    trains(mortal)(mortal)


def test_a_script_that_prints_to_a_full_disk(make_world: MakeWorld) -> None:
    """What it prints has no room: it goes on, its end is its own, and the log says how much is missing."""
    world = make_world("jobs")
    mortal = world.mortal
    outside = mortal.outside
    script = (
        f"echo first;until [ -e {outside}/full ];do sleep 0.02;done;seq 1 200000;echo >{outside}/printed;"
        f"until [ -e {outside}/prints ];do sleep 0.02;done;echo last;exit 9"
    )
    name = world.runs(script, "prints")
    world.disk.fill()
    (outside / "full").touch()
    until((outside / "printed").exists)
    world.disk.free()
    world.let_go("prints")
    job = mortal.ended(name)
    assert job["FailureReason"] == "AlgorithmError: , exit code: 9"
    (lines,) = mortal.log(name).values()
    lines = [line for line in lines if not line.startswith("sagelet doctor: ")]
    assert (lines[0], lines[-1]) == ("first", "last")
    # A full disk may take a block now and then.
    notices = [line for line in lines if line.startswith("sagelet: the disk was full: ")]
    missing = sum(int(line.split()[5]) for line in notices)
    there = sum(len(line) + 1 for line in lines[1:-1] if line not in notices)
    printed = len("".join(f"{number}\n" for number in range(1, 200_001)))
    assert missing > 0
    # Each notice, whole or cut, may end a line that was cut.
    assert 0 <= there + missing - printed <= 80 * len(notices)


def test_a_full_disk_under_the_objects(make_world: MakeWorld) -> None:
    world = make_world("s3")
    mortal = world.mortal
    s3 = mortal.client("s3")
    s3.put_object(Bucket=BUCKET, Key="before", Body=b"before")
    name = world.runs(WAITS, "uploads")
    neighbour = world.runs(WAITS, "neighbour")
    world.disk.fill()
    code, status, message = refusal(lambda: s3.put_object(Bucket=BUCKET, Key="more", Body=b"0" * 100_000))
    assert (code, status) == ("InternalFailure", 500)
    assert "Free space on its disk" in message
    assert s3.get_object(Bucket=BUCKET, Key="before")["Body"].read() == b"before"
    world.let_go("uploads")
    until(lambda: "Waiting for room on the disk: " in last_message(mortal, name))
    assert "Free space on its disk" in last_message(mortal, name)
    world.disk.free()
    s3.put_object(Bucket=BUCKET, Key="more", Body=b"0" * 100_000)
    assert mortal.ended(name)["TrainingJobStatus"] == "Completed"
    assert model(mortal, name) == {"w"}
    world.let_go("neighbour")
    assert mortal.ended(neighbour)["TrainingJobStatus"] == "Completed"
    assert model(mortal, neighbour) == {"w"}


def test_no_inodes_under_the_objects(make_world: MakeWorld) -> None:
    """Most of the bytes are free, and no file can be made."""
    world = make_world("s3", inodes=600)
    mortal = world.mortal
    s3 = mortal.client("s3")
    s3.put_object(Bucket=BUCKET, Key="before", Body=b"before")
    name = world.runs(WAITS, "uploads")
    world.disk.fill_inodes()
    code, status, message = refusal(lambda: s3.put_object(Bucket=BUCKET, Key="more", Body=b"0"))
    assert (code, status) == ("InternalFailure", 500)
    assert "no inode left: remove files from it" in message
    code, status, message = refusal(lambda: mortal.client("s3").create_multipart_upload(Bucket=BUCKET, Key="x") and (
        s3.put_object(Bucket=BUCKET, Key="new/place", Body=b"0")
    ))  # fmt: skip
    assert "no inode left: remove files from it" in message
    assert s3.get_object(Bucket=BUCKET, Key="before")["Body"].read() == b"before"
    world.let_go("uploads")
    until(lambda: "no inode left: remove files from it" in last_message(mortal, name))
    world.disk.free()
    s3.put_object(Bucket=BUCKET, Key="more", Body=b"0")
    assert mortal.ended(name)["TrainingJobStatus"] == "Completed"
    trains(mortal)(mortal)


def test_no_inodes_under_the_jobs(make_world: MakeWorld) -> None:
    world = make_world("jobs", inodes=600)
    mortal = world.mortal
    name = world.runs(WAITS, "neighbour")
    world.disk.fill_inodes()
    late = mortal.ended(mortal.create("late", "true"))
    assert late["FailureReason"].startswith("InternalServerError")
    message = late["SecondaryStatusTransitions"][-1]["StatusMessage"]
    assert "No space left on device" in message
    assert "no inode left: remove files from it" in message
    world.disk.free()
    world.let_go("neighbour")
    assert mortal.ended(name)["TrainingJobStatus"] == "Completed"
    trains(mortal)(mortal)


def test_a_disk_of_the_state_that_fails(make_world: MakeWorld) -> None:
    """As after an error of the device: the kernel lets nobody write to it any more."""
    world = make_world("state")
    mortal = world.mortal
    ended = mortal.create("before", "true")
    mortal.ended(ended)
    world.disk.fail()
    code, status, message = refusal(lambda: submit(mortal))
    assert (code, status) == ("InternalFailure", 500)
    assert str(mortal.server.data) in message
    assert mortal.describe(ended)["TrainingJobStatus"] == "Completed"
    mortal.server.kill()
    assert not mortal.server.begin()
    (said,) = [line for line in mortal.server.output if line.startswith("Error")]
    assert f"--data {mortal.server.data}" in said
    assert "Read-only file system" in said
    world.mend()
    mortal.start()
    assert mortal.describe(ended)["TrainingJobStatus"] == "Completed"
    trains(mortal)(mortal)


def test_a_disk_of_the_jobs_that_fails(make_world: MakeWorld) -> None:
    world = make_world("jobs")
    mortal = world.mortal
    world.disk.fail()
    job = mortal.ended(mortal.create("late", "true"))
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("InternalServerError")
    assert "Read-only file system" in job["SecondaryStatusTransitions"][-1]["StatusMessage"]
    world.mend()
    trains(mortal)(mortal)
