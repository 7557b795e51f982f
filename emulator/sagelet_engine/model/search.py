"""Search as a query to the store: the conditions on a record, the order, and where to continue.

Properties are those of the service model's shape TrainingJob or HyperParameterTuningJobSearchEntity. The caller has
resolved their names and typed the values.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from sagelet_engine.model.job import Job
from sagelet_engine.model.orchestration import Orchestration


class Kind(str, Enum):
    """How values of a property are compared."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"
    #: Milliseconds since the epoch.
    TIME = "time"
    #: Text that is compared as a number if it is one: hyperparameters.
    PARAMETER = "parameter"
    #: A structure, list or map: it exists or not.
    GROUP = "group"


class Operator(str, Enum):
    """botocore shape Operator."""

    EQUALS = "Equals"
    NOT_EQUALS = "NotEquals"
    GREATER_THAN = "GreaterThan"
    GREATER_THAN_OR_EQUAL_TO = "GreaterThanOrEqualTo"
    LESS_THAN = "LessThan"
    LESS_THAN_OR_EQUAL_TO = "LessThanOrEqualTo"
    CONTAINS = "Contains"
    EXISTS = "Exists"
    NOT_EXISTS = "NotExists"
    IN = "In"


Scalar = str | int | float


@dataclass(frozen=True)
class Property:
    """A property of the records.

    `segments` are member names; each segment but the last ends at a list, and the next one continues from the list's
    items: `InputDataConfig.ChannelName` is (("InputDataConfig",), ("ChannelName",)).
    """

    segments: tuple[tuple[str, ...], ...]
    kind: Kind
    #: The key if the last segment ends at a map (`HyperParameters`, `Tags`, `Metrics`).
    key: str | None = None
    #: The value in the Describe call if the request has no such member.
    default: Scalar | None = None


@dataclass(frozen=True)
class Condition:
    """A condition on a property. `value`: in the type of the property's kind; a tuple for IN, None for (NOT_)EXISTS."""

    property: Property
    operator: Operator
    value: Scalar | tuple[str, ...] | None = None


@dataclass(frozen=True)
class AnyItem:
    """True if one item of a list satisfies all conditions. Their properties start at the item."""

    path: tuple[str, ...]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Group:
    """All of the terms or, if `every` is False, one of them."""

    terms: tuple["Condition | AnyItem | Group", ...]
    every: bool = True


Term = Condition | AnyItem | Group

LAST_MODIFIED = Property((("LastModifiedTime",),), Kind.TIME)


@dataclass(frozen=True)
class SearchCursor:
    """The last job of a page: its value of the property sorted by, or None if it has no value, and its id."""

    value: Scalar | None
    job_id: str


@dataclass(frozen=True)
class JobSearch:
    """A search. Jobs without the property that is sorted by count as less than all others."""

    account: str
    region: str
    where: Group = Group(())
    sort_by: Property = LAST_MODIFIED
    ascending: bool = False
    limit: int = 10
    after: SearchCursor | None = None


Found = TypeVar("Found", bound=Job | Orchestration)


@dataclass(frozen=True)
class SearchPage(Generic[Found]):
    jobs: list[Found]
    #: Matching jobs on all pages.
    total: int
    #: Where the next page starts. None if this was the last.
    next: SearchCursor | None
