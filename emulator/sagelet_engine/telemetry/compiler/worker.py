"""The report of one worker, as `sagelet_runtime.reporting` writes it in the container: `worker-RANK.json`.

`docs/reference/compiler-report.md` says what each figure means. Every field has a default: a worker leaves out what it
cannot know, and 0 (or nothing) stands for "not known". Seconds, bytes and ms since the epoch, as the names say.
"""

from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

T = TypeVar("T")

VERSION = 1
#: The key of a field's metadata that says that workers' values are added up (merging.py).
SUMMED = "summed"


def summed(default: T) -> T:
    """Returns a field whose values of several workers are added up."""
    added: T = field(default=default, metadata={SUMMED: True})
    return added


@dataclass(frozen=True)
class Cache:
    """The compile cache, XLA's or Inductor's."""

    enabled: bool = False
    #: Why it is off.
    reason: str = ""
    hits: int = summed(0)
    misses: int = summed(0)

    @property
    def has_all(self) -> bool:
        """True if nothing was compiled: each program was read from the cache."""
        return self.hits > 0 and self.misses == 0


@dataclass(frozen=True)
class StepSeconds:
    """The last 2,048 intervals between two moments at which the device was done: seconds a step."""

    #: Of several workers, those of the slowest.
    LARGEST_OF: ClassVar[str] = "p50"

    p5: float = 0.0
    p50: float = 0.0
    p95: float = 0.0
    #: Intervals, and the steps in them.
    count: int = 0
    steps: int = 0
    #: What tells that the device is done: `device` itself, the script's `waits` for it, or `script`: calls return then.
    clock: str = ""
    #: Seconds a step in each quarter of the intervals, in their order. Empty for fewer than four intervals.
    quarters: tuple[float, ...] = ()


@dataclass(frozen=True)
class BatchShape:
    """Training batches whose first tensor had this shape."""

    shape: tuple[int, ...] = ()
    count: int = summed(0)


@dataclass(frozen=True)
class Transfer:
    count: int = summed(0)
    bytes: int = summed(0)
    seconds: float = summed(0.0)


@dataclass(frozen=True)
class Transfers:
    to_device: Transfer = Transfer()
    from_device: Transfer = Transfer()


@dataclass(frozen=True)
class Memory:
    #: Of several workers, that of the worker that needs most.
    LARGEST_OF: ClassVar[str] = "peak_bytes"

    peak_bytes: int = 0
    #: `rss`: of the process; `device`: of the accelerator.
    kind: str = ""
    #: The accelerator's memory, or 0 if not known.
    limit_bytes: int = 0


@dataclass(frozen=True)
class Tier:
    """A job whose models are traced at each step until it pays to trace them once (SAGELET_XLA_TRACING=tiered)."""

    #: The number of the model's call in training from which on it is traced once. 0: it never was.
    went_up_at: int = 0
    #: What that took, the comparison included.
    seconds: float = 0.0
    #: Calls that ran a program which was traced once.
    calls: int = 0
    #: Later calls that were traced, by reason.
    breaks: dict[str, int] = field(default_factory=dict)
    #: Why models are traced at each step.
    stayed: dict[str, int] = field(default_factory=dict)
    #: The first result that differed between both ways, where one did.
    difference: str = ""


@dataclass(frozen=True)
class Graph:
    #: Nodes of the largest graph.
    nodes_max: int = 0
    #: XLA: graphs that ran because a value was read, not because the script ended a graph. Inductor: places where
    #: Dynamo ended a graph within the model.
    breaks: int = summed(0)
    #: Not known of Inductor.
    breaks_per_step: float = 0.0
    #: Of Inductor, by Dynamo's counters: different graphs, functions that were traced, and those that were again.
    unique: int = 0
    frames: int = 0
    recompiles: int = 0
    #: Of Inductor: the first lines of Dynamo's reasons, and how often each was the reason.
    break_reasons: dict[str, int] = field(default_factory=dict)
    recompile_reasons: dict[str, int] = field(default_factory=dict)
    #: XLA: True if Dynamo traces models once. Then the parts that are traced at each step all the same, with the error.
    traced_once: bool = False
    untraced: dict[str, int] = field(default_factory=dict)
    tier: Tier = Tier()


