"""The Docker Engine: the client that all jobs of a server share, and facts about the engine, if one answers."""

import ipaddress
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import docker
from docker.errors import DockerException, NotFound
from requests.adapters import HTTPAdapter
from requests.exceptions import RequestException
from urllib3.util import Retry

from sagelet_engine.images.platform import ARCHITECTURE, architecture
from sagelet_engine.model.runtime import Usage

#: An answer of Docker's API, or a part of one, as it came.
DockerAnswer = dict[str, Any]

#: Connections that are kept open; more may be used at once.
KEPT_CONNECTIONS = 64
#: The part of every address that docker-py gives a local engine.
LOCAL = "http+docker://"
#: An engine may fail to read what changes meanwhile. Podman 4.3.1 answers 500 if a process ends while its container is
#: inspected ("read /proc/25137/cgroup: no such process"). Only reads are repeated, over 0.7 seconds.
READ_AGAIN = Retry(
    4,
    connect=0,
    read=0,
    other=0,
    status_forcelist={500},
    allowed_methods={"GET"},
    backoff_factor=0.05,
    raise_on_status=False,
)


def connect() -> docker.DockerClient:
    """Returns a client of the engine that DOCKER_HOST names, or of the local one. Raises DockerException."""
    return prepared(docker.from_env(max_pool_size=KEPT_CONNECTIONS))


def prepared(client: docker.DockerClient) -> docker.DockerClient:
    """Makes a client use one pool of connections and repeat reads that fail, and returns it."""
    _keep_one_pool(client.api.adapters.get(LOCAL))
    for adapter in client.api.adapters.values():
        if isinstance(adapter, HTTPAdapter):
            adapter.max_retries = READ_AGAIN
    return client


def _keep_one_pool(adapter: Any) -> None:
    """Makes docker-py use one pool of connections.

    By itself docker-py keeps a pool for each path, 25 at most, and closes the oldest. A request that has just got the
    closed pool fails with AttributeError. Jobs failed in this way when many ran at once.
    """
    if hasattr(adapter, "pools"):
        adapter.get_connection = partial(_whatever_the_path, adapter.get_connection)


def _whatever_the_path(connection: Any, _url: str, proxies: Any = None) -> Any:
    return connection(f"{LOCAL}localhost", proxies)


def usage(stats: Mapping[str, Any]) -> Usage | None:
    """Reads an answer of `GET /containers/ID/stats`. Returns None if it has no memory: the container does not run.

    Page cache that is not in use does not count, as in `docker stats`: cgroup v2 calls it inactive_file, v1
    total_inactive_file.
    """
    memory = stats.get("memory_stats") or {}
    if "usage" not in memory:
        return None
    details = memory.get("stats") or {}
    cache = details.get("total_inactive_file", details.get("inactive_file", 0))
    return Usage(
        cpu_seconds=stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9,
        memory_bytes=max(0, memory["usage"] - cache),
        memory_limit_bytes=memory["limit"],
    )


#: Seconds until an engine that does not answer counts as absent.
PROBE_TIMEOUT_S = 3


