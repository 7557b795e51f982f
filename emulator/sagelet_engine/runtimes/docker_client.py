"""The client of the Docker Engine that all jobs of a server share."""

from functools import partial
from typing import Any

import docker

#: Connections that are kept open; more may be used at once.
KEPT_CONNECTIONS = 64
#: The part of every address that docker-py gives a local engine.
LOCAL = "http+docker://"


def connect() -> docker.DockerClient:
    """A client of the engine that DOCKER_HOST names, or of the local one. Raises DockerException."""
    client = docker.from_env(max_pool_size=KEPT_CONNECTIONS)
    _keep_one_pool(client.api.adapters.get(LOCAL))
    return client


def _keep_one_pool(adapter: Any) -> None:
    """docker-py keeps a pool of connections for each path, and closes the oldest of 25 pools.

    A request that has just been given that pool fails with AttributeError: so did jobs, when many ran at once.
    """
    if hasattr(adapter, "pools"):
        adapter.get_connection = partial(_whatever_the_path, adapter.get_connection)


def _whatever_the_path(connection: Any, _url: str, proxies: Any = None) -> Any:
    return connection(f"{LOCAL}localhost", proxies)