@dataclass(frozen=True)
class Replayed:
    """Calls on XLA tensors that ran a program which was traced once. Empty if the job traces each (`lazy`)."""

    #: Steps of optimizers: each group of parameters has its own.
    steps: int = 0
    #: Calls of clip_grad_norm_ and clip_grad_value_.
    clips: int = 0
    #: Different programs of both.
    programs: int = 0
    #: The calls that were traced all the same: which and why, and how many.
    traced: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class CallSite:
    """Calls of one kind from one line of the user's script."""

    #: `item`, `__repr__`, `torch.save`, ...
    call: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    #: `transformers/trainer.py:2560` if a library made the call, or empty if that line itself did.
    via: str = ""
    count: int = summed(0)
    seconds: float = summed(0.0)
    #: Of `evaluations`, the calls in a step that had made the same call before, and those after the last step.
    repeats: int = summed(0)

    @property
    def in_steps(self) -> int:
        """Returns in how many steps the call was made. An evaluation or a generation between two steps is in one."""
        return max(0, self.count - self.repeats)


@dataclass(frozen=True)
class Optimizer:
    name: str = ""
    #: Learning rate of each parameter group at its first step, or `initial_lr` if a scheduler has set one.
    lr: tuple[float, ...] = ()


@dataclass(frozen=True)
class Devices:
    #: Parameters on the CPU in optimizers of a process that also steps parameters on an XLA device.
    cpu_params: int = 0
    #: Parameters on an XLA device.
    xla_params: int = 0
    #: Where the script asked for a CUDA device.
    cuda_requests: tuple[CallSite, ...] = ()


@dataclass(frozen=True)
class Collectives:
    count: int = 0
    bytes: int = summed(0)
    seconds: float = 0.0
    #: Share of the time of the steps in `step_seconds`, 0 to 1.
    share: float = 0.0
    #: Bytes of a step's gradients.
    gradient_bytes: int = 0
    #: Number of optimizer steps before which at least half of the gradients' bytes were sent.
    gradient_exchanges: int = 0


@dataclass(frozen=True)
class Span:
    """Some steps of a worker, one after the other, and what their time went to."""

    #: Number of the first, from 0, and how many they are.
    step: int = 0
    steps: int = 0
    #: From the start of the worker's Python.
    start_seconds: float = 0.0
    seconds: float = 0.0
    wait_seconds: float = 0.0
    compile_seconds: float = 0.0
    #: Of programs on the device, which run beside the script: may be more than is left of `seconds`.
    execute_seconds: float = 0.0
    #: In calls that returned only once the device was done: reading a value, saving, a full queue.
    device_wait_seconds: float = 0.0


@dataclass(frozen=True)
class Program:
    """A compiled program and its executions on the device."""

    #: In lists, those that took longest come first.
    FIRST_BY: ClassVar[str] = "seconds"

    name: str = ""
    count: int = summed(0)
    seconds: float = summed(0.0)


@dataclass(frozen=True)
class Device:
    """What a PJRT plugin's device did. Empty for torch_xla's own client, which does not say when programs end."""

    #: Of several workers, that of the slowest.
    LARGEST_OF: ClassVar[str] = "busy_seconds"

    #: In which at least one program ran or was due, and in which none was between two programs.
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    #: The most programs that were due at once.
    deepest_queue: int = 0
    #: The number of executions whose ends could not be seen.
    lost: int = summed(0)
    programs: tuple[Program, ...] = summed(())


