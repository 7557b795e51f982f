"""`.item()` and the like in the training loop."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case, all_steps
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules import inductor
from sagelet_engine.doctor.rules.evaluations import Use, place_of, use_of
from sagelet_engine.doctor.rules.limits import ENOUGH_STEPS, OFTEN

#: The methods' common names.
SPELLED = {
    "__bool__": "A truth test", "__float__": "float()", "__int__": "int()", "__index__": "Its use as an index",
    "__repr__": "Its text", "__str__": "Its text", "__format__": "Its text",
}  # fmt: skip


def check(case: Case) -> Iterator[Seen]:
    if case.by_inductor:
        yield from inductor.broke(case)
        return
    worker = case.lead
    steps = all_steps(worker) if worker else 0
    if worker is None or steps < ENOUGH_STEPS.value:
        return
    for evaluation in worker.evaluations:
        if evaluation.in_steps > OFTEN.value * steps and use_of(evaluation, case.sources) is Use.READ:
            place = place_of(evaluation, case.sources)
            what = SPELLED.get(evaluation.call, f".{evaluation.call}()")
            within = f", in {evaluation.via}" if evaluation.via else ""
            text = f"{what} read a tensor of the device {evaluation.count} times in {steps} steps{within}"
            text += case.sources.quoted(place)
            yield Seen(Severity.WARNING, text, place, evaluation.count, evaluation.seconds or None)


RULE = Rule(
    name="explicit-evaluation",
    why="A value that the script asks for must be computed and copied to the host at once. The graph of the step is "
    "cut there, and fusions over the cut are lost. The host cannot prepare the next step meanwhile.",
    instead="Keep sums on the device (total += loss.detach()) and read them once every so many steps, or hand the "
    "reading to xm.add_step_closure, which runs after the step.",
    section=Section.PERFORMANCE,
    check=check,
    thresholds=(ENOUGH_STEPS, OFTEN),
)
