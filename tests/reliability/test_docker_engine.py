"""The Docker Engine killed under running jobs, and started again. It is an engine of the test's own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.failpoints import BUCKET, Mortal
from support.killed_jobs import check_bill, model, trains
from support.private_docker import PrivateDocker
from support.server import until

pytestmark = [pytest.mark.dockerd, pytest.mark.programs("busybox")]

PRINTS = 'i=0;until [ -e /opt/ml/go ];do echo "line $i";i=$((i+1));sleep 0.05;done;echo w >model/w'
MakeWorld = Callable[[bool], "World"]


class World:
    def __init__(self, root: Path, *, live_restore: bool) -> None:
        self.engine = PrivateDocker(live_restore=live_restore)
        self.engine.start()
        self.mortal = Mortal(root, [], "--runtime", "docker", image=self.engine.load_tiny_image())
        self.mortal.variables["DOCKER_HOST"] = self.engine.host
        self.mortal.start()
        self.mortal.client("s3").create_bucket(Bucket=BUCKET)

    def close(self) -> None:
        self.mortal.close()
        self.engine.close()

    def prints(self, least: int) -> bool:
        """Whether the job's log has so many lines."""
        return any(len(lines) > least for lines in self.mortal.log(self.name).values())

    def begin(self) -> None:
        self.name = self.mortal.create("prints", PRINTS)
        until(lambda: self.prints(10))

    def touch(self) -> None:
        for opt_ml in self.mortal.server.data.glob("jobs/*/*/*/algo-*/opt-ml"):
            (opt_ml / "go").touch()


def docker0() -> str | None:
    """The number of the bridge of the machine's own engine, which a new one would not have."""
    number = Path("/sys/class/net/docker0/ifindex")
    return number.read_text() if number.exists() else None


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[MakeWorld]:
    made: list[World] = []

    def make(live_restore: bool) -> World:
        made.append(World(tmp_path, live_restore=live_restore))
        return made[-1]

    yield make
    for world in made:
        world.close()


def test_with_live_restore_the_job_goes_on(make_world: MakeWorld) -> None:
    world = make_world(True)
    mortal = world.mortal
    world.begin()
    world.engine.kill()
    assert mortal.describe(world.name)["TrainingJobStatus"] == "InProgress"
    late = mortal.create("late", "echo w >model/w")
    mortal.server.kill()
    world.engine.start()
    mortal.start()
    seen = len(mortal.log(world.name)["algo-1"])
    until(lambda: world.prints(seen + 10))
    world.touch()
    job = mortal.ended(world.name)
    assert job["TrainingJobStatus"] == "Completed", job
    check_bill(job)
    (lines,) = mortal.log(world.name).values()
    assert lines == [f"line {number}" for number in range(len(lines))]
    assert set(mortal.starts().values()) == {1}
    assert mortal.ended(late)["TrainingJobStatus"] == "Completed"
    assert model(mortal, late) == {"w"}


def test_without_live_restore_the_job_fails_and_the_next_one_runs(make_world: MakeWorld) -> None:
    """An engine that was killed kills the containers of before when it starts again: exit code 137."""
    bridge = docker0()
    world = make_world(False)
    mortal = world.mortal
    world.begin()
    world.engine.kill()
    assert mortal.describe(world.name)["TrainingJobStatus"] == "InProgress"
    late = mortal.create("late", "echo w >model/w")
    mortal.client("sagemaker").stop_training_job(TrainingJobName=late)
    world.engine.start()
    assert docker0() == bridge
    job = mortal.ended(world.name)
    assert job["TrainingJobStatus"] == "Failed", job
    assert job["FailureReason"] == "AlgorithmError: , exit code: 137"
    check_bill(job)
    (lines,) = mortal.log(world.name).values()
    # The doctor has a word for a job that was killed.
    printed = [line for line in lines if line.startswith("line ")]
    assert printed == [f"line {number}" for number in range(len(printed))]
    assert mortal.ended(late)["TrainingJobStatus"] == "Stopped"
    trains(mortal)(mortal)
