"""What a Hugging Face Trainer prints: dictionaries with losses, and one with a summary at the end.

They are read as the notebook "Compile and Train the GPT2 Model using the Transformers Trainer API with the wikitext
Dataset for Multi-Node Multi-GPU Training" reads them: the text between the braces of a line is a literal of Python. A
dictionary with `loss` is of training, one with `eval_loss` of evaluation, and one with `train_runtime` is the summary.
"""

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sagelet_engine.base.number_text import number_in

#: The most characters of a dictionary. A Trainer's has a few hundred.
LONGEST = 4096
#: Between these a number and its opposite count, and 0. A square or a quotient of others may be beyond a double.
SMALLEST, LARGEST_NUMBER = 1e-30, 1e30
#: A line without any of these has no such dictionary.
MARKS = ("loss'", 'loss"', "train_runtime")
#: Values that repr() prints and that are not literals of Python.
_NO_LITERAL = re.compile(r"(?<![\w'\"])-?(?:nan|inf)(?![\w'\"])")

Entry = Mapping[str, float]


@dataclass(frozen=True)
class TrainerLog:
    #: Dictionaries of training, in order: `loss`, `epoch`, `learning_rate`, ...
    train: tuple[Entry, ...] = ()
    evaluations: tuple[Entry, ...] = ()
    #: The last summary: `train_runtime` (seconds), `train_samples_per_second`, `train_loss`, ...
    summary: Entry = field(default_factory=dict)


def parse(lines: Iterable[str]) -> TrainerLog:
    train: list[Entry] = []
    evaluations: list[Entry] = []
    summary: Entry = {}
    for line in lines:
        entry = _numbers(line) if any(mark in line for mark in MARKS) else {}
        if "loss" in entry:
            train.append(entry)
        elif "eval_loss" in entry:
            evaluations.append(entry)
        elif "train_runtime" in entry:
            summary = entry
    return TrainerLog(tuple(train), tuple(evaluations), summary)


def _numbers(line: str) -> Entry:
    """The numbers of a line's dictionary by name.

    Empty if the line is not a dictionary. NaN, infinity and what is beyond the bounds are left out.
    """
    begin, end = line.find("{"), line.find("}")
    if end < begin or end - begin > LONGEST:
        return {}
    try:
        literal = ast.literal_eval(_NO_LITERAL.sub("None", line[begin : end + 1]))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return {}
    if not isinstance(literal, dict):
        return {}
    found = {str(name): _number(value) for name, value in literal.items()}
    return {name: value for name, value in found.items() if value is not None}


def _number(value: object) -> float | None:
    """Returns a number. Transformers 5 prints numbers as strings."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = number_in(value) if isinstance(value, str) else float(value)
    except OverflowError:
        return None
    if number is None or not (number == 0 or SMALLEST <= abs(number) <= LARGEST_NUMBER):
        return None
    return number
