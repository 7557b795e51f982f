"""The connection to the Docker Engine that builds and keeps the images."""

import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import docker
from docker.errors import DockerException
from docker.utils import parse_repository_tag

from sagelet_engine.base.errors import RuntimeUnavailable, SageletError
from sagelet_engine.images.platform import ARCHITECTURE, PLATFORM, architecture


class ProgramFailed(SageletError):
    """A program ended with a status other than 0. The text is its output."""


class Written(NamedTuple):
    """What a program has printed, and the files that it has written into a directory, by name."""

    printed: str
    files: Mapping[str, bytes]


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


def size_of(client: docker.DockerClient, reference: str) -> int | None:
    """Returns the bytes of a local image with the layers below it. None if the engine has no such image, or no size."""
    try:
        return client.images.get(reference).attrs.get("Size")
    except docker.errors.ImageNotFound:
        return None


def platform_of(client: docker.DockerClient) -> str | None:
    """Returns the platform to name in pulls and builds. None if it is the engine's own."""
    return None if architecture(str(client.info().get("Architecture") or "")) == ARCHITECTURE else PLATFORM


def run_python(client: docker.DockerClient, reference: str, words: Sequence[str], directory: str) -> Written:
    """Runs an image's Python with these arguments and without a network. Raises ProgramFailed, docker-py's errors."""
    made = client.containers.create(reference, list(words), entrypoint="python3", network_mode="none", cap_drop=["ALL"])
    try:
        made.start()
        if made.wait()["StatusCode"]:
            raise ProgramFailed(made.logs().decode(errors="replace"))
        stream, _ = made.get_archive(directory)
        with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as packed:
            opened = {member.name.partition("/")[2]: packed.extractfile(member) for member in packed}
            files = {name: file.read() for name, file in opened.items() if file is not None}
        return Written(made.logs(stderr=False).decode(), files)
    finally:
        made.remove(force=True)


def import_image(client: docker.DockerClient, tar: Iterable[bytes], reference: str, changes: Sequence[str] = ()) -> str:
    """Makes an image of one root file system. Returns its id. Raises docker-py's errors.

    The name is given afterwards, because Podman ignores the tag that is asked for with an import. So an import that
    fails replaces no image, too.
    """
    said = client.api.import_image_from_stream(iter(tar), changes=list(changes))
    *_, last = (json.loads(line) for line in said.splitlines() if line.strip())
    if "error" in last:
        raise DockerException(str(last["error"]))
    made = str(last["status"])
    repository, tag = parse_repository_tag(reference)
    client.api.tag(made, repository, tag)
    return made
