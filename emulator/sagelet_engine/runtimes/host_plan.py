"""What a keeper (`host_shim`) reads of its host: `plan.json`. Standard library only, since a node may finish one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagelet_engine.runtimes.host_environment import OptMlPaths, command_of, environment_of
from sagelet_engine.runtimes.host_trial import Namespaces
from sagelet_engine.runtimes.port import MOST_PROCESSES, WARM_POOL_CACHE, HostPlan, LaunchPlan, Mount


def described(
    plan: LaunchPlan,
    host: HostPlan,
    image_command: tuple[str, ...],
    python_path: str,
    server: Mapping[str, str],
    master_port: int,
    addresses: Mapping[str, str],
) -> dict[str, Any]:
    """The host, however private its machine can make it. `server`: the environment of sagelet itself."""
    return {
        "command": command_of(plan, image_command),
        "environment": environment_of(plan, host, image_command, python_path, server, master_port),
        "directory": "/opt/ml",
        "opt_ml": str(host.opt_ml),
        "read_only": list(host.read_only),
        "mounts": [[str(mount.source), mount.target, mount.read_only] for mount in _mounts(host)],
        "hostname": host.name,
        "hosts": dict(addresses),
        "isolate_network": plan.network_isolation,
        "most_processes": MOST_PROCESSES,
    }


def settled(content: dict[str, Any], namespaces: Namespaces) -> dict[str, Any]:
    """The host on a machine that can do so much. Without namespaces paths are rewritten, in its files, too."""
    if namespaces != "none":
        return {**content, "namespaces": namespaces}
    paths = OptMlPaths(Path(content["opt_ml"]))
    paths.rewrite_hyperparameters()
    # Nothing makes a link read-only.
    for source, target, _ in content["mounts"]:
        paths.link(target, Path(source))
    return {
        **content,
        "namespaces": namespaces,
        "directory": content["opt_ml"],
        "environment": paths.environment(content["environment"]),
        "command": [paths.rewritten(argument) for argument in content["command"]],
    }


def _mounts(host: HostPlan) -> list[Mount]:
    """A warm pool's cache is a directory of this machine, too."""
    cache = [] if host.cache is None else [Mount(host.cache.absolute(), WARM_POOL_CACHE, read_only=False)]
    return [*cache, *host.mounts]
