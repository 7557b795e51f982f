"""The lines that the hosts of jobs have printed, and their log group."""

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
        """Returns log streams; see Store.streams."""
        return self._store.streams(account, region, prefix, **which)

    def events(self, stream: LogStream, **which: Any) -> list[LogEvent]:
        """Returns events of a stream; see Store.events."""
        return self._store.events(stream.id, **which)

    def merged_events(self, streams: Sequence[LogStream], **which: Any) -> MergedEvents:
        """Returns events of several streams; see Store.merged_events."""
        return self._store.merged_events([stream.id for stream in streams], **which)

    def find_lines(self, stream: LogStream, text: str, **which: Any) -> FoundLines:
        """Finds lines that contain a text; see Lines.find."""
        return self._store.lines.find(stream.id, text, **which)
