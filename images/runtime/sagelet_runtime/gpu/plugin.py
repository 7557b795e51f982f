"""torch_xla on a PJRT plugin from the package index: CUDA's for GPUs, or XLA's for CPUs.

Any plugin fits whose C API is at least as new as torch_xla's: the library before it (`pjrt_front.c`) makes up for the
difference. docs/how-to/gpu.md says what has run on a GPU.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any, TypedDict

from sagelet_runtime.base import installed
from sagelet_runtime.base.say import ranks_line, say
from sagelet_runtime.base.variables import on_cpu
from sagelet_runtime.gpu import pjrt_api, pjrt_front
from sagelet_runtime.gpu.pjrt_api import Version

PLUGIN = "SAGELET_PJRT_PLUGIN"
FRONT = "SAGELET_PJRT_FRONT"
NAME = "SAGELET_PJRT_NAME"
KEY = "SAGELET_COMPILE_KEY"
#: The plugin for messages, `jax-cuda13-pjrt 0.12.0`, and the oldest minor version of the API that torch_xla can use.
LABEL, OLDEST = "SAGELET_PJRT_LABEL", "SAGELET_PJRT_OLDEST"
COORDINATOR_PORT = "XLA_COORDINATOR_PORT"
#: The directory of each CUDA plugin in the package jax_plugins. The first one that is installed is used.
CUDA_PLUGINS = {"jax-cuda13-pjrt": "xla_cuda13", "jax-cuda12-pjrt": "xla_cuda12"}
#: XLA's CPU client of today, and its module. Its platform's name begins with CPU_, which torch_xla takes for a CPU.
CPU_PLUGIN, CPU_MODULE, CPU_DEVICE = "lammps-jax-pjrt-cpu", "lammps_jax_pjrt_cpu", "CPU_PLUGIN"


#: torch_xla 2.9's version of the PJRT C API.
NEEDED = Version(0, 75)


@dataclass(frozen=True)
class Route:
    """The way in which a release of torch_xla uses a plugin."""

    #: The value of PJRT_DEVICE, which is torch_xla's name of the platform.
    device: str
    #: The name that the plugin must report. torch_xla 2.9 aborts at the first tensor of a platform called `cuda`.
    renamed: str = ""
    #: torch_xla's version of the API. A plugin may be newer, not older.
    api: Version = NEEDED


#: Routes to GPUs by the first two numbers of torch_xla's version.
ROUTES = {"2.8": Route("CUDA", api=Version(0, 70)), "2.9": Route("XLAGPU", "xlagpu")}


class PluginUnavailable(Exception):
    """No plugin in this Python fits its torch_xla. The message says which would."""


@dataclass(frozen=True)
class Plugin:
    route: Route
    #: The plugin's shared library.
    path: str
    distribution: str = ""

    @property
    def name(self) -> str:
        """`jax-cuda13-pjrt 0.12.0`, for messages."""
        return f"{self.distribution} {installed.version(self.distribution)}"

    def refusal(self, api: Version) -> str:
        """Returns the sentence about a plugin that is too old for torch_xla. Empty if it is not."""
        return pjrt_api.refusal(self.name, api, self.route.api)

    @property
    def digest(self) -> str:
        """Returns pip's digest of the library, with its size and time of change. Hashing 200 MB would take 0.6 s."""
        facts = Path(self.path).stat()
        recorded = installed.recorded_digest(self.distribution, self.path) if self.distribution else ""
        return f"{recorded}, {facts.st_size} bytes of {facts.st_mtime_ns}"

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Returns the variables of every process that uses the plugin. Raises PluginUnavailable."""
        added = {"PJRT_DEVICE": self.route.device, PLUGIN: self.path, "PJRT_DYNAMIC_PLUGINS": "1"}
        added |= {LABEL: self.name, OLDEST: str(self.route.api.minor)}
        added |= {"XLA_FLAGS": flags} if (flags := self._flags(environ)) else {}
        return added | self._front()

    def _flags(self, environ: Mapping[str, str]) -> str:
        """Returns XLA_FLAGS with the path of ptxas and libdevice, whose package XLA does not find by itself.

        Empty if the user's flags name a path, or if no package has them.
        """
        flags = environ.get("XLA_FLAGS", "")
        if "xla_gpu_cuda_data_dir" in flags or self.route.device == CPU_DEVICE:
            return ""
        packages = Path(self.path).parents[2] / "nvidia"
        # CUDA 13 has one directory for all its packages.
        parts = {"jax-cuda13-pjrt": "cu13"}
        directory = packages / parts.get(self.distribution, "cuda_nvcc")
        # The directory is there without them, too. XLA then looks in /usr/local/cuda.
        found = any((directory / name).exists() for name in ("bin/ptxas", "nvvm/libdevice"))
        return f"{flags} --xla_gpu_cuda_data_dir={directory}".strip() if found else ""

    def _front(self) -> dict[str, str]:
        try:
            library = str(pjrt_front.library())
        except (pjrt_front.FrontUnavailable, OSError) as error:
            raise PluginUnavailable(f"the library before the plugin cannot be made: {error}") from error
        versions = [f"{name} {installed.version(name)}" for name in ("torch", "torch_xla")]
        facts = Path(self.path).stat()
        versions += [self.name, f"{facts.st_size} bytes of {facts.st_mtime_ns}"]
        if self.route.device == CPU_DEVICE:
            versions += [_processor(), f"{len(os.sched_getaffinity(0))} CPUs"]
        return {FRONT: library, NAME: self.route.renamed, KEY: ", ".join(versions)}


def find_plugin(torch_xla: str) -> Plugin:
    """Returns the plugin for this version of torch_xla. Raises PluginUnavailable."""
    route = _route(torch_xla)
    for name, folder in CUDA_PLUGINS.items():
        if installed.version(name):
            return Plugin(route, _library(name, "jax_plugins", f"{folder}/xla_cuda_plugin.so"), name)
    raise PluginUnavailable(f"neither {' nor '.join(CUDA_PLUGINS)} is installed")


def find_cpu_plugin(torch_xla: str) -> Plugin:
    """Returns XLA's CPU plugin, if it fits this version of torch_xla. Raises PluginUnavailable."""
    if not installed.version(CPU_PLUGIN):
        raise PluginUnavailable(f"{CPU_PLUGIN} is not installed")
    return Plugin(
        Route(CPU_DEVICE, api=_route(torch_xla).api),
        _library(CPU_PLUGIN, CPU_MODULE, "pjrt_c_api_cpu_plugin.so"),
        CPU_PLUGIN,
    )


