"""When simulated time may go on: the moments between the pacemaker's questions."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import sagelet.testing
from sagelet_engine.model import lifecycle, training
from sagelet_engine.model.job import Job, JobKey, SecondaryStatus
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.tuning import TuningJob
from sagelet_engine.orchestration.orchestrator import Orchestrator
from sagelet_engine.settings import Settings
from sagelet_engine.simulation.clock import SimulatedClock
from sagelet_engine.simulation.functions import FunctionRuntime
from sagelet_engine.simulation.pacemaker import Pacemaker
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.orchestration_codecs import TUNING
from support.tuning import definition, tuning_request
from support.world import request

T0, LATER = 1_700_000_000_000, 1_700_003_600_000
KEY = JobKey("123456789012", "us-east-1", "first")
TUNED = OrchestrationKey("123456789012", "us-east-1", "tune", OrchestrationKind.TUNING)


class Idle:
    """The work of an orchestration with a deadline and nothing to do before it."""

    def step(self, record: TuningJob) -> float | None:
        return LATER


class Scene:
    """A pacemaker, and an orchestrator that drives one orchestration and has looked at everything."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock = SimulatedClock(T0)
        self.runtime = FunctionRuntime(self.clock, lambda plan: lambda host: 0)
        self.orchestrator = Orchestrator(store, self.clock, {OrchestrationKind.TUNING: Idle})
        self.read: Callable[[], Sequence[Job]] = store.unfinished
        self.pacemaker = Pacemaker(
            self.clock, self.runtime, Settings(data=Path("unused")), self._read, self.orchestrator, lambda *_: None
        )
        record = TuningJob(TUNED, "t" * 32, tuning_request("tune"), T0, T0)
        store.orchestrations.of(TUNING).insert(record)
        self.orchestrator.watch(record.id)
        self.heeded()

    def _read(self) -> Sequence[Job]:
        return self.read()

    def heeded(self) -> None:
        """The orchestrator has looked at all changes."""
        self.orchestrator._due_ms = LATER
        self.orchestrator._seen = self.store.changes.count

    def ends(self) -> TrainingJob:
        """Creates a job that has just ended, as far as its hosts are concerned."""
        job = training.create(KEY, "j" * 32, request("first"), {}, T0)
        self.store.insert(job)
        for status in (SecondaryStatus.DOWNLOADING, SecondaryStatus.TRAINING, SecondaryStatus.UPLOADING):
            job = self.store.update(lifecycle.advance(job, status, T0))
        return job


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    store = Store(tmp_path / "sagelet.db")
    yield Scene(store)
    store.close()


def test_time_goes_to_the_next_moment_of_an_orchestration(scene: Scene) -> None:
    scene.pacemaker.look()
    assert scene.clock.now_ms() == LATER


def test_a_job_that_ends_while_the_jobs_are_read_gets_its_orchestrators_look(scene: Scene) -> None:
    job = scene.ends()
    scene.heeded()

    def read() -> Sequence[Job]:
        scene.store.update(lifecycle.advance(job, SecondaryStatus.COMPLETED, T0))
        return scene.store.unfinished()

    scene.read = read
    scene.pacemaker.look()
    assert scene.clock.now_ms() == T0


def test_a_job_that_an_orchestrator_makes_while_the_jobs_are_read_is_waited_for(scene: Scene) -> None:
    """The orchestrator has looked at everything before the jobs are read, and again afterwards."""

    def read() -> Sequence[Job]:
        found = scene.store.unfinished()
        scene.store.insert(training.create(KEY, "j" * 32, request("first"), {}, T0))
        scene.heeded()
        return found

    scene.read = read
    scene.pacemaker.look()
    assert scene.clock.now_ms() == T0


def test_an_end_that_is_visible_and_not_counted_yet_is_waited_for(scene: Scene) -> None:
    """A commit is visible before it is flushed, and a flush takes milliseconds."""
    job = scene.ends()
    scene.heeded()
    with scene.store._changing() as db:
        db.execute("UPDATE jobs SET terminal = 1 WHERE id = ?", (job.id,))
        db.execute("COMMIT")
        scene.pacemaker.look()
        db.execute("BEGIN")
    assert scene.clock.now_ms() == T0
    scene.heeded()
    scene.pacemaker.look()
    assert scene.clock.now_ms() == LATER


def test_the_runtime_awaits_time_once_nothing_else_happens(scene: Scene) -> None:
    job = scene.ends()
    assert not scene.runtime.awaits_time
    scene.pacemaker.look()
    assert not scene.runtime.awaits_time
    scene.store.update(lifecycle.advance(job, SecondaryStatus.COMPLETED, T0))
    # The orchestrator has not looked at the end yet.
    scene.pacemaker.look()
    assert scene.runtime.awaits_time
    assert scene.clock.now_ms() == T0
    scene.heeded()
    scene.pacemaker.look()
    assert not scene.runtime.awaits_time
    assert scene.clock.now_ms() == LATER


@pytest.mark.parametrize("seed", range(3))
def test_trials_that_end_at_one_moment_all_count_although_the_first_reaches_the_target(
    tmp_path: Path, seed: int
) -> None:
    """Threads have no order: the functions return at different real times, at one simulated moment."""
    delays = random.Random(seed)
    with sagelet.testing.FastForward(tmp_path) as server:
        sagemaker = server.session().client("sagemaker")
        server.session().client("s3").create_bucket(Bucket="tuned")

        @server.train
        def train(job: sagelet.testing.Job) -> None:
            job.clock.advance(3600)
            threading.Event().wait(delays.uniform(0, 0.1))
            job.print("loss=0.5")

        sagemaker.create_hyper_parameter_tuning_job(**to_target())
        shown = server.wait_tuning("goal")
        trials = server.trials("goal")
    assert [one["TrainingJobStatus"] for one in trials] == ["Completed"] * 4
    assert shown["TrainingJobStatusCounters"]["Completed"] == 4


def to_target() -> dict[str, Any]:
    return tuning_request(
        "goal",
        job=definition(OutputDataConfig={"S3OutputPath": "s3://tuned/out"}),
        ResourceLimits={"MaxNumberOfTrainingJobs": 8, "MaxParallelTrainingJobs": 4},
        TuningJobCompletionCriteria={"TargetObjectiveMetricValue": 1.0},
    )
