"""A compiled job whose script never uses the XLA device."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity, Threshold
from sagelet_engine.doctor.rules.trainer_arguments import written
from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.doctor.sources import Sources

#: Packages that move a script to the XLA device.
BY_THEMSELVES = ("torch_xla", "transformers", "accelerate", "pytorch_lightning", "lightning")
STEPS = Threshold(5, "optimizer steps, none of them compiled", "a script may well try a step on the CPU first")


def check(case: Case) -> Iterator[Seen]:
    workers = case.report.workers
    if not case.setup.compiled or any(worker.compiles or worker.devices.xla_params for worker in workers):
        return
    steps = max((worker.optimizer_steps for worker in workers), default=0)
    if steps < STEPS.value and not (not workers and _trains_natively(case)):
        return
    if case.by_inductor:
        yield _by_inductor(case, steps)
        return
    place = _place(case.sources)
    text = f"{steps} optimizer steps ran" if steps else "the script does not train on an XLA device"
    text = f"The request turns the compiler on, but {text} and no program was compiled{case.sources.quoted(place)}"
    yield Seen(Severity.WARNING, text, place, steps or None)


def _by_inductor(case: Case, steps: int) -> Seen:
    switched_off = written(case, "torch_compile", (False, "False", "false"))
    place = switched_off[1] if switched_off else None
    text = f"The job asks for Inductor, but {steps} optimizer steps ran and no program was compiled"
    return Seen(
        Severity.WARNING,
        text + case.sources.quoted(place),
        place,
        steps or None,
        why="Inductor compiles a module with parameters when the script calls it, and a Trainer's model unless "
        "TrainingArguments say torch_compile=False.",
        instead="Remove torch_compile=False, and call the model itself (model(batch)), not model.forward.",
    )


def _trains_natively(case: Case) -> bool:
    """True if no worker used XLA although a completed job's scripts call `backward()`."""
    trains = any(True for _ in case.sources.calls("backward"))
    return case.progress.status == "Completed" and trains and not case.sources.imports(*BY_THEMSELVES)


def _place(sources: Sources) -> SourceLine | None:
    """Returns the first device that is chosen by hand."""
    for script, call in sources.calls("device", "cuda", "is_available"):
        return SourceLine(script.path, call.lineno)
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
