"""What a script, or a hyperparameter, sets of the Hugging Face Trainer's arguments."""

from collections.abc import Sequence

from sagelet_engine.doctor.case import Case
from sagelet_engine.doctor.place import Place
from sagelet_engine.doctor.sources import constant, keyword

CLASSES = ("TrainingArguments", "Seq2SeqTrainingArguments")


def written(case: Case, name: str, among: Sequence[object] = ()) -> tuple[object, Place | None] | None:
    """The value of an argument, and where it is written, or None if it is not known, or not `among` those that are
    given.

    A literal in the script counts; else, in a script that parses the Trainer's arguments from its command line, the
    hyperparameter of that name.
    """
    value: object = None
    place = None
    for script, call in case.sources.calls(*CLASSES):
        given = keyword(call, name)
        if given is not None:
            value, place = constant(given), Place(script.path, given.lineno)
    if place is None and any(True for _ in case.sources.calls("HfArgumentParser")):
        text = case.setup.hyperparameters.get(name, "")
        value = int(text) if text.isascii() and text.isdigit() else text or None
    return None if value is None or (among and value not in among) else (value, place)
