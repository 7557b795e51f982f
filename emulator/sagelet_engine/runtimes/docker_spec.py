"""What we ask of Docker for a host: names, labels and the hardened flags. Pure data, no engine."""

import hashlib
import os
import re
from collections.abc import Mapping
from typing import Any

from sagelet_engine.runtimes.port import MOST_PROCESSES, WARM_POOL_CACHE, HostPlan, LaunchPlan, Mount

LABEL = "org.sagelet."
JOB_ID, JOB_NAME, HOST, OWNER = f"{LABEL}job-id", f"{LABEL}job-name", f"{LABEL}host", f"{LABEL}owner"
#: Where the data directory was when the host was started.
DATA = f"{LABEL}data"

#: By this name a container reaches the machine it runs on.
HOST_GATEWAY = "host.docker.internal"
#: Where clouds hand out a machine's credentials (EC2's and others' instance metadata; ECS's and EKS's agents). A
#: container has these addresses itself, so what it sends there never leaves it.
METADATA_ADDRESSES = ("169.254.169.254", "169.254.170.2", "169.254.170.23")
#: Never rotated, whatever the daemon's defaults are: a rotated line would be lost to the follower.
LOG_OPTIONS = {"max-size": "1024g", "max-file": "2"}


#: Environment of the request: a port for a debugger; host N gets the one after host N-1's (images/runtime, attach.py).
DEBUGPY = "SAGELET_DEBUGPY"
#: The container listens everywhere, and Docker publishes that on this machine's loopback address.
DEBUGPY_LISTEN = "SAGELET_DEBUGPY_LISTEN"


def network_name(plan: LaunchPlan, owner: str) -> str:
    """Unique per job and owner, readable for people."""
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
    """An internal network alone still reaches this machine, through the bridge's own address: so it gets none."""
    return {"com.docker.network.bridge.inhibit_ipv4": "true"} if plan.network_isolation else {}


def user_of_server(*, rootless: bool) -> str | None:
    """Files in /opt/ml must belong to the server's user. Root of a rootless engine is that user already."""
    if os.getuid() == 0 or rootless:
        return None
    return f"{os.getuid()}:{os.getgid()}"


def environment(plan: LaunchPlan, host: HostPlan, user: str | None) -> dict[str, str]:
    defaults = {} if user is None else {"HOME": "/tmp"}
    if not host.gpu_uuids:
        # As on a CPU instance of SageMaker. Images say `all`, and an nvidia default runtime would believe them.
        defaults["NVIDIA_VISIBLE_DEVICES"] = "void"
    if debugpy_port(plan, host) is not None:
        defaults[DEBUGPY_LISTEN] = "0.0.0.0"
    return {**defaults, **plan.environment}


def debugpy_port(plan: LaunchPlan, host: HostPlan) -> int | None:
    """The port on which a debugger can attach to a host; None: none is asked for, or the host has no network.

    0, any free port, is for processes: what Docker publishes must be known beforehand.
    """
    asked = plan.environment.get(DEBUGPY, "")
    if plan.network_isolation or not asked.isdecimal() or int(asked) == 0:
        return None
    port = int(asked) + [one.name for one in plan.hosts].index(host.name)
    return port if port <= 65535 else None


def extra_hosts(plan: LaunchPlan, addresses: Mapping[str, str]) -> dict[str, str]:
    """/etc/hosts: every host from the start, since Docker's DNS forgets a host as soon as it ends."""
    if plan.network_isolation:
        return dict(addresses) or {host.name: "127.0.0.1" for host in plan.hosts}
    return {HOST_GATEWAY: "host-gateway", **addresses}


def host_config(plan: LaunchPlan, host: HostPlan, addresses: Mapping[str, str], network: str) -> dict[str, Any]:
    """Arguments of docker-py's `create_host_config`: hardened, never privileged, no Docker socket."""
    binds = {str(host.opt_ml): {"bind": "/opt/ml", "mode": "rw"}}
    binds |= {str(host.opt_ml / path): {"bind": f"/opt/ml/{path}", "mode": "ro"} for path in host.read_only}
    if host.cache is not None:
        binds[str(host.cache)] = {"bind": f"/opt/ml/{WARM_POOL_CACHE}", "mode": "rw"}
    config: dict[str, Any] = {
        "binds": binds,
        "mounts": [_mount(mount) for mount in host.mounts],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": MOST_PROCESSES,
        "shm_size": plan.shm_bytes,
        "extra_hosts": extra_hosts(plan, addresses),
        "network_mode": network,
        "log_config": {"type": "json-file", "config": LOG_OPTIONS},
        "init": False,
        "privileged": False,
    }
    if (port := debugpy_port(plan, host)) is not None:
        config["port_bindings"] = {port: ("127.0.0.1", port)}
    if plan.memory_bytes is not None:
        # The same limit with swap: a job that needs more memory fails, it does not crawl.
        config |= {"mem_limit": plan.memory_bytes, "memswap_limit": plan.memory_bytes}
    if host.gpu_uuids:
        request = {"Driver": "", "DeviceIDs": list(host.gpu_uuids), "Capabilities": [["gpu"]]}
        config["device_requests"] = [request]
    return config


def _mount(mount: Mount) -> dict[str, Any]:
    """Docker's Mount, not a bind: several may have one source, and its name may have a colon."""
    target = f"/opt/ml/{mount.target}"
    return {"Type": "bind", "Source": str(mount.source), "Target": target, "ReadOnly": mount.read_only}
