"""torch_xla on NVIDIA GPUs, through a CUDA PJRT plugin from the package index. torch_xla itself no longer has one.

A plugin fits if its C API has the version that torch_xla was built for. The fitting pairs were read from both:
torch_xla prints the versions with TF_CPP_MIN_LOG_LEVEL=0. docs/how-to/gpu.md lists what has not run on a GPU yet.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Any

from sagelet_runtime.base import installed
from sagelet_runtime.base.say import ranks_line, say
from sagelet_runtime.gpu import pjrt_front

PLUGIN = "SAGELET_PJRT_PLUGIN"
FRONT = "SAGELET_PJRT_FRONT"
NAME = "SAGELET_PJRT_NAME"
KEY = "SAGELET_COMPILE_KEY"
COORDINATOR_PORT = "XLA_COORDINATOR_PORT"
DISTRIBUTION = "jax-cuda12-pjrt"


@dataclass(frozen=True)
class Route:
    """A pair of torch_xla and plugin that speak the same PJRT C API."""

    plugin: str
    #: The value of PJRT_DEVICE, which is torch_xla's name of the platform.
    device: str
    #: The name that the plugin must report. torch_xla 2.9 aborts at the first tensor of a platform called `cuda`.
    renamed: str = ""


#: Routes by the first two numbers of torch_xla's version.
ROUTES = {"2.8": Route("0.6.2", "CUDA"), "2.9": Route("0.7.1", "XLAGPU", "xlagpu")}


class PluginUnavailable(Exception):
    """No plugin in this Python fits its torch_xla. The message says which would."""


@dataclass(frozen=True)
class Plugin:
    route: Route
    #: The plugin's shared library.
    path: str

    def environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Returns the variables of every process that uses the plugin. Raises PluginUnavailable."""
        added = {"PJRT_DEVICE": self.route.device, PLUGIN: self.path, "PJRT_DYNAMIC_PLUGINS": "1"}
        added |= {"XLA_FLAGS": flags} if (flags := self._flags(environ)) else {}
        return added | self._front(environ)

    def _flags(self, environ: Mapping[str, str]) -> str:
        """Returns XLA_FLAGS with the path of ptxas and libdevice, whose package XLA does not find by itself.

        Empty if the user's flags name a path, or if the package is not installed.
        """
        flags = environ.get("XLA_FLAGS", "")
        directory = Path(self.path).parents[2] / "nvidia" / "cuda_nvcc"
        if "xla_gpu_cuda_data_dir" in flags or not directory.is_dir():
            return ""
        return f"{flags} --xla_gpu_cuda_data_dir={directory}".strip()

    def _front(self, environ: Mapping[str, str]) -> dict[str, str]:
        wanted = bool(self.route.renamed or environ.get("SAGELET_COMPILE_CACHE"))
        if not wanted:
            return {}
        try:
            library = str(pjrt_front.library())
        except (pjrt_front.FrontUnavailable, OSError) as error:
            if self.route.renamed:
                raise PluginUnavailable(f"the library that renames the plugin cannot be made: {error}") from error
            return {"SAGELET_COMPILE_CACHE": ""}
        versions = [f"{name} {installed.version(name)}" for name in ("torch", "torch_xla", DISTRIBUTION)]
        return {FRONT: library, NAME: self.route.renamed, KEY: ", ".join(versions)}


def find_plugin(torch_xla: str) -> Plugin:
    """Returns the plugin for this version of torch_xla. Raises PluginUnavailable."""
    route = ROUTES.get(".".join(torch_xla.split(".")[:2]))
    if route is None:
        raise PluginUnavailable(f"no plugin is known to fit torch_xla {torch_xla} (known: {', '.join(ROUTES)})")
    found = installed.version(DISTRIBUTION)
    if found != route.plugin:
        have = f"{DISTRIBUTION} {found} is installed" if found else f"{DISTRIBUTION} is not installed"
        raise PluginUnavailable(f"{have}, and torch_xla {torch_xla} needs {DISTRIBUTION}=={route.plugin}")
    return Plugin(route, str(_library()))


def _library() -> Path:
    spec = util.find_spec("jax_plugins")
    for directory in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted(Path(directory).glob("xla_cuda12/xla_cuda_plugin.so")):
            return path
    raise PluginUnavailable(f"{DISTRIBUTION} is installed without its library: install it again")


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
    if size > 1:
        say(ranks_line("NCCL is to join the workers", rank, size))
    plugins.use_dynamic_plugins()
    plugins.register_plugin(os.environ["PJRT_DEVICE"], _device_plugin(plugins.DevicePlugin, path))


def _device_plugin(base: type[Any], path: str) -> Any:
    class CudaPlugin(base):  # type: ignore[misc]
        def library_path(self) -> str:
            return os.environ.get(FRONT) or path

        def physical_chip_count(self) -> int:
            return int(os.environ.get("GPU_NUM_DEVICES", "1"))

        def configure_single_process(self) -> None:
            """Does nothing: one process uses its one device as it is."""

        def client_create_options(self) -> dict[str, Any]:
            return client_options(os.environ)

        def requires_xla_coordinator(self) -> bool:
            """True if torch_xla's key-value store is needed. Through it NCCL's processes find each other."""
            return _world(os.environ)[1] > 1

    return CudaPlugin()


def client_options(environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns the options of PJRT's GPU client (xla/pjrt/c/pjrt_c_api_gpu_internal.cc).

    The PJRT_ALLOCATOR_* names are torch_xla's. A worker uses the GPU of its LOCAL_RANK, counted among those that CUDA
    lets it see.
    """
    rank, world = _world(environ)
    local = int(environ.get("LOCAL_RANK", environ.get("PJRT_LOCAL_PROCESS_RANK", "0")))
    cuda_async = environ.get("PJRT_ALLOCATOR_CUDA_ASYNC", "0").lower() in ("1", "true")
    options: dict[str, Any] = {
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
