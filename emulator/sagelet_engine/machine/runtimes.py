"""Chooses the runtime of a server, and says why."""

import importlib.metadata
import importlib.util
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.images.context import find_root
from sagelet_engine.images.variants import CPU_PLUGIN, CU13, PLUGINS, RELEASES, VARIANTS, Variant, training_image
from sagelet_engine.model.runtime import Runtime
from sagelet_engine.runtimes.node import kept_packages
from sagelet_engine.runtimes.node.confinement import Exceptions
from sagelet_engine.runtimes.process.runtime import ProcessRuntime, StandIn
from sagelet_engine.settings import RuntimeChoice, Settings, SlurmFiles, is_loopback
from sagelet_engine.state.identity import id_of

if TYPE_CHECKING:
    from sagelet_engine.runtimes.docker.engine import DockerFacts
    from sagelet_engine.runtimes.docker.runtime import DockerRuntime

#: What a training process imports beside sagelet's own runtime package (the extra `xla`).
NEEDED_MODULES = ("sagemaker_training", "torch", "torch_xla")


@dataclass(frozen=True)
class Choice:
    runtime: Runtime
    #: A phrase for people that says why this runtime was chosen.
    reason: str
    #: Addresses besides --host at which the hosts of jobs reach this machine.
    listen: tuple[str, ...] = ()


def choose(settings: Settings, clock: Clock) -> Choice:
    """Chooses Docker if an engine answers and the training image exists, otherwise processes.

    Raises SettingsError if the runtime that --runtime names cannot be used.
    """
    if settings.runtime is RuntimeChoice.PROCESS:
        return _process(settings, clock, "--runtime is 'process'")
    if settings.runtime is RuntimeChoice.SLURM:
        return _slurm(settings, clock)
    # docker-py takes half a second to load, with paramiko beside it. A server of processes does not need it.
    from sagelet_engine.runtimes.docker.engine import probe

    facts = probe()
    if facts is None:
        if settings.runtime is RuntimeChoice.DOCKER:
            raise SettingsError(
                "--runtime docker: no Docker Engine answers. Start it (or set DOCKER_HOST), or use --runtime process"
            )
        return _process(settings, clock, "no Docker Engine answers")
    runtime = _docker_runtime(settings, clock)
    if settings.runtime is RuntimeChoice.DOCKER or runtime.has_image(training_image()):
        return _docker(runtime, facts, settings.host)
    return _process(settings, clock, f"the image {training_image()} is not there: `sagelet image build` makes it")


def every_runtime(settings: Settings, clock: Clock) -> list[Runtime]:
    """Returns all runtimes that may have started jobs of this data directory and that answer now."""
    from sagelet_engine.runtimes.docker.engine import probe

    process = _process(settings, clock, "").runtime
    if settings.runtime is RuntimeChoice.SLURM:
        return [process, _slurm(settings, clock).runtime]
    return [process] if probe() is None else [process, _docker_runtime(settings, clock)]


def for_functions(settings: Settings, runtime: Runtime, clock: Clock) -> Runtime:
    """Returns the runtime that runs Lambda functions: that of the jobs, or processes of this machine if jobs run on a
    cluster or as functions of a test.
    """
    fits = runtime.cluster is None and runtime.capabilities.runs_scripts
    return runtime if fits else _process(settings, clock, "").runtime


def missing_modules(names: Sequence[str] = NEEDED_MODULES) -> list[str]:
    """Returns the modules that the process runtime lacks for training here."""
    return [name for name in names if importlib.util.find_spec(name) is None]


def gpu_packages() -> str:
    """Returns the packages of this Python that compiled jobs on GPUs use: `torch 2.9.0, torch_xla 2.9.0, ...`.

    Empty if it has no plugin for CUDA, or no torch_xla that can load one.
    """
    plugin = next((name for name in PLUGINS if _version(name)), None)
    release = {".".join((_version(name) or "").split(".")[:2]) for name in ("torch", "torch_xla")}
    if plugin is None or len(release) > 1 or not release & set(RELEASES):
        return ""
    return ", ".join(f"{name} {_version(name)}" for name in ("torch", "torch_xla", plugin))


def cpu_plugin() -> str:
    """Returns XLA's CPU plugin of this Python, with its version. Empty if it has none, or no torch_xla to load it."""
    name = CPU_PLUGIN.partition("==")[0]
    release = _version(name)
    return f"{name} {release}" if release and _version("torch_xla") else ""


def variants_here() -> dict[str, bool]:
    """Returns all other variants by reference, and whether this Python stands in for each.

    For GPUs any plugin does, and one of CUDA 13 for `cu13`. The variants without a plugin need exactly their versions.
    """
    return {one.reference: _stands_in_for(one) for one in VARIANTS.values() if one.name}


def _stands_in_for(variant: Variant) -> bool:
    if variant.plugin:
        return bool(gpu_packages()) and (variant is not CU13 or _version(CU13.plugin) is not None)
    packages = {name: _version(name) for name in ("torch", "torch_xla", *PLUGINS)}
    return packages == variant.packages and variant.python == f"{sys.version_info.major}.{sys.version_info.minor}"


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _docker_runtime(settings: Settings, clock: Clock) -> "DockerRuntime":
    from sagelet_engine.runtimes.docker.engine import connect
    from sagelet_engine.runtimes.docker.runtime import DockerRuntime

    return DockerRuntime(
        connect(),
        id_of(settings.data),
        clock,
        Exceptions(settings.writable_images, settings.root_images),
        settings.log_bytes,
        data=str(settings.data.resolve()),
    )


def _docker(runtime: "DockerRuntime", facts: "DockerFacts", host: str) -> Choice:
    gateway = facts.bridge_gateway if facts.has_way_back else None
    listen = (gateway,) if gateway and _is_local(gateway) else ()
    absent = "" if runtime.has_image(training_image()) else f", without {training_image()}: `sagelet image build`"
    shut = not facts.has_way_back and is_loopback(host)
    unreached = ", whose jobs cannot call this server without --host 0.0.0.0 --auth" if shut else ""
    return Choice(runtime, f"{facts.name}{unreached}{absent}", listen)


def _slurm(settings: Settings, clock: Clock) -> Choice:
    from sagelet_engine.runtimes.slurm.setup import set_up

    found = set_up(settings, id_of(settings.data), _stand_in(settings), clock)
    return Choice(found.runtime, found.reason, found.listen)


def _stand_in(settings: Settings) -> StandIn:
    # A node that does not share the data directory would keep packages that nobody removes.
    shared = settings.runtime is not RuntimeChoice.SLURM or settings.slurm_files is SlurmFiles.SHARED
    keep = settings.data / kept_packages.DIRECTORY if shared else None
    missing = tuple(missing_modules())
    command = (sys.executable, "-m", "sagelet_runtime.train")
    return StandIn(command, str(find_root() / "runtime"), training_image(), variants_here(), keep, missing)


def _process(settings: Settings, clock: Clock, why: str) -> Choice:
    stand_in = _stand_in(settings)
    runtime = ProcessRuntime(settings.data / "runtime", stand_in, clock)
    if stand_in.missing:
        why += f"; {', '.join(stand_in.missing)} not installed: `sagelet install-torch`"
    return Choice(runtime, why)


def _is_local(address: str) -> bool:
    """True if this machine has the address. Docker Desktop's bridge is on another machine; there loopback is enough."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        try:
            trial.bind((address, 0))
        except OSError:
            return False
    return True
