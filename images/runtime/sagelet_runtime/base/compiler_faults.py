"""Tells which errors of a script are the compiler's: `ExtraInfo "SMTrainingCompiler Error: ..."` in the failure file.

AWS's toolkit blames the compiler for every error whose text contains `torch_xla/` (sagemaker_training:
SM_TRAINING_COMPILER_PATHS). That is a frame of torch_xla's Python, or of its C++, which torch_xla up to 1.13 named in
each message. torch_xla 2.9 raises most errors from C++ without a frame, so the beginnings of its messages are compared.
"""

from collections.abc import Iterable

#: Status codes of XLA and PJRT (absl::StatusCode) that begin a message.
_CODES = (
    "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "INTERNAL", "FAILED_PRECONDITION", "UNAVAILABLE",
    "DEADLINE_EXCEEDED", "ABORTED", "OUT_OF_RANGE", "NOT_FOUND", "DATA_LOSS", "UNKNOWN",
)  # fmt: skip
#: Other beginnings of messages, seen with torch_xla 2.8 and 2.9.
_BEGINNINGS = (
    "Bad StatusOr access: ",
    "Error preparing computation: ",
    "Out of memory allocating ",
    "Expected XLA tensor. Got: ",
)
MESSAGES = tuple(f"RuntimeError: {beginning}" for beginning in (*(f"{code}: " for code in _CODES), *_BEGINNINGS))

#: Characters reserved for the ExtraInfo. It follows the text and must fit into a FailureReason of 1,024.
ROOM = 110


def is_compilers(lines: Iterable[str]) -> bool:
    """True if the toolkit will call this the compiler's error."""
    marks = ("torch_xla/", *MESSAGES)
    return any(mark in line for line in lines for mark in marks)


def install() -> None:
    """Adds the messages to the toolkit's own list, with which it compares."""
    import sagemaker_training

    known: list[str] = sagemaker_training.SM_TRAINING_COMPILER_PATHS
    known.extend(message for message in MESSAGES if message not in known)
