"""The names of GLUE's labels, which its scripts ask for: `raw_datasets["train"].features["label"].names`.

A CSV has numbers only. Source: the data set's card, https://huggingface.co/datasets/nyu-mll/glue.
"""

import csv
from collections.abc import Sequence

_REPOSITORIES = frozenset({"glue", "nyu-mll/glue"})
_ENTAILED = ("entailment", "not_entailment")
_THREE = ("entailment", "neutral", "contradiction")
#: By configuration. STS-B's labels are numbers, so it has no names.
_LABELS = {
    "cola": ("unacceptable", "acceptable"),
    "sst2": ("negative", "positive"),
    "mrpc": ("not_equivalent", "equivalent"),
    "qqp": ("not_duplicate", "duplicate"),
    "mnli": _THREE,
    "mnli_matched": _THREE,
    "mnli_mismatched": _THREE,
    "ax": _THREE,
    "qnli": _ENTAILED,
    "rte": _ENTAILED,
    "wnli": ("not_entailment", "entailment"),
}
#: The types of GLUE's columns but for `label`.
_TYPES = {
    "idx": "int32",
    **dict.fromkeys(
        ("sentence", "sentence1", "sentence2", "premise", "hypothesis", "question", "question1", "question2"), "string"
    ),
}


def features(repository: str, configuration: str, headers: Sequence[str]) -> list[str]:
    """Returns the lines of a card about a configuration's columns. Empty if they are not those of a task of GLUE.

    `headers`: the first line of each of its CSV files.
    """
    labels = _LABELS.get(configuration)
    rows = [next(csv.reader([header]), []) for header in headers]
    if repository not in _REPOSITORIES or labels is None or not rows:
        return []
    columns = rows[0]
    if "label" not in columns or any({*row} != {*columns} for row in rows) or {*columns} - {"label", *_TYPES}:
        return []
    lines = [f"- config_name: '{configuration}'", "  features:"]
    for column in columns:
        lines.append(f"  - name: {column}")
        if column == "label":
            names = [f"          '{number}': {name}" for number, name in enumerate(labels)]
            lines += ["    dtype:", "      class_label:", "        names:", *names]
        else:
            lines.append(f"    dtype: {_TYPES[column]}")
    return lines
