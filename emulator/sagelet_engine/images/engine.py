"""The connection to the Docker Engine that builds and keeps the images."""

import docker
from docker.errors import DockerException

from sagelet_engine.base.errors import RuntimeUnavailable

#: Seconds without a byte from the daemon; unpacking torch's wheels is silent for minutes on a slow disk.
_READ_TIMEOUT = 3600


def connect() -> docker.DockerClient:
    """A client of the engine that DOCKER_HOST names, or of the local one. Raises RuntimeUnavailable."""
    try:
        client = docker.from_env(timeout=_READ_TIMEOUT)
        client.ping()
    except DockerException as error:
        raise RuntimeUnavailable(
            f"The Docker Engine does not answer ({error}). Start it, let DOCKER_HOST name one that runs, "
            "or do without an image: `sagelet up --runtime process`"
        ) from error
    return client


def image_id(client: docker.DockerClient, reference: str) -> str | None:
    """The id of a local image, None when it is not there."""
    try:
        return client.images.get(reference).id
    except docker.errors.ImageNotFound:
        return None
