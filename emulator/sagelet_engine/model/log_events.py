"""Log streams and events as the store keeps them (CloudWatch Logs: LogStream, OutputLogEvent)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

#: Bytes that CloudWatch Logs counts for an event in addition to its UTF-8 bytes (PutLogEvents).
EVENT_OVERHEAD = 26


def utf8_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class LogEvent(NamedTuple):
    """One line that a host printed. There are 50,000 a second, and a tuple takes a third of the time of a dataclass."""

    #: In ms since the epoch. Never goes back within a stream.
    time_ms: int
    text: str
    #: Place in the stream, from 0 without gaps. The store sets it.
    seq: int = -1
    #: When sagelet received it, in ms since the epoch. The store sets it.
    ingested_ms: int = 0

    @property
    def page_bytes(self) -> int:
        """Returns the bytes that it takes of a page of GetLogEvents."""
        return utf8_size(self.text) + EVENT_OVERHEAD


@dataclass(frozen=True)
class LogStream:
    """The log of one host of one job: `JOB/algo-1-EPOCH`."""

    id: int
    job_id: str
    host: str
    name: str
    created_ms: int
    #: The position up to which the runtime's output was read. None if nothing was read yet.
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
    """The log group of one kind of jobs in one account and region."""

    created_ms: int
    #: Sum of the events' UTF-8 sizes.
    bytes: int = 0
    #: Days that events are kept. None for no limit.
    retention_days: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MergedEvents:
    """Events of several streams by time, each with the id of its stream."""

    events: list[tuple[int, LogEvent]]
    #: Time, stream id and seq after which to continue. None if there are no more events.
    place: tuple[int, ...] | None


@dataclass(frozen=True)
class FoundLines:
    """Lines of a stream that contain a text."""

    events: list[LogEvent]
    #: The seq at which the search continues.
    next: int
