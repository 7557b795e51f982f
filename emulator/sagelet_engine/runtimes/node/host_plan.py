"""`plan.json`: what a shim (`host_shim.py`) reads about its host. Standard library only: a node may complete it."""

import sys
from collections.abc import Mapping
from pathlib import Path

from sagelet_engine.model.runtime import MOST_PROCESSES, WARM_POOL_CACHE, HostPlan, LaunchPlan, Mount
from sagelet_engine.runtimes.node import base_packages, host_packages
from sagelet_engine.runtimes.node.host_environment import OptMlPaths, command_of, environment_of
from sagelet_engine.runtimes.node.host_trial import Namespaces
from sagelet_engine.runtimes.node.plan import Packages, Plan


def described(
    plan: LaunchPlan,
    host: HostPlan,
    image_command: tuple[str, ...],
    python_path: str,
    server: Mapping[str, str],
    master_port: int,
    addresses: Mapping[str, str],
    keep: Path | None = None,
) -> Plan:
    """Returns the plan of a host. The machine's namespaces are not known yet; `with_namespaces` adds them.

    `server`: the environment of sagelet itself. `keep`: the directory that keeps packages which jobs install from a
    requirements file.
    """
    base = base_packages.described()
    packages = host.run_dir.absolute() / host_packages.DIRECTORY
    own: Packages = {**base, "directory": str(packages), "keep": None if keep is None else str(keep.absolute())}
    environment = environment_of(plan, host, image_command, python_path, server, master_port)
    return {
        "command": _with_python(command_of(plan, image_command), packages),
        "environment": host_packages.environment(str(packages), environment),
        "packages": own,
        "protected": [path for path in base["read_only"] if not _is_below(path, host.run_dir, host.opt_ml, keep)],
        "directory": "/opt/ml",
        "opt_ml": str(host.opt_ml),
        "read_only": list(host.read_only),
        "mounts": [(str(mount.source), mount.target, mount.read_only) for mount in _mounts(host)],
        "hostname": host.name,
        "hosts": dict(addresses),
        "isolate_network": plan.network_isolation,
        "most_processes": MOST_PROCESSES,
    }


def _with_python(command: list[str], packages: Path) -> list[str]:
    """Replaces this interpreter in the image's command by the host's own."""
    return [str(packages / "bin" / "python"), *command[1:]] if command[0] == sys.executable else command


def _is_below(directory: str, *places: Path | None) -> bool:
    """True if a directory contains a place that the host writes to, so it cannot be made read-only."""
    return any(Path(directory) in (place.resolve(), *place.resolve().parents) for place in places if place is not None)


def with_namespaces(content: Plan, namespaces: Namespaces) -> Plan:
    """Completes the plan for a machine. Without namespaces, paths are rewritten, also in the host's files."""
    if namespaces != "none":
        return {**content, "namespaces": namespaces}
    paths = OptMlPaths(Path(content["opt_ml"]))
    paths.rewrite_hyperparameters()
    # A link cannot be read-only, so `read_only` is ignored here.
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
    """Returns the host's mounts, including a warm pool's cache, which is a directory of this machine, too."""
    cache = [] if host.cache is None else [Mount(host.cache.absolute(), WARM_POOL_CACHE, read_only=False)]
    return [*cache, *host.mounts]
