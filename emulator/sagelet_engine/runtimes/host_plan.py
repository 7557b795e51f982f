"""What a keeper (`host_shim`) reads of its host: `plan.json`. Standard library only, since a node may finish one."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagelet_engine.runtimes import base_packages, host_packages
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
    keep: Path | None = None,
) -> dict[str, Any]:
    """The host, however private its machine can make it. `server`: the environment of sagelet itself.

    `keep`: where packages are kept that jobs install by a file of requirements.
    """
    base = base_packages.described()
    packages = host.run_dir.absolute() / host_packages.DIRECTORY
    environment = environment_of(plan, host, image_command, python_path, server, master_port)
    return {
        "command": _with_python(command_of(plan, image_command), packages),
        "environment": host_packages.environment(str(packages), environment),
        "packages": {**base, "directory": str(packages), "keep": None if keep is None else str(keep.absolute())},
        "protected": [path for path in base["read_only"] if not _is_below(path, host.run_dir, host.opt_ml, keep)],
        "directory": "/opt/ml",
        "opt_ml": str(host.opt_ml),
        "read_only": list(host.read_only),
        "mounts": [[str(mount.source), mount.target, mount.read_only] for mount in _mounts(host)],
        "hostname": host.name,
        "hosts": dict(addresses),
        "isolate_network": plan.network_isolation,
        "most_processes": MOST_PROCESSES,
    }


def _with_python(command: list[str], packages: Path) -> list[str]:
    """The image's command is run by this interpreter; the host's own takes its place."""
    return [str(packages / "bin" / "python"), *command[1:]] if command[0] == sys.executable else command


def _is_below(directory: str, *places: Path | None) -> bool:
    """Whether a directory holds what the host writes: then it cannot be made read-only."""
    return any(Path(directory) in (place.resolve(), *place.resolve().parents) for place in places if place is not None)


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
