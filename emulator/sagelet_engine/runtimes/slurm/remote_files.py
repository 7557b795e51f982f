"""The port for nodes that do not see the data directory. `file_sync/` implements it; nothing else needs that folder."""

from pathlib import Path
from typing import Protocol

from sagelet_engine.model.cluster import AllocationRequest, ClusterContext
from sagelet_engine.model.runtime import LaunchPlan


class RemoteFiles(Protocol):
    """Brings the files of allocations to their nodes and back."""

    def prologue(self, order: AllocationRequest, directory: Path) -> str:
        """Returns the lines with which the allocation's script begins."""
        ...

    @property
    def around(self) -> list[str]:
        """Returns the command that runs the shim on each node."""
        ...

    def check(self, plan: LaunchPlan) -> None:
        """Raises ClientFault if the job needs what cannot be brought."""
        ...

    def nodes_are_known(self, job_id: str, directory: Path) -> None:
        """Raises RuntimeUnavailable until the script has said on which nodes it is, or ClientFault if it never will."""
        ...

    def bring(self, plan: LaunchPlan, directory: Path) -> None:
        """Sends every host its files. Does not send anything twice."""
        ...

    def tell(self, job_id: str, run_dir: Path) -> None:
        """Sends a host's control file after it has grown."""
        ...

    def close(self, job_id: str) -> None:
        """Forgets an allocation."""
        ...

    def start(self) -> None: ...

    def stop(self) -> None: ...


class MakeRemoteFiles(Protocol):
    def __call__(self, state_dir: Path, context: ClusterContext, python: str) -> RemoteFiles:
        """`state_dir`: the queue's. `python`: the nodes' interpreter."""
        ...
