"""What is known of the Docker Engine that answers, if one does."""

import ipaddress
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import DockerException, NotFound
from requests.exceptions import RequestException

#: Seconds until an engine that does not answer counts as absent.
PROBE_TIMEOUT_S = 3


@dataclass(frozen=True)
class DockerFacts:
    """A Docker Engine."""

    #: Version of the engine, `28.2.2`.
    version: str
    #: Address of this machine on Docker's default bridge, where containers reach it; None: there is no such bridge.
    bridge_gateway: str | None
    #: The NVIDIA container toolkit is set up (as a runtime or through CDI).
    gpus: bool
    #: The engine runs as an ordinary user: root in a container is that user.
    rootless: bool
    #: Directory of images and containers, on the engine's machine.
    root: str = ""
    #: Of its machine, which may be a virtual one: memory in bytes, and CPUs. 0: not known.
    memory: int = 0
    cpus: int = 0
    #: Whether its control groups hold memory, and CPU time, to a limit (a rootless engine's often do not).
    limits_memory: bool = True
    limits_cpus: bool = True
    #: Images and containers are on overlay2 over XFS, which can hold a container's own files to a size.
    may_limit_storage: bool = False


def probe(client: docker.DockerClient | None = None) -> DockerFacts | None:
    """Asks the engine (of the environment's DOCKER_HOST and so on, unless given); None when none answers."""
    try:
        if client is not None:
            return facts(client)
        with closing(docker.from_env(timeout=PROBE_TIMEOUT_S)) as own:
            return facts(own)
    except (DockerException, RequestException):
        return None


def facts(client: docker.DockerClient) -> DockerFacts:
    """Raises DockerException or RequestException when the engine does not answer."""
    info = client.info()
    return DockerFacts(
        version=str(info.get("ServerVersion", "")),
        bridge_gateway=_bridge_gateway(client),
        gpus=_has_gpus(info),
        rootless=any("name=rootless" in option for option in info.get("SecurityOptions") or ()),
        root=str(info.get("DockerRootDir") or ""),
        memory=int(info.get("MemTotal") or 0),
        cpus=int(info.get("NCPU") or 0),
        limits_memory=bool(info.get("MemoryLimit", True)),
        limits_cpus=bool(info.get("CpuCfsQuota", True)),
        may_limit_storage=["Backing Filesystem", "xfs"] in (info.get("DriverStatus") or ()),
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


def _has_gpus(info: dict[str, Any]) -> bool:
    devices = info.get("DiscoveredDevices") or ()
    return "nvidia" in (info.get("Runtimes") or {}) or any("nvidia.com/gpu" in one.get("ID", "") for one in devices)