def _route(torch_xla: str) -> Route:
    route = ROUTES.get(".".join(torch_xla.split(".")[:2]))
    if route is None:
        raise PluginUnavailable(f"no plugin is known to fit torch_xla {torch_xla} (known: {', '.join(ROUTES)})")
    return route


def _library(distribution: str, module: str, name: str) -> str:
    spec = util.find_spec(module)
    for directory in (spec.submodule_search_locations or ()) if spec is not None else ():
        if (path := Path(directory, name)).is_file():
            return str(path)
    raise PluginUnavailable(f"{distribution} is installed without its library: install it again")


def _processor() -> str:
    """Returns the model and the features of this machine's processor, which XLA's CPU programs are compiled for."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return ", ".join(sorted({line for line in lines if line.startswith(("model", "vendor_id", "flags", "stepping"))}))


def gpu_count(environ: Mapping[str, str], listed: int) -> int:
    """Returns how many GPUs this host may use. `listed`: those in nvidia-smi, which for a process is all GPUs."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    return listed if visible is None else len([one for one in visible.split(",") if one.strip() not in ("", "-1")])


def install(_torch_xla: Any) -> None:
    """Registers the plugin that the environment names, before the first XLA device is made."""
    path = os.environ.get(PLUGIN)
    if not path:
        return
    from torch_xla.experimental import plugins

    if "MASTER_PORT" in os.environ:
        # torch_xla's own default is a fixed port. Hosts that are processes share this machine's ports with other jobs.
        os.environ.setdefault(COORDINATOR_PORT, str(int(os.environ["MASTER_PORT"]) + 1))
    rank, size = _world(os.environ)
    if size > 1 and not on_cpu(os.environ):
        say(ranks_line("NCCL is to join the workers", rank, size))
    if is_cpu_plugin(os.environ):
        import torch_xla.runtime as xr

        _stand_in_for_cpu(xr)
    plugins.use_dynamic_plugins()
    plugins.register_plugin(os.environ["PJRT_DEVICE"], _device_plugin(plugins.DevicePlugin, path))


