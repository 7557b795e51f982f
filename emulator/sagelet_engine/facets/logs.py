"""What the hosts of jobs have printed, and the log group that it is in."""

from collections.abc import Sequence
from typing import Any

from sagelet_engine.base.clock import Clock
from sagelet_engine.model.log_events import FoundLines, LogEvent, LogStream, MergedEvents
from sagelet_engine.retention.logs import LogKeeper
from sagelet_engine.store.jobs import Store


class Logs:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        #: The log group as a whole: retention, tags, deletion.
        self.groups = LogKeeper(store, clock)

    def stream(self, account: str, region: str, name: str) -> LogStream | None:
        return self._store.stream(account, region, name)

    def streams(self, account: str, region: str, prefix: str = "", **which: Any) -> list[LogStream]:
        """See Store.streams."""
        return self._store.streams(account, region, prefix, **which)

    def events(self, stream: LogStream, **which: Any) -> list[LogEvent]:
        """See Store.events."""
        return self._store.events(stream.id, **which)

    def merged_events(self, streams: Sequence[LogStream], **which: Any) -> MergedEvents:
        """See Store.merged_events."""
        return self._store.merged_events([stream.id for stream in streams], **which)

    def find_lines(self, stream: LogStream, text: str, **which: Any) -> FoundLines:
        """See Lines.find."""
        return self._store.lines.find(stream.id, text, **which)
