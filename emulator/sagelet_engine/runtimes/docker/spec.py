"""The names, labels and hardening flags with which a host is created in Docker. Pure data; it calls no engine."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sagelet_engine.images.platform import architecture
from sagelet_engine.model.runtime import MOST_PROCESSES, SCRATCH, WARM_POOL_CACHE, HostPlan, LaunchPlan, Mount
from sagelet_engine.runtimes.docker.engine import DockerFacts
from sagelet_engine.runtimes.node import confinement
from sagelet_engine.runtimes.node.confinement import User

LABEL = "org.sagelet."
JOB_ID, JOB_NAME, HOST, OWNER = f"{LABEL}job-id", f"{LABEL}job-name", f"{LABEL}host", f"{LABEL}owner"
#: The label with the path of the data directory at the host's start.
DATA = f"{LABEL}data"

#: The name under which a container reaches the machine that it runs on, and Podman's own such name. Podman writes its
#: name into /etc/hosts itself, with an address that fits (a rootless Podman's gateway is not this machine).
HOST_GATEWAY = "host.docker.internal"
PODMAN_HOST_GATEWAY = "host.containers.internal"
#: Addresses where clouds hand out a machine's credentials (EC2's and others' instance metadata; ECS's and EKS's
#: agents). A container gets these addresses itself, so what it sends there never leaves it.
METADATA_ADDRESSES = ("169.254.169.254", "169.254.170.2", "169.254.170.23")
#: Size of a container's own files, if its root file system is writable and Docker can limit their size.
STORAGE = "20g"

NO_ENGINE = DockerFacts("", None, gpus=False, rootless=False)
#: A variable of the request's Environment: the debugger's port on the first host. Each further host has the next port
#: (images/runtime, attach.py).
DEBUGPY = "SAGELET_DEBUGPY"
#: The address that the debugger in the container listens at: every one. Docker publishes it on loopback only.
DEBUGPY_LISTEN = "SAGELET_DEBUGPY_LISTEN"


def network_name(plan: LaunchPlan, owner: str) -> str:
    """Returns a name that is unique for each job and owner, and readable."""
    digest = hashlib.sha256(f"{owner}\0{plan.job_id}".encode()).hexdigest()[:12]
    return f"sagelet-{re.sub(r'[^a-zA-Z0-9_.-]', '-', plan.job_name)}-{digest}"


def container_name(plan: LaunchPlan, owner: str, host: str) -> str:
    return f"{network_name(plan, owner)}-{host}"


def job_labels(job_id: str, owner: str) -> dict[str, str]:
    return {JOB_ID: job_id, OWNER: owner}


def host_labels(plan: LaunchPlan, owner: str, host: str) -> dict[str, str]:
    return {**job_labels(plan.job_id, owner), JOB_NAME: plan.job_name, HOST: host}


def as_filters(labels: Mapping[str, str]) -> dict[str, list[str]]:
    return {"label": [f"{name}={value}" for name, value in labels.items()]}


def network_options(plan: LaunchPlan) -> dict[str, str]:
    """Returns options that give an isolated network's bridge no address.

    Containers would reach this machine through such an address.
    """
    return {"com.docker.network.bridge.inhibit_ipv4": "true"} if plan.network_isolation else {}


@dataclass(frozen=True)
class Shell:
    """How a job's containers are confined on the machine of one engine."""

    #: The user that runs in the container, or None for root.
    user: User | None
    #: The root file system is read-only; /tmp, /var/tmp and the home directory are in the host's scratch directory.
    read_only: bool
    #: Bytes of a host's output that Docker keeps, at least.
    log_bytes: int
    engine: DockerFacts = NO_ENGINE
    #: True if the size of a writable root file system is limited.
    limits_storage: bool = False


