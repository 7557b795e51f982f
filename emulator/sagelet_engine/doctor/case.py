"""What the doctor looks at: a job's report, scripts, request, and its end or present progress. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sagelet_engine.doctor.sources import Sources
from sagelet_engine.telemetry.compiler.one_run import trust
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import WorkerReport
from sagelet_engine.telemetry.near_matches import Unmatched


@dataclass(frozen=True)
class Setup:
    """The members of the request that rules read."""

    #: By instance group: type and number of hosts.
    instances: tuple[tuple[str, int], ...] = ()
    #: The user's own hyperparameters. Values are text, without the quotes that the SDK puts around them.
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    #: True if the job asks for the compiler, and for its debug mode.
    compiled: bool = True
    debug: bool = False
    #: `inductor` or `xla`, if the request chooses the compiler.
    compiler: str = ""
    #: SageMaker Debugger's hook, and its profiler.
    debugger: bool = False
    profiler: bool = False
    #: Names of the input channels.
    channels: tuple[str, ...] = ()
    #: MaxRuntimeInSeconds.
    max_runtime_seconds: int = 0
    #: EnableNetworkIsolation.
    isolated: bool = False

    @property
    def host_count(self) -> int:
        return sum(count for _, count in self.instances)


@dataclass(frozen=True)
class Baseline:
    """A native job that ran the same script with otherwise the same hyperparameters."""

    job: str
    workers: tuple[WorkerReport, ...]


@dataclass(frozen=True)
class Waiting:
    """Where a process that used no CPU was."""

    #: None of a process that does not train.
    rank: int | None = None
    #: Its calls, the innermost first. Empty if nobody knows.
    stack: tuple[str, ...] = ()


@dataclass(frozen=True)
class Idle:
    """The longest time of the training in which no host printed a line, ended a step or used a CPU."""

    seconds: float = 0.0
    #: From the start of the training to its own.
    after_seconds: float = 0.0
    waiting: Waiting = Waiting()


@dataclass(frozen=True)
class Progress:
    """How far a job is; times in seconds."""

    #: InProgress, Stopping, Completed, Failed, Stopped.
    status: str = "Completed"
    #: Seconds since the last line or figure of any host. None if the job does not train.
    silent_seconds: float | None = None
    #: Seconds for which a worker has been compiling one program. 0 if none does.
    compiling_seconds: float = 0.0
    #: True if the kernel killed a process of a host for memory.
    out_of_memory: bool = False
    #: Exit code of the host that failed first, or of the first host, once it is down.
    exit_code: int | None = None
    #: The last lines that this host printed.
    last_lines: Sequence[str] = ()
    #: FailureReason. Empty if the job has not failed.
    reason: str = ""
    #: What sagelet knows of an InternalServerError. Empty for any other end.
    cause: str = ""
    #: True if the job was stopped because MaxRuntimeInSeconds had passed.
    timed_out: bool = False
    #: True if a host left an entry in SM_MODEL_DIR. None while the job runs, and if it never ran.
    saved: bool | None = None
    #: Metrics that were NaN or infinite: name, value, and True if the value was the last.
    not_finite: Sequence[tuple[str, str, bool]] = ()
    #: Metric definitions that no line has matched. Only of a job that has ended.
    unmatched: Sequence[Unmatched] = ()
    training_seconds: float = 0.0
    idle: Idle = Idle()
    #: What a process has been waiting in since the last sign of the job.
    waiting: Waiting = Waiting()

    @property
    def failed(self) -> bool:
        return self.status == "Failed"


@dataclass(frozen=True)
class Place:
    """An input or an output of a processing job."""

    name: str
    #: LocalPath, without a slash at its end.
    path: str
    #: Some of its files on any host, as paths in the container. A job may have changed them.
    files: tuple[str, ...] = ()

    def holds(self, path: str) -> bool:
        return path == self.path or path.startswith(f"{self.path}/")


@dataclass(frozen=True)
class Processing:
    """What rules read of a processing job, beside what every job has."""

    #: ContainerEntrypoint and ContainerArguments.
    command: tuple[str, ...] = ()
    inputs: tuple[Place, ...] = ()
    outputs: tuple[Place, ...] = ()
    #: Some files below /opt/ml that no input brought and no output uploads.
    elsewhere: tuple[str, ...] = ()
    #: True once all hosts are down, so that `files` of the outputs are what was uploaded.
    down: bool = False
    #: ExitMessage.
    message: str = ""


@dataclass(frozen=True)
class Case:
    report: CompilerReport = field(default_factory=CompilerReport)
    sources: Sources = field(default_factory=lambda: Sources({}))
    setup: Setup = field(default_factory=Setup)
    progress: Progress = field(default_factory=Progress)
    baseline: Baseline | None = None
    #: None for a training job.
    processing: Processing | None = None

    @property
    def by_inductor(self) -> bool:
        """True if Inductor compiles the job. Before the first report the request decides."""
        return (self.report.compiler or self.setup.compiler) == "inductor"

    @property
    def compiler_name(self) -> str:
        """Returns the compiler's name for people."""
        return "Inductor" if self.by_inductor else "XLA"

    @property
    def lead(self) -> WorkerReport | None:
        """Returns the first worker. All run the same script, and some acts (such as logging) are the first's only."""
        return next((worker for worker in self.report.workers if worker.compiled), None)

    @property
    def native_step_seconds(self) -> float:
        """Seconds of a step of the native job, if its batches have the same shape. 0 if unknown."""
        own, lead = self.baseline.workers[0] if self.baseline and self.baseline.workers else None, self.lead
        if own is None or lead is None or not own.batch_shapes or not lead.batch_shapes:
            return 0.0
        return own.steady_step_seconds if own.batch_shapes[0].shape == lead.batch_shapes[0].shape else 0.0

    @property
    def one_run_of_each(self) -> str:
        """Returns what to add to a text that has both jobs' steps. Empty if one run of each says which is faster.

        The proof is the comparison's, so that the doctor says nothing that `sagelet compare` does not.
        """
        if self.baseline is None or self.lead is None:
            return ""
        runs = (("", self.report), ("", CompilerReport(workers=self.baseline.workers)))
        told = trust(runs).tells_apart(self.native_step_seconds, self.lead.steady_step_seconds)
        return "" if told else "; one run of each does not say which is faster"


def seconds_per_compile(worker: WorkerReport) -> float:
    return worker.compile_seconds / worker.compiles if worker.compiles else 0.0


def all_steps(worker: WorkerReport) -> int:
    """Returns the number of steps, also for a script that ends no graph."""
    return max(worker.steps, worker.optimizer_steps)
