"""The clients' operations on the store and their answers: the input of the check in `linearize.py`."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Operation:
    """One call, or one of the two halves of a copy: reading the source, writing the target."""

    number: int
    #: A name of `model.RULES`.
    kind: str
    arguments: dict[str, Any]
    #: The numbers of the events at which the call began and ended.
    called: int
    returned: int = 0
    #: True if the client knows how the call ended. Any other call happened once in that time, or never.
    known: bool = False
    #: S3's code when it was refused.
    error: str | None = None
    #: The client's answer.
    value: Any = None
    #: The operation before this one: the other half of a copy.
    after: int | None = None

    def __str__(self) -> str:
        told = "?" if not self.known else self.error or self.value
        shown = ", ".join(f"{name}={value}" for name, value in self.arguments.items() if name != "contents")
        return f"#{self.number} [{self.called}-{self.returned}] {self.kind}({shown}) -> {told}"


@dataclass
class Log:
    """All operations of a history."""

    operations: list[Operation] = field(default_factory=list)
    events: int = 0
    #: The number of operations so far. An operation may be removed again.
    count: int = 0

    def call(self, kind: str, after: int | None = None, **arguments: Any) -> Operation:
        self.events += 1
        self.count += 1
        made = Operation(self.count, kind, arguments, self.events, after=after)
        self.operations.append(made)
        return made

    def returns(self, *operations: Operation, known: bool, error: str | None = None, value: Any = None) -> None:
        self.events += 1
        for operation in operations:
            operation.returned, operation.known, operation.error, operation.value = self.events, known, error, value
