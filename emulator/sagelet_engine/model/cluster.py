"""The part of the runtime port for runtimes that have machines and a queue of their own.

A runtime of one machine starts hosts at once, when sagelet's own scheduler decides. A cluster has its own scheduler:
sagelet submits a job to it at once, and the job waits in the cluster's queue until it gets its nodes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.model.objects import ObjectStore


class Refused(SageletError):
    """The cluster will never run this request. The message is the cluster's own, and names the remedy."""


class AllocationState(Enum):
    """The state of an allocation request in the cluster's queue."""

    #: In the queue, or held back for a moment.
    QUEUED = "queued"
    #: The nodes are the job's.
    GRANTED = "granted"
    #: It has ended. Its hosts say how.
    OVER = "over"


@dataclass(frozen=True)
class AllocationRequest:
    """What one attempt of a job asks of the cluster: all of its hosts at once, or none."""

    #: The attempt's launch id: the key of adoption.
    job_id: str
    #: For people who look at the cluster's queue.
    job_name: str
    #: An instance type for each host.
    instance_types: tuple[str, ...]
    #: The number on each node.
    gpus: int = 0
    #: The longest time that it may take, with the grace of a stop. None for the cluster's limit.
    seconds: int | None = None
    #: The last seconds of that time, for the job to end after it was asked to stop.
    grace_seconds: int = 0
    #: Values by which the user's rules choose partition, account and the like.
    role: str = ""
    #: The owner of the job.
    account: str = ""
    region: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AllocationStatus:
    """Where a request is in the cluster."""

    state: AllocationState
    #: For people, in the cluster's words: why it waits, or where it runs.
    reason: str = ""
    #: When the job got the nodes, in ms since the epoch.
    started_ms: int | None = None


@dataclass(frozen=True)
class ClusterContext:
    """What a cluster may use of the server that it works for."""

    objects: ObjectStore
    keys: KeyPair
    #: Returns the endpoint as the nodes reach it. Known once the server listens.
    url: Callable[[], str]
    #: The certificate authority of --tls as PEM. Empty without --tls.
    authority: Callable[[], str] = str


class Cluster(Protocol):
    """Accepts allocation requests. Every method may be called again after a crash of sagelet."""

    def submit(self, order: AllocationRequest) -> None:
        """Submits the request, unless this job id was submitted before.

        Raises Refused if the cluster would never run it, and RuntimeUnavailable if it does not answer, or takes no more
        requests for the moment.
        """
        ...

    def statuses(self) -> Mapping[str, AllocationStatus]:
        """Returns the status of every request of this server by job id, from one look at the cluster.

        A request that was submitted and is missing here was forgotten by the cluster: it is over. Raises
        RuntimeUnavailable.
        """
        ...

    def attach(self, context: ClusterContext) -> None:
        """Gives the cluster its context. Called before the first request."""
        ...

    def close(self) -> None:
        """Releases what this client holds when the server stops. Allocation requests stay in the cluster's queue."""
        ...

    def gpus_per_node(self) -> int:
        """Returns the most GPUs that a node has. 0: the cluster has none."""
        ...
