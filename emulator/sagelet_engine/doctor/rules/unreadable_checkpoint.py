"""A checkpoint that torch.save wrote of XLA tensors, loaded without an XLA device."""

from collections.abc import Iterator

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.finding import Rule, Section, Seen, Severity
from sagelet_engine.doctor.rules.failures import failed_at, last_match, quoted

PATTERNS = (
    r"Could not run 'aten::empty\S*' with arguments from the 'XLA' backend",
    r"don't know how to restore data location of .*\(tagged with xla",
)


def check(case: Case) -> Iterator[Seen]:
    line = last_match(case, PATTERNS)
    if line is not None:
        place = failed_at(case)
        text = f"The job failed to load tensors that were saved on an XLA device: {quoted(line)}"
        yield Seen(Severity.ERROR, text + case.sources.quoted(place), place)


RULE = Rule(
    name="unreadable-checkpoint",
    why="torch.save notes the device of each tensor, and torch.load makes it on that device. Without torch_xla no "
    "device of that name exists.",
    instead="Write checkpoints with xm.save in the job that trains. Load this one once where torch_xla is installed, "
    "and save it again with xm.save.",
    section=Section.BEST_PRACTICES,
    check=check,
)
