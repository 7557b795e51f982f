"""The interface of a scheduler. `local.py` implements it for this machine, `cluster.py` for a cluster."""

from typing import Protocol

from sagelet_engine.model.job import Job


class Scheduler(Protocol):
    """A thread that gives waiting jobs their hosts. Its methods return at once and may be called from any thread."""

    def start(self) -> None: ...

    def is_alive(self) -> bool: ...

    def join(self, timeout: float | None = None) -> None: ...

    def submit(self, job: Job) -> None:
        """Queues a job for its hosts."""
        ...

    def occupy(self, job: Job) -> None:
        """Counts the hosts that a job or a warm pool already had when the server started."""
        ...

    def withdraw(self, job_id: str) -> bool:
        """Takes a job out of the queue. Returns False if it does not wait, or has got its hosts already."""
        ...

    def ended(self, job: Job) -> None:
        """Frees the hosts of a job that ended, or keeps them for its warm pool."""
        ...

    def wake(self) -> None:
        """Makes the thread look at the waiting jobs again, since one may have changed."""
        ...

    def close(self) -> None:
        """Ends the thread. The next server finds the waiting jobs again."""
        ...
