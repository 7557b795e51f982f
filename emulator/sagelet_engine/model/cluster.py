"""The part of the runtime port for runtimes that have machines and a queue of their own.

A runtime of one machine starts hosts at once, and sagelet's own scheduler says when. A cluster has its own scheduler:
sagelet submits a job to it at once, and the job waits in the cluster's queue until it has been given its nodes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from sagelet_engine.base.errors import SageletError
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.model.objects import ObjectStore


class Refused(SageletError):
    """The cluster will never run this order; the message is the cluster's own, and names the remedy."""


class Place(Enum):
    #: In the queue, or held back for a moment.
    QUEUED = "queued"
    #: The nodes are the job's.
    GRANTED = "granted"
    #: It has ended, whichever way; its hosts say how.
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
    #: On each node.
    gpus: int = 0
    #: How long it may take, the grace of a stop included, or None for as long as the cluster lets it.
    seconds: int | None = None
    #: The last seconds of these are for the job's own end, after it was asked to stop.
    grace_seconds: int = 0
    #: What the user's rules choose partition, account and the like by.
    role: str = ""
    #: Whose the job is.
    account: str = ""
    region: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AllocationStatus:
    """Where an order is."""

    place: Place
    #: For people, in the cluster's words: why it waits, or where it runs.
    reason: str = ""
    #: When the nodes became the job's, ms since the epoch.
    started_ms: int | None = None


@dataclass(frozen=True)
class ClusterContext:
    """What a cluster can have of the server that it works for."""

    objects: ObjectStore
    keys: KeyPair
    #: The endpoint as the nodes reach it; known once the server listens.
    url: Callable[[], str]
    #: The certificate authority of --tls as PEM. Empty without --tls.
    authority: Callable[[], str] = str


class Cluster(Protocol):
    """What takes orders. Every method may be called again after a crash of sagelet."""

    def submit(self, order: AllocationRequest) -> None:
        """Submits the order, unless this job id was submitted before.

        Raises Refused where the cluster never would run it, and RuntimeUnavailable when it does not answer, or takes
        no more orders for the moment.
        """
        ...

    def standings(self) -> Mapping[str, AllocationStatus]:
        """Where every order of this server is, by job id: one look at the cluster for all of them.

        An order that was submitted and is not there was forgotten by the cluster: it is over. Raises
        RuntimeUnavailable.
        """
        ...

    def attach(self, ground: ClusterContext) -> None:
        """Before the first order."""
        ...

    def close(self) -> None:
        """The server goes down; orders stay."""
        ...

    def gpus_per_node(self) -> int:
        """The most GPUs that a node has; 0: the cluster has none."""
        ...
