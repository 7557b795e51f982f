"""torch.save of tensors that are on an XLA device."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.evaluations import place_of


def check(case: Case) -> Iterator[Seen]:
    worker = case.lead
    for save in worker.saves if worker else ():
        if save.call == "torch.save":
            place = place_of(save, case.sources)
            times = "once" if save.count == 1 else f"{save.count} times"
            text = f"torch.save wrote tensors of the XLA device {times}{case.sources.quoted(place)}"
            yield Seen(Severity.WARNING, text, place, save.count)


RULE = Rule(
    name="torch-save",
    why="The file names XLA as the device of its tensors. So it cannot be loaded where there is no torch_xla, for "
    "example on a host that serves the model. Also, every worker writes it.",
    instead="xm.save(model.state_dict(), path): it copies to the CPU and writes on the first worker only.",
    section=Section.BEST_PRACTICES,
    check=check,
)
