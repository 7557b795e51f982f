"""What a kind of job adds to the life that all jobs share: its inputs, its program, its results.

The supervisor and the host watch drive every job. They ask the work of its kind at the points where kinds differ.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.model.job import Verdict
from sagelet_engine.model.runtime import LaunchPlan, Observation

#: A host and a line for its log.
HostLine = tuple[str, str]


class JobWork(Protocol):
    """The work of one attempt of one job. A crash may repeat a step, so each method may be called again."""

    directories: JobDirectories
    #: Directories below /opt/ml that show data from elsewhere and so are not on the job's volume.
    streamed: tuple[str, ...]

    def stage(self, attend: Callable[[], None]) -> None:
        """Puts the inputs where the hosts find them.

        Calls `attend` between two objects and passes on what it raises. Raises ClientFault if an input is missing.
        """

    def staged(self) -> None:
        """Notes what the hosts begin with. Called when the inputs are complete, before the hosts start."""

    def plan(self) -> LaunchPlan:
        """Returns what the runtime starts. Raises ClientFault."""

    def watching(self) -> AbstractContextManager[None]:
        """A context for what runs beside the hosts."""

    def check(self) -> None:
        """Called while hosts run. Raises what ends the job."""

    def observe(self) -> None:
        """Takes what the hosts report of themselves into the record."""

    def warnings(self) -> list[HostLine]:
        """Returns lines that are not in the hosts' logs yet."""

    def conclude(self, judge: Callable[[], Verdict] | None, found: Mapping[str, Observation]) -> Sequence[str]:
        """Keeps what is needed of hosts that are down. Returns lines for the end of the first host's log.

        `judge` gives the attempt's verdict, or is None if the attempt is not the job's end.
        """

    def release(self) -> None:
        """Ends what served the hosts. Called after the hosts are removed."""

    def save(self) -> None:
        """Saves what the next attempt begins with. Called when the hosts are down."""

    def upload(self) -> Sequence[str]:
        """Uploads the results. Returns what it left out. Raises ClientFault."""
