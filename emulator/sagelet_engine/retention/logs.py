"""The log group as a whole: made, kept for some days, tagged, deleted."""

from collections.abc import Mapping
from dataclasses import replace

from sagelet_engine.base.clock import Clock
from sagelet_engine.model.job import JobKind
from sagelet_engine.model.log_events import LogGroup, LogStream
from sagelet_engine.store.jobs import Store

DAY_MS = 86_400_000


class LogGroupActions:
    """Creates, tags, expires and deletes the log group of a kind of jobs in an account and region."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def get(self, account: str, region: str, kind: JobKind) -> LogGroup | None:
        """Returns the log group. None until it is created or a job has a log stream in it."""
        return self._store.log_groups.get(account, region, kind)

    def exists(self, account: str, region: str, kind: JobKind) -> bool:
        return self._store.log_groups.exists(account, region, kind)

    def create(self, account: str, region: str, kind: JobKind, tags: Mapping[str, str]) -> None:
        """Makes the group before the first job does."""
        self._store.log_groups.put(account, region, kind, LogGroup(self._clock.now_ms(), tags=tags))

    def set_retention(self, account: str, region: str, kind: JobKind, days: int | None) -> None:
        """Keeps events for `days`, or without limit. Older ones are removed at once. The group must exist."""
        self._store.log_groups.put(
            account, region, kind, replace(self._existing(account, region, kind), retention_days=days)
        )
        self._expire(account, region, kind, days)

    def set_tags(self, account: str, region: str, kind: JobKind, tags: Mapping[str, str]) -> None:
        """Replaces all tags. The group must exist."""
        self._store.log_groups.put(account, region, kind, replace(self._existing(account, region, kind), tags=tags))

    def delete(self, account: str, region: str, kind: JobKind) -> None:
        """Deletes the group with all streams. A running job makes both again with its next line."""
        self._store.log_groups.delete(account, region, kind)

    def delete_stream(self, stream: LogStream) -> None:
        self._store.log_groups.delete_stream(stream.id)

    def oldest_ms(self, account: str, region: str, kind: JobKind) -> int:
        """Returns the earliest time of events that are shown, in ms since the epoch."""
        days = self._store.log_groups.retention_days(account, region, kind)
        return 0 if days is None else self._before_ms(days)

    def expire(self) -> None:
        """Removes every event that is older than its group's retention."""
        for account, region, kind, days in self._store.log_groups.limited():
            self._expire(account, region, kind, days)

    def _existing(self, account: str, region: str, kind: JobKind) -> LogGroup:
        return self._store.log_groups.get(account, region, kind) or LogGroup(self._clock.now_ms())

    def _expire(self, account: str, region: str, kind: JobKind, days: int | None) -> None:
        if days is not None:
            self._store.log_groups.expire(account, region, kind, self._before_ms(days))

    def _before_ms(self, days: int) -> int:
        return self._clock.now_ms() - days * DAY_MS
