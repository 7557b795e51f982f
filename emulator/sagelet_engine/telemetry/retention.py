"""The log group as a whole: made, kept for some days, tagged, deleted."""

from collections.abc import Mapping
from dataclasses import replace

from sagelet_engine.clock import Clock
from sagelet_engine.jobs.store import Store
from sagelet_engine.telemetry.events import LogGroup, LogStream

DAY_MS = 86_400_000


class LogKeeper:
    """What can be done to the log group of training jobs of an account and region."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def get(self, account: str, region: str) -> LogGroup | None:
        """None until somebody makes it or a job has a log stream."""
        return self._store.log_groups.get(account, region)

    def exists(self, account: str, region: str) -> bool:
        return self._store.log_groups.exists(account, region)

    def create(self, account: str, region: str, tags: Mapping[str, str]) -> None:
        """Makes it before the first job does."""
        self._store.log_groups.put(account, region, LogGroup(self._clock.now_ms(), tags=tags))

    def set_retention(self, account: str, region: str, days: int | None) -> None:
        """Keeps events for some days from now on, or for ever; what is older goes at once. The group exists."""
        self._store.log_groups.put(account, region, replace(self._existing(account, region), retention_days=days))
        self._expire(account, region, days)

    def set_tags(self, account: str, region: str, tags: Mapping[str, str]) -> None:
        """Replaces all tags. The group exists."""
        self._store.log_groups.put(account, region, replace(self._existing(account, region), tags=tags))

    def delete(self, account: str, region: str) -> None:
        """With all streams; a job that runs on makes both anew with its next line."""
        self._store.log_groups.delete(account, region)

    def delete_stream(self, stream: LogStream) -> None:
        self._store.log_groups.delete_stream(stream.id)

    def oldest_ms(self, account: str, region: str) -> int:
        """The earliest time that an event may have to be shown."""
        days = self._store.log_groups.retention_days(account, region)
        return 0 if days is None else self._before_ms(days)

    def expire(self) -> None:
        """Removes every event that is older than its group's retention."""
        for account, region, days in self._store.log_groups.limited():
            self._expire(account, region, days)

    def _existing(self, account: str, region: str) -> LogGroup:
        return self._store.log_groups.get(account, region) or LogGroup(self._clock.now_ms())

    def _expire(self, account: str, region: str, days: int | None) -> None:
        if days is not None:
            self._store.log_groups.expire(account, region, self._before_ms(days))

    def _before_ms(self, days: int) -> int:
        return self._clock.now_ms() - days * DAY_MS