@dataclass(frozen=True)
class DockerFacts:
    """Facts about one Docker Engine, or about Podman with Docker's API."""

    #: Version of the engine, `28.2.2`.
    version: str
    #: Address of this machine on Docker's default bridge, where containers reach it, or None if there is no such
    #: bridge.
    bridge_gateway: str | None
    #: True if the NVIDIA container toolkit is set up (as a runtime or through CDI).
    gpus: bool
    #: True if the engine runs as an ordinary user. Root in a container is then that user.
    rootless: bool
    #: Directory of images and containers, on the engine's machine.
    root: str = ""
    #: Memory in bytes and CPUs of its machine, which may be virtual. 0 if it is not known.
    memory: int = 0
    cpus: int = 0
    #: True if the engine's control groups limit memory and CPU time. A rootless engine's often do not.
    limits_memory: bool = True
    limits_cpus: bool = True
    #: True if containers have control groups of their own. Without them, the engine reports the whole machine's usage.
    has_cgroups: bool = True
    #: True if images and containers are on overlay2 over XFS, which can limit the size of a container's own files.
    may_limit_storage: bool = False
    #: True if Podman answers. `podman.py` has what it does otherwise.
    podman: bool = False
    #: True for Docker Desktop, whose engine is in a virtual machine.
    desktop: bool = False
    #: Docker's name of the engine's architecture. Images of another one are emulated, if at all.
    architecture: str = ARCHITECTURE
    #: The address that this machine has in its network, or None if it has no network.
    own_address: str | None = None

    @property
    def has_way_back(self) -> bool:
        """True if a container reaches a server that listens on this machine's loopback or on Docker's bridge.

        Podman's bridges come and go with the containers. Those of a rootless engine are in a network namespace.
        """
        return self.desktop or not (self.podman or self.rootless)

    @property
    def name(self) -> str:
        """For people: `Docker Engine 28.2.2`, `Podman 4.3.1, rootless`."""
        name = "Podman" if self.podman else "Docker Desktop, Engine" if self.desktop else "Docker Engine"
        emulated = f", {self.architecture}" if self.architecture != ARCHITECTURE else ""
        return f"{name} {self.version}{', rootless' if self.rootless else ''}{emulated}"


def probe(client: docker.DockerClient | None = None) -> DockerFacts | None:
    """Asks `client`, or the engine of the environment (DOCKER_HOST and so on). None if no engine answers."""
    try:
        if client is not None:
            return facts(client)
        with closing(docker.from_env(timeout=PROBE_TIMEOUT_S)) as own:
            return facts(own)
    except (DockerException, RequestException):
        return None


def facts(client: docker.DockerClient) -> DockerFacts:
    """Asks the engine. Raises DockerException or RequestException if it does not answer."""
    info = client.info()
    # Podman has a member of its own.
    rootless = info.get("Rootless") or any("name=rootless" in option for option in info.get("SecurityOptions") or ())
    return DockerFacts(
        version=str(info.get("ServerVersion", "")),
        bridge_gateway=_bridge_gateway(client),
        gpus=_has_gpus(info),
        rootless=bool(rootless),
        root=str(info.get("DockerRootDir") or ""),
        memory=int(info.get("MemTotal") or 0),
        cpus=int(info.get("NCPU") or 0),
        limits_memory=bool(info.get("MemoryLimit", True)),
        limits_cpus=bool(info.get("CpuCfsQuota", True)),
        has_cgroups=info.get("CgroupDriver") != "none" and not (rootless and info.get("CgroupVersion") == "1"),
        may_limit_storage=["Backing Filesystem", "xfs"] in (info.get("DriverStatus") or ()),
        podman=_is_podman(client),
        desktop=info.get("OperatingSystem") == "Docker Desktop",
        architecture=architecture(str(info.get("Architecture") or "")),
        own_address=_own_address(),
    )


def _bridge_gateway(client: docker.DockerClient) -> str | None:
    try:
        ipam = client.networks.get("bridge").attrs.get("IPAM") or {}
    except NotFound:
        return None
    for config in ipam.get("Config") or ():
        if (gateway := config.get("Gateway")) and ":" not in gateway:
            return str(gateway)
        if ":" not in config.get("Subnet", ":"):  # the engine leaves the gateway out when it is the first address
            return str(next(ipaddress.ip_network(config["Subnet"]).hosts()))
    return None


def _is_podman(client: docker.DockerClient) -> bool:
    """Asks for nothing but headers: Podman's answer to `/version` takes seconds on Debian, since it asks dpkg."""
    response = client.api.get(f"{client.api.base_url}/_ping")
    response.raise_for_status()
    return "Libpod-API-Version" in response.headers


def _own_address() -> str | None:
    """Returns the address from which this machine would call another network. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect(("192.0.2.1", 9))  # an address of no machine (RFC 5737)
        except OSError:
            return None
        return str(trial.getsockname()[0])


def _has_gpus(info: DockerAnswer) -> bool:
    devices = info.get("DiscoveredDevices") or ()
    return "nvidia" in (info.get("Runtimes") or {}) or any("nvidia.com/gpu" in one.get("ID", "") for one in devices)
