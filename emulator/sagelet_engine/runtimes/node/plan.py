"""The protocol between a server and the shim of a host: what `plan.json` holds. Standard library only.

The server writes a plan before it starts a shim. On a cluster's node the shim completes it with what only the node
knows (`namespaces`, `hosts`). Members that a plan does not need may be missing.
"""

from typing import TypedDict, cast

from sagelet_engine.base import json_files
from sagelet_engine.runtimes.node import host_files


class BasePackages(TypedDict):
    """The server's Python environment, below a host's own packages (`base_packages.py`)."""

    python: str
    #: `3.11`.
    version: str
    #: Directories of packages, in the interpreter's order.
    site: list[str]
    #: By directory: the names of scripts that the server's interpreter runs.
    scripts: dict[str, list[str]]
    #: The file `pip.conf` of the server's virtual environment.
    pip_configuration: str | None
    #: Directories that jobs must not write to.
    read_only: list[str]


class Packages(BasePackages):
    """A host's own packages (`host_packages.py`)."""

    directory: str
    #: Where packages are kept that jobs install from a requirements file, or None if they are not kept.
    keep: str | None


class MadePackages(Packages):
    """A host's packages once its machine is known."""

    #: As in the plan (`Plan.namespaces`).
    namespaces: str


class Container(TypedDict):
    """A host that runs as a container of its node (`slurm/docker.py`, `slurm/images.py`)."""

    #: `docker`, `apptainer` or `enroot`.
    engine: str
    #: The directory of image files; empty: Docker has the images.
    images: str
    image: str
    entrypoint: list[str] | None
    arguments: list[str]
    name: str
    labels: dict[str, str]
    #: Source on the node, target, True if read-only. A mount below another one comes later.
    mounts: list[tuple[str, str, bool]]
    shm_bytes: int
    memory_bytes: int | None
    cpus: int | None
    #: True if the root file system is read-only.
    read_only: bool
    as_root: bool
    #: Directories whose owner becomes the container's user.
    own: list[str]
    #: Read-only files of the job, which may be links to the server's.
    linked: list[str]
    #: Seconds from Slurm's SIGTERM until the shim ends the container, or None if the engine needs no help.
    patience: float | None


class Plan(TypedDict, total=False):
    command: list[str]
    environment: dict[str, str]
    #: The command's working directory.
    directory: str
    packages: Packages
    #: Directories of the server that are read-only for the host.
    protected: list[str]
    opt_ml: str
    #: Paths in /opt/ml that are read-only.
    read_only: list[str]
    #: Source, target in /opt/ml, True if read-only.
    mounts: list[tuple[str, str, bool]]
    hostname: str
    #: Addresses of the job's hosts by their names.
    hosts: dict[str, str]
    isolate_network: bool
    #: How many processes the host may have.
    most_processes: int
    #: `root`, `user`, `none` (host_trial.Namespaces) or `container`.
    namespaces: str
    #: True if the host has GPUs. The node's Slurm chooses them.
    gpus: bool
    #: None if the host is a process tree.
    container: Container | None
    #: Why the node cannot do what the request asks for: a ClientError.
    refused: str
    #: Why the host could not be prepared.
    failed: str


class End(TypedDict, total=False):
    """The content of `exit.json`: how a host ended (`host_end.py` reads it, and trusts nothing in it)."""

    exit_code: int | None
    #: Why there is no exit code, or what the container's engine said.
    error: str | None
    #: ms since the epoch.
    finished_ms: int
    out_of_memory: bool
    #: The node cannot do what the request asks for.
    refused: bool
    #: The cluster took the node away.
    interrupted: bool
    #: The cluster's time limit was over.
    time_over: bool
    #: The requests that the shim got, one letter each.
    heard: str


def container_of(plan: Plan) -> Container:
    """Returns the container of a plan whose host runs in one."""
    container = plan["container"]
    assert container is not None, "the host is a process tree"
    return container


def read_plan() -> Plan | None:
    """Reads the plan in the working directory, a host's `run_dir`. Raises ValueError unless it is a JSON object."""
    return cast("Plan | None", json_files.read_json(host_files.PLAN))
