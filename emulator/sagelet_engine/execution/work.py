"""The part of running a job that differs from kind to kind: its inputs, its program and its results.

The supervisor and the host watch drive jobs of every kind. Where kinds differ, they call the methods of JobWork.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.model.job import Job, Verdict
from sagelet_engine.model.runtime import LaunchPlan, Observation
from sagelet_engine.model.verdict import EndNotes

#: A host and a line for its log.
HostLine = tuple[str, str]


class JobWork(Protocol):
    """The work of one attempt of one job. A step may be repeated after a crash, so each method must be idempotent."""

    directories: JobDirectories
    #: Directories below /opt/ml whose data is elsewhere, so that they do not count as the job's volume.
    streamed: tuple[str, ...]

    @staticmethod
    def end_helpers(job: Job, data: Path) -> None:
        """Ends the processes that serve the job's hosts and outlive the server.

        Called when no engine runs on `data`, the data directory.
        """

    def end_notes(self, host: str) -> EndNotes:
        """Returns what a host that is down wrote about its end. NO_NOTES if the kind of job has no such files."""

    def stage(self, attend: Callable[[], None]) -> None:
        """Puts the inputs where the hosts read them.

        Calls `attend` between two objects and passes on what it raises. Raises ClientFault if an input is missing.
        """

    def staged(self) -> None:
        """Records the state that the hosts start from. Called when the inputs are complete, before the hosts start."""

    def plan(self) -> LaunchPlan:
        """Returns the plan of what the runtime starts. Raises ClientFault."""

    def watching(self) -> AbstractContextManager[None]:
        """Returns a context that runs the background work of the hosts while it is entered."""

    def check(self) -> None:
        """Called while hosts run. Raises the error that is to end the job, if any."""

    def observe(self) -> None:
        """Writes into the record what the hosts report about themselves."""

    def warnings(self) -> list[HostLine]:
        """Returns lines that are not in the hosts' logs yet."""

    def conclude(self, judge: Callable[[], Verdict] | None, found: Mapping[str, Observation]) -> Sequence[str]:
        """Keeps what the hosts left behind once they are down. Returns lines for the end of the first host's log.

        `judge` returns the attempt's verdict. It is None if another attempt follows.
        """

    def release(self) -> None:
        """Ends everything that served the hosts. Called after the hosts are removed."""

    def save(self) -> None:
        """Saves the state that the next attempt starts from. Called when the hosts are down."""

    def upload(self) -> Sequence[str]:
        """Uploads the results. Returns lines about files that it left out. Raises ClientFault."""
