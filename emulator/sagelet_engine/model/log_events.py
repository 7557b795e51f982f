"""Log streams and events as the store keeps them (CloudWatch Logs: LogStream, OutputLogEvent)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: What CloudWatch Logs counts for an event beside its UTF-8 bytes (PutLogEvents).
EVENT_OVERHEAD = 26


def utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class LogEvent(NamedTuple):
    """One line that a host printed. There are 50,000 a second, and a tuple is made in a third of a dataclass's time."""

    #: ms since the epoch; never goes back within a stream.
    time_ms: int
    text: str
    #: Place in the stream, from 0 without gaps; given by the store.
    seq: int = -1
    #: When sagelet took it in, ms since the epoch; given by the store.
    ingested_ms: int = 0

    @property
    def page_bytes(self) -> int:
        """What it takes of a page of GetLogEvents."""
        return utf8_size(self.text) + EVENT_OVERHEAD


@dataclass(frozen=True)
class LogStream:
    """The log of one host of one job: `JOB/algo-1-EPOCH`."""

    id: int
    job_id: str
    host: str
    name: str
    created_ms: int
    #: Up to where the runtime's output was read, or None if nothing was read yet.
    position: str | None
    first_ms: int | None
    last_ms: int | None
    ingested_ms: int | None
    #: Number of events.
    events: int
    #: Sum of the events' UTF-8 sizes.
    bytes: int


@dataclass(frozen=True)
class LogGroup:
    """The log group of training jobs in one account and region."""

    created_ms: int
    #: Sum of the events' UTF-8 sizes.
    bytes: int = 0
    #: Days that events are kept, or None for ever.
    retention_days: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MergedEvents:
    """Events of several streams by time, each with the id of its stream."""

    events: list[tuple[int, LogEvent]]
    #: Time, stream id and seq after which to go on, or None if there are no more.
    place: tuple[int, ...] | None


@dataclass(frozen=True)
class FoundLines:
    """Lines of a stream that hold a text."""

    events: list[LogEvent]
    #: The seq to search on from.
    next: int
