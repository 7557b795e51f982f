"""Fast-forward: the container of a job is a Python function of the test, and an hour's training takes no time.

Everything else is the real sagelet: the API and its checks, inputs and artifacts in S3, logs, metrics, statuses, spot,
retries, bills. Only the runtime and the clock are replaced (`sagelet_engine.simulation`).
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from sagelet.testing.faults import Faults
from sagelet.testing.job import Job, ProcessingJob
from sagelet.testing.settings import settings_from
from sagelet_api.protocol.members import Output
from sagelet_api.serve import Sagelet, Surroundings
from sagelet_engine.base.errors import ClientFault, SageletError
from sagelet_engine.machine.runtimes import Choice
from sagelet_engine.model.job import JobKey, JobKind
from sagelet_engine.model.runtime import LaunchPlan
from sagelet_engine.settings import GpuPolicy
from sagelet_engine.simulation.clock import SimulatedClock
from sagelet_engine.simulation.functions import Function, FunctionRuntime
from sagelet_engine.simulation.pacemaker import Pacemaker

if TYPE_CHECKING:
    import boto3

    from sagelet.sessions import QuickWaiters

#: Trains, and returns the exit code; None means 0. An exception fails the job and becomes its FailureReason.
TrainingFunction = Callable[[Job], int | None]
F = TypeVar("F", bound=TrainingFunction)
#: The same for a processing job.
ProcessingFunction = Callable[[ProcessingJob], int | None]
P = TypeVar("P", bound=ProcessingFunction)
C = TypeVar("C")
Kind = Literal["training", "processing"]
KINDS: dict[Kind, JobKind] = {"training": JobKind.TRAINING, "processing": JobKind.PROCESSING}
ACCOUNT, REGION = "123456789012", "us-east-1"
ENDED = ("Completed", "Failed", "Stopped")
#: The same for an execution of a pipeline.
EXECUTION_ENDED = ("Succeeded", "Failed", "Stopped")
#: Every image counts as present.
IMAGE_RULES = "[[rule]]\nname = 'function'\nmatch = '''(?s).*'''\nimage = '{uri}'\n"
#: More jobs than a test submits at once. A test of waiting for capacity sets max_jobs.
MANY = 64


class NotInTime(SageletError, AssertionError):
    """A job did not get the status that the test waits for."""


@dataclass(frozen=True)
class Given(Generic[C]):
    """A function that replaces jobs, and the patterns that an image and a job's name must match."""

    image: str
    job: str
    function: C


def _last(given: list[Given[C]], image: str, job: str) -> C | None:
    """Returns the last function that fits a job."""
    found = (one.function for one in reversed(given) if fnmatchcase(image, one.image) and fnmatchcase(job, one.job))
    return next(found, None)


class TestClock:
    """The simulated time, as the test sees it."""

    __test__ = False  # For pytest, which would take its name for that of a test.

    def __init__(self, clock: SimulatedClock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        """Returns the time in UTC."""
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, timezone.utc)

    def advance(self, seconds: float) -> None:
        """Lets this much time pass. Jobs go on meanwhile."""
        self._clock.sleep(seconds)

    @contextmanager
    def held(self) -> Iterator[None]:
        """While the block lasts, time passes only by `advance`, so that the test can act at a chosen moment."""
        with self._clock.held():
            yield


