"""Whose fault it is that Docker made no container: the request's, or the engine's.

Docker answers a request of its API with a status of HTTP. A status of 4xx says that this request cannot succeed, now or
later. So the job fails with Docker's reason. Waiting is for an engine that is not in order: one that does not answer,
or that answers 5xx.
"""

from docker.errors import APIError

from sagelet_engine.base.errors import ClientFault

#: Statuses of 4xx that another try may not meet, and why.
PASSING = {
    404: "the image or the network was removed meanwhile: the next launch looks for the one and makes the other",
    408: "the engine was too slow",
    409: "something else is done to a container of this name",
    423: "the engine is locked, as a swarm's manager is until somebody unlocks it",
    425: "the engine is not ready",
    429: "the engine has too much to do",
}
#: Parts of Docker's reasons, and what the user can change. The first that fits counts.
REMEDIES = (
    ("no command specified", "Name the program in ContainerEntrypoint, which has no empty text in its first place"),
    ("environment variable", "Correct Environment: each variable has a name"),
    ("memory limit", "Give the server's machine more memory, or ask for another instance type"),
    ("range of cpus", "Give the server's machine more CPUs, or ask for another instance type"),
)
_OTHER = "Correct ContainerEntrypoint, ContainerArguments, Environment or the image"


def is_refusal(error: APIError) -> bool:
    """True if the engine will answer the same to each repetition of the request."""
    status = error.status_code
    return status is not None and 400 <= status < 500 and status not in PASSING


def refused(host: str, reason: str) -> ClientFault:
    """Returns the fault for a container that Docker does not make."""
    known = (remedy for part, remedy in REMEDIES if part in reason.lower())
    return ClientFault(f"Docker refuses the container of {host}: {reason}. {next(known, _OTHER)}")
