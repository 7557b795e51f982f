"""A compiled job whose script never uses the XLA device."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.doctor.rules.trainer_arguments import written
from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.doctor.sources import Sources
from sagelet_engine.telemetry.compiler.text import counted

STEPS = Threshold(
    5, "optimizer steps so far, none of them compiled", "a script may well try a step on the CPU first; at the end any"
)


def check(case: Case) -> Iterator[Seen]:
    """Judges by what ran in the workers. What stands in the source directory says only where the device is chosen."""
    workers = case.report.workers
    if not case.setup.compiled or any(worker.compiles or worker.devices.xla_params for worker in workers):
        return
    steps = max((worker.optimizer_steps for worker in workers), default=0)
    if not _is_certain(case, steps):
        return
    if case.by_inductor:
        yield _by_inductor(case, steps)
        return
    place = _place(case.sources)
    text = f"The request turns the compiler on, but {_ran(case, steps)}{case.sources.quoted(place)}"
    yield Seen(Severity.WARNING, text, place, steps or None)


def _is_certain(case: Case, steps: int) -> bool:
    """False for a job that its host could not compile: the script has no part in that."""
    report, status = case.report, case.progress.status
    if report.reason and not report.not_imported and not any(worker.not_compiled for worker in report.workers):
        return False
    enough = STEPS.value if status in ("InProgress", "Stopping") else 1
    return steps >= enough or (bool(report.not_imported) and status == "Completed")


def _ran(case: Case, steps: int) -> str:
    if not steps:
        return f"no process of the job imported {case.report.not_imported}, so nothing was compiled"
    why = next((f": {one.not_compiled}" for one in case.report.workers if one.not_compiled), "")
    return f"{counted(steps, 'optimizer step')} ran and no program was compiled{why}"


def _by_inductor(case: Case, steps: int) -> Seen:
    switched_off = written(case, "torch_compile", (False, "False", "false"))
    place = switched_off[1] if switched_off else None
    text = f"The job asks for Inductor, but {_ran(case, steps)}"
    return Seen(
        Severity.WARNING,
        text + case.sources.quoted(place),
        place,
        steps or None,
        why="Inductor compiles a module with parameters when the script calls it, and a Trainer's model unless "
        "TrainingArguments say torch_compile=False.",
        instead="Remove torch_compile=False, and call the model itself (model(batch)), not model.forward.",
    )


def _place(sources: Sources) -> SourceLine | None:
    """Returns the first device that is chosen by hand."""
    for script, call in sources.calls("device", "cuda", "is_available"):
        return SourceLine(script.path, call.lineno)
    return None


RULE = Rule(
    name="not-compiled",
    why="Only what is on an XLA device is compiled; all else runs as in a native job.",
    instead="device = xm.xla_device() (import torch_xla.core.xla_model as xm), and .to(device) for the model and the "
    "batches; the Hugging Face Trainer does so by itself, and Lightning's in a job of one worker.",
    section=Section.WRONG_API,
    check=check,
    thresholds=(STEPS,),
)