class FastForward:
    """A server in this process, with its own port, data directory and time. Usable as a context manager.

    moto's services, which answer what sagelet does not serve itself, are shared by the whole process. They are emptied
    at the start, and cannot be used together with moto's own `mock_aws`.

    `options` are the fields of `sagelet_engine.settings.Settings`; `start` is the first time of its clock (by default
    now). Without `directory` it has a temporary one, which is removed with the server.
    """

    def __init__(self, directory: Path | str | None = None, *, start: datetime | None = None, **options: Any) -> None:
        begin = start or datetime.now(timezone.utc)
        # Whole seconds, because AWS counts those. So durations are exactly those of the test.
        self._simulated = SimulatedClock(int(begin.timestamp()) * 1000)
        self.clock = TestClock(self._simulated)
        self._given = None if directory is None else Path(directory).absolute()
        self._options = options
        self._training: list[Given[TrainingFunction]] = []
        self._processing: list[Given[ProcessingFunction]] = []
        self._server: Sagelet | None = None
        self._clients: dict[tuple[str, str], Any] = {}

    # --- life -------------------------------------------------------------------------------------------------

    def start(self) -> "FastForward":
        """Starts the server, and returns when it answers. Raises SettingsError."""
        self.directory = self._given or Path(tempfile.mkdtemp(prefix="sagelet-test-"))
        self.directory.mkdir(parents=True, exist_ok=True)
        rules = self.directory / "image-rules.toml"
        rules.write_text(IMAGE_RULES)
        defaults = {"port": 0, "gpus": GpuPolicy.OFF, "max_jobs": MANY, "max_hosts": 8 * MANY, "image_rules": rules}
        settings = settings_from({**defaults, **self._options, "data": self.data})
        runtime = FunctionRuntime(self._simulated, self._function_of)
        self._server = Sagelet(settings, Surroundings(self._simulated, Choice(runtime, "fast-forward")))
        self._runtime = runtime
        engine = self._server.engine
        self._pacemaker = Pacemaker(
            self._simulated, runtime, settings, engine.jobs.unfinished, engine.orchestrator, engine.logs.position
        )
        self._server.forget_others()
        self._server.start()
        self._pacemaker.start()
        return self

    def stop(self) -> None:
        """Ends the server and its jobs. May be called twice."""
        if self._server is None:
            return
        self._pacemaker.close()
        try:
            # Until this returns, jobs may begin, and look for their functions.
            for job in self._server.stop():
                self._runtime.reap(job.launch_id)
        finally:
            self._server = None
        if self._given is None:
            shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> "FastForward":
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    # --- for the test -----------------------------------------------------------------------------------------

    @property
    def endpoint(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return self._running.server.endpoint

    @property
    def data(self) -> Path:
        """The data directory: objects of S3 are files in `s3/BUCKET/KEY`."""
        return self.directory / "data"

    def session(self, *, account: str = ACCOUNT, region: str = REGION) -> "boto3.Session":
        """Does what `sagelet.connect` does, with waiters that look ten times a second."""
        from sagelet.connection import connect_to

        return connect_to(self.endpoint, account=account, region=region, data=self.data, loader=self._loader)

    @cached_property
    def _loader(self) -> "QuickWaiters":
        from sagelet.sessions import QuickWaiters

        return QuickWaiters()

    def faults(self, *, account: str = ACCOUNT, region: str = REGION) -> Faults:
        """Returns the faults of existing jobs, and of calls."""
        return Faults(self.endpoint, self.data, account=account, region=region)

    @overload
    def train(self, function: F, *, image: str = ..., job: str = ...) -> F: ...
    @overload
    def train(self, function: None = None, *, image: str = ..., job: str = ...) -> Callable[[F], F]: ...
    def train(self, function: F | None = None, *, image: str = "*", job: str = "*") -> F | Callable[[F], F]:
        """Sets the function that trains jobs from now on. Also a decorator.

        `image` and `job` are patterns (`*pytorch-training*`, as file names have them) of the TrainingImage and the
        TrainingJobName; if several functions match a job, the last one trains it. Each host calls it.
        """

        def take(given: F) -> F:
            self._training.append(Given(image, job, given))
            return given

        return take if function is None else take(function)

    @overload
    def process(self, function: P, *, image: str = ..., job: str = ...) -> P: ...
    @overload
    def process(self, function: None = None, *, image: str = ..., job: str = ...) -> Callable[[P], P]: ...
    def process(self, function: P | None = None, *, image: str = "*", job: str = "*") -> P | Callable[[P], P]:
        """Sets the function that stands in for the containers of processing jobs, as `train` does for training jobs."""

        def take(given: P) -> P:
            self._processing.append(Given(image, job, given))
            return given

        return take if function is None else take(function)

    def wait(
        self, job_name: str, *statuses: str, kind: Kind = "training", seconds: float = 60, region: str = REGION
    ) -> Output:
        """Waits until the job has one of the statuses, primary or secondary. Returns the answer of the Describe call.

        Without statuses, waits for the job's end. Raises NotInTime, also if the job ended otherwise.
        """
        sagemaker, noun = self._client("sagemaker", region), f"{kind.capitalize()}Job"
        ask = getattr(sagemaker, f"describe_{kind}_job")

        def look() -> tuple[Output, tuple[str, ...]]:
            answer: Output = ask(**{f"{noun}Name": job_name})
            # Processing jobs have no secondary status.
            status = str(answer[f"{noun}Status"])
            return answer, (status, str(answer.get("SecondaryStatus", status)))

        return _wait(job_name, look, statuses or ENDED, seconds)

    def wait_tuning(self, tuning_job_name: str, *statuses: str, seconds: float = 60, region: str = REGION) -> Output:
        """Waits until a hyperparameter tuning job has one of the statuses. Returns DescribeHyperParameterTuningJob's
        answer.

        Without statuses, waits for the job's end. Raises NotInTime, also if the job ended otherwise.
        """
        sagemaker = self._client("sagemaker", region)

        def look() -> tuple[Output, tuple[str, ...]]:
            answer: Output = sagemaker.describe_hyper_parameter_tuning_job(HyperParameterTuningJobName=tuning_job_name)
            return answer, (answer["HyperParameterTuningJobStatus"],)

        return _wait(tuning_job_name, look, statuses or ENDED, seconds)

    def trials(self, tuning_job_name: str, *, region: str = REGION) -> list[Output]:
        """Returns the training jobs of a tuning job as ListTrainingJobsForHyperParameterTuningJob shows them, in the
        order of their creation.
        """
        lists = self._client("sagemaker", region).get_paginator("list_training_jobs_for_hyper_parameter_tuning_job")
        pages = lists.paginate(HyperParameterTuningJobName=tuning_job_name, SortBy="CreationTime")
        return [one for page in pages for one in page["TrainingJobSummaries"]]

    def wait_execution(self, execution_arn: str, *statuses: str, seconds: float = 60, region: str = REGION) -> Output:
        """Waits until an execution of a pipeline has one of the statuses. Returns DescribePipelineExecution's answer.

        Without statuses, waits for the execution's end. Raises NotInTime, also if it ended otherwise; the error has
        the reasons of the steps that failed.
        """
        sagemaker = self._client("sagemaker", region)

        def failures() -> list[str]:
            """DescribePipelineExecution says no more than that a step failed."""
            steps = self.steps(execution_arn, region=region).items()
            return [f"{name}: {step['FailureReason']}" for name, step in steps if "FailureReason" in step]

        def look() -> tuple[Output, tuple[str, ...]]:
            answer: Output = sagemaker.describe_pipeline_execution(PipelineExecutionArn=execution_arn)
            return answer, (answer["PipelineExecutionStatus"],)

        try:
            return _wait(execution_arn, look, statuses or EXECUTION_ENDED, seconds)
        except NotInTime as otherwise:
            raise NotInTime("\n".join([str(otherwise), *failures()])) from None

    def steps(self, execution_arn: str, *, region: str = REGION) -> dict[str, Output]:
        """Returns the steps that have begun by name, in that order, as ListPipelineExecutionSteps shows them."""
        lists = self._client("sagemaker", region).get_paginator("list_pipeline_execution_steps")
        pages = lists.paginate(PipelineExecutionArn=execution_arn, SortOrder="Ascending")
        return {one["StepName"]: one for page in pages for one in page["PipelineExecutionSteps"]}

    def log(self, job_name: str, *, kind: Kind = "training", region: str = REGION) -> list[str]:
        """Returns the lines of a job's log by time. Empty if there are none yet."""
        logs = self._client("logs", region)
        where = {"logGroupName": KINDS[kind].log_group, "logStreamNamePrefix": f"{job_name}/"}
        try:
            pages = [*logs.get_paginator("filter_log_events").paginate(**where)]
        except logs.exceptions.ResourceNotFoundException:
            return []
        return [event["message"] for page in pages for event in page["events"]]

    # --- inner ------------------------------------------------------------------------------------------------

    def _client(self, service: str, region: str) -> Any:
        """Returns a client. Making one takes longer than a job."""
        if (service, region) not in self._clients:
            self._clients[service, region] = self.session(region=region).client(service)
        return self._clients[service, region]

    @property
    def _running(self) -> Sagelet:
        if self._server is None:
            raise SageletError("This server is not running: start() it, or use it as a context manager")
        return self._server

    def _function_of(self, plan: LaunchPlan) -> Function:
        """Returns the function of a plan. Raises ClientFault."""
        engine, name = self._running.engine, plan.job_name
        if "PROCESSING_JOB_ARN" in plan.environment:
            work = engine.processing.get(_key(plan.environment["PROCESSING_JOB_ARN"], name, JobKind.PROCESSING))
            process = _last(self._processing, work.spec.image, name)
            if process is not None:
                return lambda host: process(ProcessingJob(work, host))
            raise ClientFault(f"No function processes {name} ({work.spec.image}): give one to FastForward.process")
        record = engine.jobs.get(_key(plan.environment["TRAINING_JOB_ARN"], name, JobKind.TRAINING))
        train = _last(self._training, record.spec.image, name)
        if train is not None:
            return lambda host: train(Job(record, host))
        raise ClientFault(f"No function trains {name} ({record.spec.image}): give one to FastForward.train")


def _key(arn: str, name: str, kind: JobKind) -> JobKey:
    region, account, _ = arn.split(":", 5)[3:]
    return JobKey(account, region, name, kind)


def _wait(
    name: str, look: Callable[[], tuple[Output, tuple[str, ...]]], wanted: Sequence[str], seconds: float
) -> Output:
    """Waits until `look` returns an answer with one of the statuses. Raises NotInTime."""
    deadline = time.monotonic() + seconds
    while True:
        answer, seen = look()
        if set(seen) & set(wanted):
            return answer
        if seen[0] in (*ENDED, *EXECUTION_ENDED) or time.monotonic() > deadline:
            reason = answer.get("FailureReason", "")
            raise NotInTime(f"{name} is {' / '.join(seen)} and not {' or '.join(wanted)}. {reason}".strip())
        Event().wait(0.02)