@dataclass(frozen=True)
class Figures:
    """What is counted and timed, of one worker or merged over the job (`merging.total`)."""

    steps: int = 0
    optimizer_steps: int = 0
    #: Graphs that the script ended: torch_xla.sync, mark_step, the next batch of an MpDeviceLoader.
    markers: int = 0
    compiles: int = 0
    compile_seconds: float = 0.0
    #: Numbers of the steps, from 0, in which something was compiled: the first 256 of them.
    compiling_steps: tuple[int, ...] = ()
    #: Number of all steps in which something was compiled.
    compiling_step_count: int = 0
    cache: Cache = Cache()
    executions: int = summed(0)
    #: In which the device worked, overlaps counted once. 0 if nobody knows.
    execute_seconds: float = 0.0
    device: Device = Device()
    tracing_seconds: float = 0.0
    #: From the start of the worker's Python to the end of its first step.
    time_to_first_step_seconds: float = 0.0
    first_step_seconds: float = 0.0
    #: Seconds between two moments at which the device was done, divided by the steps between them. Intervals in which
    #: something was compiled, evaluated or saved are left out.
    steady_step_seconds: float = 0.0
    #: Median time from one step's end to the next by the script's clock, which does not wait for the device.
    dispatch_seconds: float = 0.0
    step_seconds: StepSeconds = StepSeconds()
    input_wait_seconds: float = 0.0
    #: In calls that returned only once the device was done, without compiling; and which calls these were.
    device_wait_seconds: float = 0.0
    waits: tuple[CallSite, ...] = ()
    #: Mean over the steps of `step_seconds`.
    steady_input_wait_seconds: float = 0.0
    samples: int = summed(0)
    samples_per_second: float = summed(0.0)
    batch_shapes: tuple[BatchShape, ...] = ()
    transfers: Transfers = Transfers()
    memory: Memory = Memory()
    fallbacks: dict[str, int] = field(default_factory=dict)
    #: Of XLA's fallbacks, those in a step that had the same before, and those after the last step.
    fallback_repeats: dict[str, int] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    replayed: Replayed = field(default_factory=Replayed)
    evaluations: tuple[CallSite, ...] = ()
    saves: tuple[CallSite, ...] = ()
    optimizers: tuple[Optimizer, ...] = ()
    devices: Devices = Devices()
    collectives: Collectives = Collectives()


@dataclass(frozen=True)
class WorkerReport(Figures):
    version: int = VERSION
    #: False for a worker that trains natively, which has no figures of a compiler.
    compiled: bool = True
    #: Why it trains natively although the job is compiled. Empty otherwise.
    not_compiled: str = ""
    #: The host on which the file was found. The engine sets it.
    host: str = ""
    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    pid: int = 0
    #: Which training it is: 64 hexadecimal digits, of the first worker's. Empty if nobody knows.
    training: str = ""
    #: `inductor`, or empty for XLA.
    compiler: str = ""
    #: PJRT's platform: CPU, CUDA, ...
    platform: str = ""
    #: The PJRT plugin: `jax-cuda13-pjrt 0.12.0 (PJRT C API 0.116)`. Empty for torch_xla's built-in client.
    client: str = ""
    torch: str = ""
    torch_xla: str = ""
    started_ms: int = 0
    updated_ms: int = 0
    #: True if the process ended by itself, also with an exception. False if a signal ended it.
    finished: bool = False
    #: When it last ended a step, or stepped an optimizer, in ms since the epoch. 0 if never.
    last_step_ms: int = 0
    #: Since when it compiles, in ms since the epoch. 0 if it does not.
    compiling_since_ms: int = 0
    #: Seconds that its threads ran, and that they were ready to run and had no CPU. 0 if the kernel does not count.
    cpu_seconds: float = 0.0
    cpu_wait_seconds: float = 0.0
    #: All steps, in a bounded number of spans.
    timeline: tuple[Span, ...] = ()


@dataclass(frozen=True)
class IdleNote:
    """The longest time in which a process of a host used no CPU and ended no step: `idle-PID.json`."""

    host: str = ""
    rank: int = 0
    pid: int = 0
    started_ms: int = 0
    #: True if the process trains.
    trains: bool = False
    seconds: float = 0.0
    end_ms: int = 0
    #: Where its main thread was at the end, the innermost call first: `train.py:12 in main`.
    stack: tuple[str, ...] = ()

    @property
    def start_ms(self) -> int:
        return self.end_ms - round(self.seconds * 1000)


@dataclass(frozen=True)
class RanNote:
    """What a process of a host has loaded: `ran-NUMBER.json`."""

    started_ms: int = 0
    #: The user's files in the order in which they were loaded, relative to the source directory: the script first.
    files: tuple[str, ...] = ()
    #: The package without which nothing of the job is compiled, and whether the process has imported it. The former is
    #: empty in a native job.
    compiler: str = ""
    loaded: bool = False
