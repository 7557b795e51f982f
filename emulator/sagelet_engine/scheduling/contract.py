"""What the engine asks of a scheduler. The machines are this one (`local.py`) or a cluster's (`cluster.py`)."""

from typing import Protocol

from sagelet_engine.model.training import TrainingJob


class Scheduler(Protocol):
    """A thread that gives waiting jobs their hosts. Its methods return at once and may be called from any thread."""

    @property
    def keeps_places(self) -> bool:
        """Whether a job keeps its place from attempt to attempt. If not, it is submitted again for the next one."""
        ...

    def start(self) -> None: ...

    def is_alive(self) -> bool: ...

    def join(self, timeout: float | None = None) -> None: ...

    def submit(self, job: TrainingJob) -> None:
        """Queues a job for its hosts."""
        ...

    def occupy(self, job: TrainingJob) -> None:
        """Counts the hosts of a job, or of a warm pool, that had them when the server started."""
        ...

    def withdraw(self, job_id: str) -> bool:
        """Takes a job out of the queue. False if it does not wait, or has got its hosts already."""
        ...

    def ended(self, job: TrainingJob) -> None:
        """Takes the hosts of a job back, or keeps them for its warm pool."""
        ...

    def wake(self) -> None:
        """Looks at the waiting jobs again: one may have been changed."""
        ...

    def close(self) -> None:
        """Ends the thread. Jobs that wait are found again by the next server."""
        ...
