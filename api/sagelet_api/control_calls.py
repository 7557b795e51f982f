"""What the control endpoints have in common: what they ask of the engine, and whom a request means."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from sagelet_api.credentials import DEFAULT_ACCOUNT, DEFAULT_REGION
from sagelet_engine.comparison.result import Comparison
from sagelet_engine.errors import JobNotFound
from sagelet_engine.jobs.record import JobKey, TrainingJob
from sagelet_engine.telemetry.compiler.progress import Progress
from sagelet_engine.telemetry.compiler.report import CompilerReport


class Controlled(Protocol):
    """What the control endpoints ask of the engine."""

    def health(self) -> dict[str, Any]:
        """JSON-ready: version, runtime, gpus, counts of jobs by status."""
        ...

    def interrupt(self, key: JobKey) -> TrainingJob:
        """Takes a managed spot job's instances away. Raises JobNotFound, JobNotInterruptible."""
        ...

    def job(self, key: JobKey) -> TrainingJob:
        """Raises JobNotFound."""
        ...

    def compiler_report(self, key: JobKey) -> CompilerReport | None:
        """None: no worker has reported. Raises JobNotFound."""
        ...

    def progress(self, key: JobKey) -> Progress:
        """What its workers do now. Raises JobNotFound."""
        ...

    def findings(self, key: JobKey) -> Sequence[Mapping[str, Any]]:
        """The doctor's, JSON-ready. Raises JobNotFound."""
        ...

    def compare(self, keys: Sequence[JobKey], *, anyway: bool = False) -> Comparison:
        """Raises JobNotFound, CannotCompare, NotComparable."""
        ...

    def put_tags(self, key: JobKey, tags: Mapping[str, str], limit: int) -> None:
        """Raises JobNotFound, TooManyTags."""
        ...

    def delete_tags(self, key: JobKey, keys: Sequence[str]) -> None:
        """Raises JobNotFound."""
        ...


def place_asked_for() -> tuple[str, str]:
    """Account and region of `?account=&region=` of the request, or the ones that sagelet takes for granted."""
    from flask import request

    return request.args.get("account", DEFAULT_ACCOUNT), request.args.get("region", DEFAULT_REGION)


@contextmanager
def known_job(name: str) -> Iterator[JobKey]:
    """The job that `?account=&region=` of the request and its path name; one that there is not becomes a 404."""
    from werkzeug.exceptions import NotFound

    account, region = place_asked_for()
    try:
        yield JobKey(account, region, name)
    except JobNotFound as error:
        raise NotFound(f"Account {account} has no training job {name} in {region}") from error