def log_options(most: int, engine: DockerFacts) -> dict[str, str]:
    """Returns the options for a log of at least `most` bytes.

    Docker drops lines only when its second file is full. Long before that the host has printed too much and its job
    fails (`docker/log.py`). Podman keeps one file and empties it when it is full, so its log has no limit of its own.
    """
    if engine.podman:
        return {}
    return {"max-size": str(most + most // 8), "max-file": "2"}


def environment(plan: LaunchPlan, host: HostPlan, shell: Shell, path: str = "") -> dict[str, str]:
    """Returns the environment of a host's container. `path`: the image's PATH."""
    defaults = confinement.environment(read_only=shell.read_only, user=shell.user, path=path)
    if not host.gpu_uuids:
        # No GPUs, as on a CPU instance of SageMaker. Images set `all`, which nvidia as default runtime would obey.
        defaults["NVIDIA_VISIBLE_DEVICES"] = "void"
    if debugpy_port(plan, host) is not None:
        defaults[DEBUGPY_LISTEN] = "0.0.0.0"
    return {**defaults, **plan.environment}


def debugpy_port(plan: LaunchPlan, host: HostPlan) -> int | None:
    """Returns the port where a debugger can attach to a host. None if none was asked for, or without a network.

    0 (any free port) works for processes only: a port that Docker publishes must be known beforehand.
    """
    asked = plan.environment.get(DEBUGPY, "")
    if plan.network_isolation or not (asked.isascii() and asked.isdecimal()) or int(asked) == 0:
        return None
    port = int(asked) + [one.name for one in plan.hosts].index(host.name)
    return port if port <= 65535 else None


def extra_hosts(plan: LaunchPlan, addresses: Mapping[str, str], engine: DockerFacts) -> dict[str, str]:
    """Returns the entries of /etc/hosts. It has every host, since Docker's DNS forgets a host as soon as it ends."""
    if plan.network_isolation:
        return dict(addresses) or {host.name: "127.0.0.1" for host in plan.hosts}
    return {**gateway_entry(engine), **addresses}


def gateway_entry(engine: DockerFacts) -> dict[str, str]:
    """Returns the entry by which a container reaches this machine.

    Podman and Docker Desktop answer for the name themselves. The bridge of a rootless engine is in a network namespace
    of its own, so its containers reach this machine by the address that others use.
    """
    if engine.podman or engine.desktop:
        return {}
    return {HOST_GATEWAY: (engine.own_address if engine.rootless else None) or "host-gateway"}


def platform(image: Mapping[str, Any], engine: DockerFacts) -> str | None:
    """Returns the platform to ask for: that of an image of another architecture. None if the engine's own will do."""
    own = architecture(str(image.get("Architecture") or ""))
    return None if own == engine.architecture else f"{image.get('Os') or 'linux'}/{own}"


def host_config(
    plan: LaunchPlan, host: HostPlan, addresses: Mapping[str, str], network: str, shell: Shell
) -> confinement.DockerOptions:
    """Returns the arguments of docker-py's `create_host_config`: hardened, never privileged, no Docker socket."""
    binds = {str(host.opt_ml): {"bind": "/opt/ml", "mode": "rw"}}
    binds |= {str(host.opt_ml / path): {"bind": f"/opt/ml/{path}", "mode": "ro"} for path in host.read_only}
    if host.cache is not None:
        binds[str(host.cache)] = {"bind": f"/opt/ml/{WARM_POOL_CACHE}", "mode": "rw"}
    config: confinement.DockerOptions = {
        "binds": binds,
        "mounts": [*(_mount(mount) for mount in host.mounts), *_scratch(host, shell)],
        "extra_hosts": extra_hosts(plan, addresses, shell.engine),
        "network_mode": network,
        "log_config": {"type": "json-file", "config": log_options(shell.log_bytes, shell.engine)},
        "init": False,
        "privileged": False,
        **confinement.hardening(processes=MOST_PROCESSES, shm_bytes=plan.shm_bytes, read_only=shell.read_only),
        **_limits(host, shell),
    }
    if (port := debugpy_port(plan, host)) is not None:
        config["port_bindings"] = {port: ("127.0.0.1", port)}
    if host.gpu_uuids:
        request = {"Driver": "", "DeviceIDs": list(host.gpu_uuids), "Capabilities": [["gpu"]]}
        config["device_requests"] = [request]
    return config


def _limits(host: HostPlan, shell: Shell) -> confinement.DockerOptions:
    engine = shell.engine
    memory = confinement.memory_of(host.memory_bytes, engine.memory) if engine.limits_memory else None
    cpus = confinement.cpus_of(host.vcpus, engine.cpus) if engine.limits_cpus else None
    storage = {"storage_opt": {"size": STORAGE}} if shell.limits_storage and not shell.read_only else {}
    return {**confinement.limits(memory, cpus), **storage}


def _scratch(host: HostPlan, shell: Shell) -> list[confinement.DockerOptions]:
    if not shell.read_only:
        return []
    places = confinement.scratch_mounts(host.run_dir / SCRATCH)
    return [{"Type": "bind", "Source": source, "Target": target, "ReadOnly": False} for source, target in places]


def _mount(mount: Mount) -> confinement.DockerOptions:
    """Returns a Docker mount, not a bind: mounts may share a source, and its path may contain a colon."""
    target = f"/opt/ml/{mount.target}"
    return {"Type": "bind", "Source": str(mount.source), "Target": target, "ReadOnly": mount.read_only}
