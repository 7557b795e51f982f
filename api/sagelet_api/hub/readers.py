"""Who may read the hub: running jobs, and any program on loopback unless signatures are checked."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from sagelet_api.hub.errors import HubError
from sagelet_api.protocol.calls import FROM_CONTAINERS, Environ
from sagelet_engine.base.errors import JobNotFound
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.hub import access
from sagelet_engine.model.job import Job


class Reader(NamedTuple):
    """Who reads."""

    #: For the log.
    name: str
    #: True if nothing outside of this machine may be asked for it: a job with EnableNetworkIsolation.
    isolated: bool = False
    #: Who has a share of the requests to the real Hub: a job's id. All programs outside of jobs are one.
    client: str = ""


class Readers(Protocol):
    def find(self, part: str, environ: Environ) -> Reader:
        """Returns who reads. `part`: the part of the path that identifies a job; empty for none. Raises HubError."""
        ...


class JobReaders:
    """The jobs that may read a server's hub. `job` finds a job by its id, and raises JobNotFound."""

    def __init__(self, keys: KeyPair, job: Callable[[str], Job], *, everywhere: bool) -> None:
        self._keys = keys
        self._job = job
        self._everywhere = everywhere

    def find(self, part: str, environ: Environ) -> Reader:
        if not part:
            if self._everywhere or environ.get(FROM_CONTAINERS):
                raise HubError(
                    403, "", "sagelet's hub does not know who asks: jobs find the way in HF_ENDPOINT, other programs "
                    "by `sagelet run --hub`"
                )  # fmt: skip
            return Reader("hub")
        job_id = access.job_of(self._keys, part)
        if job_id == access.OWNER:
            return Reader("hub")
        try:
            job = None if job_id is None else self._job(job_id)
        except JobNotFound:
            job = None
        if job is None or job.terminal:
            raise HubError(403, "", "This HF_ENDPOINT was a job's, and ended with it: take HF_ENDPOINT anew")
        return Reader(f"job {job.key.name}", job.spec.network_isolation, job.id)


class Anybody:
    """The readers of a hub without a server (`sagelet hub serve`), which is on loopback."""

    def find(self, part: str, environ: Environ) -> Reader:  # noqa: ARG002
        return Reader("hub")