def is_cpu_plugin(environ: Mapping[str, str]) -> bool:
    """True if this job's plugin is XLA's for CPUs, whatever PJRT_DEVICE the script has set since."""
    return environ.get(LABEL, "").startswith(f"{CPU_PLUGIN} ")


def _stand_in_for_cpu(runtime: Any) -> None:
    """Gives the plugin to a script that chooses CPU itself, as to a job whose Environment does."""
    original = runtime.set_device_type

    def set_device_type(pjrt_device: str) -> None:
        original(CPU_DEVICE if pjrt_device == "CPU" else pjrt_device)

    runtime.set_device_type = set_device_type
    if os.environ.get("PJRT_DEVICE", "CPU") == "CPU":
        os.environ["PJRT_DEVICE"] = CPU_DEVICE


class ClientOptions(TypedDict, total=False):
    """Options of PJRT's clients."""

    platform_name: str
    allocator: str
    #: Ordinals of GPUs, among those that CUDA lets the process see.
    visible_devices: list[int]
    node_id: int
    num_nodes: int
    #: The share of the GPU's memory, from 0 to 1.
    memory_fraction: float
    preallocate: bool
    #: The CPU client's value. The others are the GPU's.
    cpu_device_count: int


def _device_plugin(base: type[Any], path: str) -> Any:
    class Plugin(base):  # type: ignore[misc]
        def library_path(self) -> str:
            return os.environ.get(FRONT) or path

        def physical_chip_count(self) -> int:
            return int(os.environ.get("GPU_NUM_DEVICES", "1"))

        def configure_single_process(self) -> None:
            """Does nothing: one process uses its one device as it is."""

        def client_create_options(self) -> ClientOptions:
            # With more devices a CPU plugin hangs at the second execution.
            return {"cpu_device_count": 1} if on_cpu(os.environ) else client_options(os.environ)

        def requires_xla_coordinator(self) -> bool:
            """True if torch_xla's key-value store is needed. Through it NCCL's processes find each other."""
            return _world(os.environ)[1] > 1 and not on_cpu(os.environ)

    return Plugin()


def client_options(environ: Mapping[str, str]) -> ClientOptions:
    """Returns the options of PJRT's GPU client (xla/pjrt/c/pjrt_c_api_gpu_internal.cc).

    The PJRT_ALLOCATOR_* names are torch_xla's. A worker uses the GPU of its LOCAL_RANK, counted among those that CUDA
    lets it see.
    """
    rank, world = _world(environ)
    local = int(environ.get("LOCAL_RANK", environ.get("PJRT_LOCAL_PROCESS_RANK", "0")))
    cuda_async = environ.get("PJRT_ALLOCATOR_CUDA_ASYNC", "0").lower() in ("1", "true")
    options: ClientOptions = {
        "platform_name": "cuda",
        "allocator": "cuda_async" if cuda_async else "default",
        "visible_devices": [local],
        "node_id": rank,
        "num_nodes": world,
    }
    if "PJRT_ALLOCATOR_FRACTION" in environ:
        options["memory_fraction"] = float(environ["PJRT_ALLOCATOR_FRACTION"])
    if "PJRT_ALLOCATOR_PREALLOCATE" in environ:
        options["preallocate"] = environ["PJRT_ALLOCATOR_PREALLOCATE"].lower() in ("1", "true")
    return options


def _world(environ: Mapping[str, str]) -> tuple[int, int]:
    """Returns the global rank and world size that torchrun or torch_xla's own spawn set."""
    local_rank = environ.get("LOCAL_RANK", environ.get("PJRT_LOCAL_PROCESS_RANK", "0"))
    local_size = environ.get("LOCAL_WORLD_SIZE", environ.get("PJRT_LOCAL_PROCESS_COUNT", "1"))
    return int(environ.get("RANK", local_rank)), int(environ.get("WORLD_SIZE", local_size))
