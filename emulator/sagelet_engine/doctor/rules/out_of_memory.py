"""Jobs that ran out of memory."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.batch_size import batch_rows
from sagelet_engine.doctor.rules.failures import failed_at, last_match, quoted

DEVICE = (
    r"RESOURCE_EXHAUSTED",
    r"Out of memory (while trying|allocating)",
    r"CUDA out of memory",
    r"torch\.(cuda\.)?OutOfMemoryError",
    r"DefaultCPUAllocator: can't allocate memory",
    r"std::bad_alloc",
    r"^MemoryError\b",
)
#: In the failure of AWS's toolkit, if the cgroup says so (images/runtime, memory_kills.py).
CGROUP = (r"\bOutOfMemory: Process killed by SIGKILL\b",)


def check(case: Case) -> Iterator[Seen]:
    """SIGKILL alone does not say that memory was full: the container or the cgroup has to."""
    if not case.progress.failed:
        return
    line = last_match(case, DEVICE)
    if line is not None:
        yield Seen(Severity.ERROR, f"The job ran out of memory: {quoted(line)}{_sizes(case)}", failed_at(case))
    elif case.progress.out_of_memory or last_match(case, CGROUP):
        yield Seen(Severity.ERROR, f"The kernel killed a process of the job for memory{_sizes(case)}")


def _sizes(case: Case) -> str:
    worker = case.lead
    if worker is None:
        return ""
    texts = []
    if batch_rows(worker):
        texts.append(f"a batch has {batch_rows(worker)} rows")
    if worker.memory.peak_bytes:
        of = "the process" if worker.memory.kind == "rss" else "the device"
        texts.append(f"the highest use of {of} was {worker.memory.peak_bytes / 2**30:.1f} GiB")
    if worker.graph.nodes_max and not worker.markers:
        texts.append(f"no graph was ever ended, and the largest had {worker.graph.nodes_max} nodes")
    return f"; {', '.join(texts)}" if texts else ""


RULE = Rule(
    name="out-of-memory",
    why="Weights, gradients, optimizer state and the activations for the backward pass must fit at once. A "
    "compiled script without mark_step also has a graph that grows by every step.",
    instead="Lower the batch size (and the learning rate with it), or accumulate gradients; in a compiled script end "
    "each step with xm.mark_step().",
    section=Section.BEST_PRACTICES,
    check=check,
)
