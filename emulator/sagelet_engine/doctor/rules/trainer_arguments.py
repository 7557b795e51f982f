"""What a script or a hyperparameter sets among the Hugging Face Trainer's arguments."""

from collections.abc import Sequence

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.source_line import SourceLine
from sagelet_engine.doctor.sources import constant, keyword

CLASSES = ("TrainingArguments", "Seq2SeqTrainingArguments")


def written(case: Case, name: str, among: Sequence[object] = ()) -> tuple[object, SourceLine | None] | None:
    """Returns the value of an argument, and where it is written. None if it is unknown, or not `among` the given
    values.

    A literal in the script counts. Otherwise, if a script parses the Trainer's arguments from its command line, the
    hyperparameter of that name counts.
    """
    value: object = None
    place = None
    for script, call in case.sources.calls(*CLASSES):
        given = keyword(call, name)
        if given is not None:
            value, place = constant(given), SourceLine(script.path, given.lineno)
    if place is None and any(True for _ in case.sources.calls("HfArgumentParser")):
        text = case.setup.hyperparameters.get(name, "")
        value = int(text) if text.isascii() and text.isdigit() else text or None
    return None if value is None or (among and value not in among) else (value, place)
