"""The connection to the Docker Engine that builds and keeps the images."""

import docker
from docker.errors import DockerException

from sagelet_engine.base.errors import RuntimeUnavailable

#: Seconds without a byte from the daemon. Unpacking torch's wheels is silent for minutes on a slow disk.
_READ_TIMEOUT = 3600


def connect() -> docker.DockerClient:
    """Returns a client of the engine that DOCKER_HOST names, or of the local one. Raises RuntimeUnavailable."""
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
    """Returns the id of a local image, or None if there is no such image."""
    try:
        return client.images.get(reference).id
    except docker.errors.ImageNotFound:
        return None
