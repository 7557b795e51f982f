"""Announces status changes of jobs as AWS's events (`event_documents.py`)."""

from collections.abc import Mapping
from typing import Any, Protocol

from sagelet_engine.model.job import Job
from sagelet_engine.model.orchestration import Orchestration


class EventBus(Protocol):
    @property
    def has_any_rules(self) -> bool:
        """True if `has_rules` is true for an account. Does not raise."""
        ...

    def has_rules(self, account: str, region: str) -> bool:
        """True if the account's default event bus has a rule that may take an event. Does not raise."""
        ...

    def put_event(self, account: str, region: str, event: Mapping[str, Any]) -> None:
        """Passes an event to the rules of the account's default event bus. Does not raise."""
        ...


class StateEvents:
    """A StatusSink that makes an event of every status."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    @property
    def is_heard(self) -> bool:
        return self._bus.has_any_rules

    def announce(self, job: Job | Orchestration) -> None:
        account, region = job.key.account, job.key.region
        if not self._bus.has_rules(account, region):
            return
        # With the answers of Describe calls, which are parts of events. A server without rules announces nothing.
        from sagelet_api.services.sagemaker.event_documents import event_of

        event = event_of(job)
        if event is not None:
            self._bus.put_event(account, region, event)
