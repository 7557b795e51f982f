"""Where jobs run: the runtimes that this machine has, each with a server of its own and images that it can use."""

import sys
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench import servers as processes
from bench.training import IMAGE, Account
from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.images.engine import connect, image_id
from sagelet_engine.images.variants import training_image
from support import tiny_image


@dataclass(frozen=True)
class Place:
    #: As `--runtime` calls it.
    name: str
    #: For jobs that need Python and the toolkit.
    image: str
    #: For jobs that need a shell and little else.
    tiny_image: str
    #: The Python of `image`; None when it is not there.
    python: str | None = None
    #: Why there is none.
    without_python: str = ""


def found() -> tuple[list[Place], dict[str, str]]:
    """The places, and why others are left out."""
    process = Place("process", IMAGE, IMAGE, sys.executable)
    try:
        return [process, _docker(connect())], {}
    except RuntimeUnavailable as error:
        return [process], {"docker": str(error)}


def _docker(client: Any) -> Place:
    tiny, image = tiny_image.ensure(client), training_image()
    if image_id(client, image) is None:
        return Place("docker", image, tiny, None, f"{image} is not there: `make image`")
    return Place("docker", image, tiny, "python3")


@dataclass(frozen=True)
class User:
    """Somebody with an account at a server of a place."""

    place: Place
    account: Account
    process: psutil.Process
    #: The server's --data.
    data: Path


@contextmanager
def servers(places: list[Place], directory: Path, *options: str) -> Iterator[list[User]]:
    """A server for each place."""
    with ExitStack() as stack:
        users = []
        for place in places:
            data = directory / f"data-{uuid.uuid4().hex}"
            endpoint, process = stack.enter_context(processes.sagelet(data, "--runtime", place.name, *options))
            users.append(User(place, Account(endpoint), process, data))
        yield users
