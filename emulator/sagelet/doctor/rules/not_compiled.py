"""A compiled job whose script never uses the XLA device."""

from collections.abc import Iterator

from sagelet.doctor.case import Case
from sagelet.doctor.finding import Place, Rule, Section, Seen, Severity, Threshold
from sagelet.doctor.sources import Sources

STEPS = Threshold(5, "optimizer steps, none of them compiled", "a script may well try a step on the CPU first")


def check(case: Case) -> Iterator[Seen]:
    workers = case.report.workers
    if not case.setup.compiled or any(worker.compiles or worker.devices.xla_params for worker in workers):
        return
    steps = max((worker.optimizer_steps for worker in workers), default=0)
    if steps < STEPS.value:
        return
    place = _place(case.sources)
    text = f"The request turns the compiler on, but {steps} optimizer steps ran and no program was compiled"
    yield Seen(Severity.WARNING, text + case.sources.quoted(place), place, steps)


def _place(sources: Sources) -> Place | None:
    """The first device that is chosen by hand."""
    for script, call in sources.calls("device", "cuda", "is_available"):
        return Place(script.path, call.lineno)
    return None


RULE = Rule(
    name="not-compiled",
    why="Only what is on an XLA device is compiled; all else runs as in a native job.",
    instead="device = xm.xla_device() (import torch_xla.core.xla_model as xm), and .to(device) for the model and the "
    "batches; the Hugging Face Trainer does so by itself.",
    section=Section.WRONG_API,
    check=check,
    thresholds=(STEPS,),
)
