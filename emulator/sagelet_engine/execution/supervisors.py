"""The supervisors of all jobs that run on this server."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from sagelet_engine.base.loading import Late
from sagelet_engine.execution.job_context import SupervisorDeps
from sagelet_engine.model.job import Job

if TYPE_CHECKING:
    from sagelet_engine.execution.supervisor import Supervisor


class Joined(Protocol):
    """A thread, or an object that has one."""

    def is_alive(self) -> bool: ...

    def join(self, timeout: float | None = None) -> None: ...


class Supervisors:
    """The registry of supervisors: one for each job that has got its hosts."""

    def __init__(self, services: SupervisorDeps, ended: Callable[[Job], None]) -> None:
        """`ended`: is called at the end of each."""
        self._services = services
        self._on_end = ended
        self._by_job: dict[str, Supervisor] = {}
        self._guard = threading.Lock()
        self._supervisor = Late(_load)

    def load(self) -> None:
        """Loads what works on jobs: staging, uploads, the doctor. A server without jobs does not need that. Called
        before there is a job. Raises ImportError.
        """
        self._supervisor()

    def __len__(self) -> int:
        """Number of jobs that have a supervisor."""
        return len(self._by_job)

    def start(self, job: Job) -> None:
        """Starts a supervisor for the job. Does nothing if it has one or the server is shutting down."""
        supervisor = self._supervisor()(self._services, job, self._forget)
        with self._guard:
            if job.id in self._by_job or self._services.closing.is_set():
                return
            self._by_job[job.id] = supervisor
            supervisor.start()

    def _forget(self, job: Job) -> None:
        with self._guard:
            self._by_job.pop(job.id, None)
        self._on_end(job)

    def notify(self, job: Job) -> None:
        """Notifies the job's supervisor, if there is one, that the record was changed."""
        with self._guard:
            supervisor = self._by_job.get(job.id)
        if supervisor is not None:
            supervisor.notify()

    def join(self, deadline: float) -> None:
        """Waits for all supervisors until `deadline`, a value of time.monotonic()."""
        with self._guard:
            supervisors = list(self._by_job.values())
        join_all(supervisors, deadline)


def _load() -> "type[Supervisor]":
    from sagelet_engine.execution.supervisor import Supervisor

    return Supervisor


def join_all(threads: Sequence[Joined], deadline: float) -> None:
    """Waits for started threads until `deadline`, a value of time.monotonic()."""
    for thread in threads:
        if thread.is_alive():
            thread.join(max(0.0, deadline - time.monotonic()))
