"""Checks whether this machine is ready for compiled jobs on its GPUs, with one check for each requirement."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module

from sagelet_engine.images.context import find_root
from sagelet_engine.images.engine import connect, image_id
from sagelet_engine.images.variants import CU12, GPU_VARIANTS, INDUCTOR, PLUGINS
from sagelet_engine.instances.gpus import TIMEOUT_S
from sagelet_engine.machine.check import Check
from sagelet_engine.machine.runtimes import gpu_packages
from sagelet_engine.runtimes.docker.engine import DockerFacts

QUERY = ("--query-gpu=uuid,name,driver_version,memory.total", "--format=csv,noheader")
INSTALL_DRIVER = "where it has a GPU, install NVIDIA's driver, so that `nvidia-smi` lists it (`sagelet docs gpu`)"
NO_TOOL = "no NVIDIA GPU: nvidia-smi is not on PATH, and CPU workers stand in"
#: CUDA 12.8, with which torch 2.8.0 and the plugin are built. NVIDIA's minor version compatibility begins here.
OLDEST_DRIVER = 525


def check_gpus(facts: DockerFacts | None, driver: list[list[str]] | str) -> list[Check]:
    """Checks what jobs on GPUs need, if there are any GPUs. `driver`: the answer of `ask_driver`."""
    if driver == NO_TOOL:
        return [check_driver(driver)]
    return [
        check_driver(driver),
        check_nvml(ask_nvml),
        check_engine(facts),
        check_image(facts, _has_image, driver_of(driver)),
        check_process(gpu_packages(), ask_plugin),
    ]


def ask_driver() -> list[list[str]] | str:
    """Returns UUID, name, driver's version and memory of each GPU, or a sentence if the driver's tool gives no
    answer.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return NO_TOOL
    try:
        asked = subprocess.run([tool, *QUERY], capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if asked.returncode != 0:
        return (asked.stdout + asked.stderr).strip() or f"nvidia-smi ended with {asked.returncode}"
    rows = [[cell.strip() for cell in line.split(",")] for line in asked.stdout.splitlines()]
    return [row for row in rows if row[0].startswith("GPU-") and len(row) == 4]


def check_driver(answer: list[list[str]] | str) -> Check:
    if isinstance(answer, str):
        return Check("gpus", False, answer, INSTALL_DRIVER, needed=False)
    if not answer:
        return Check("gpus", False, "the driver lists no GPU", INSTALL_DRIVER, needed=False)
    version, major = answer[0][2], driver_of(answer)
    found = f"driver {version}: " + ", ".join(f"{name} ({memory}, {uuid})" for uuid, name, _, memory in answer)
    if major is not None and major < OLDEST_DRIVER:
        return Check("gpus", False, found, f"CUDA 12 needs driver {OLDEST_DRIVER} or newer: update it", needed=False)
    return Check("gpus", True, found)


def driver_of(answer: list[list[str]] | str) -> int | None:
    """Returns the driver's major version. None if it is not known."""
    major = answer[0][2].partition(".")[0] if answer and not isinstance(answer, str) else ""
    return int(major) if major.isascii() and major.isdigit() else None


def ask_nvml() -> str:
    """Returns the version of the driver that NVML uses. Raises whatever NVML raises."""
    nvml = import_module("pynvml")
    nvml.nvmlInit()
    try:
        return str(nvml.nvmlSystemGetDriverVersion())
    finally:
        nvml.nvmlShutdown()


def check_nvml(ask: Callable[[], str]) -> Check:
    """Checks NVML, which measures how busy GPUs are. Without it jobs run and have no GPU metrics."""
    try:
        return Check("gpu metrics", True, f"NVML answers, driver {ask()}")
    except Exception as error:
        # The types are the library's own, and it may be missing.
        remedy = "install the driver's library libnvidia-ml.so.1; after an update of the driver, restart the machine"
        return Check("gpu metrics", False, f"NVML does not answer: {error}", remedy, needed=False)


def check_engine(facts: DockerFacts | None) -> Check:
    if facts is None:
        return Check(
            "gpu docker",
            False,
            "no Docker Engine answers",
            "start it, or use `sagelet up --runtime process`",
            needed=False,
        )
    if facts.podman:
        return Check(
            "gpu docker",
            False,
            f"{facts.name}: its Docker API gives containers no GPUs",
            "use a Docker Engine, or `sagelet up --runtime process`",
            needed=False,
        )
    if not facts.gpus:
        return Check(
            "gpu docker",
            False,
            f"{facts.name} knows neither the runtime `nvidia` nor CDI devices of NVIDIA's",
            "install the NVIDIA Container Toolkit, run `nvidia-ctk runtime configure --runtime=docker`, "
            "and restart the engine (`sagelet docs gpu`)",
            needed=False,
        )
    return Check("gpu docker", True, f"{facts.name} gives containers GPUs")


def check_image(facts: DockerFacts | None, has_image: Callable[[str], bool], driver: int | None) -> Check:
    """Checks that a variant for GPUs is there whose CUDA the driver knows. `driver`: its major version, if known."""
    newest = next(one for one in GPU_VARIANTS if driver is None or driver >= one.driver or one is CU12)
    remedy = f"`sagelet image build --variant {newest.name}`"
    if facts is None:
        return Check("gpu image", False, "no Docker Engine answers", f"start it, then {remedy}", needed=False)
    there = [one for one in (*GPU_VARIANTS, INDUCTOR) if has_image(one.reference)]
    found = "; ".join(f"{one.reference}: {one.text}" for one in there)
    if there in ([], [INDUCTOR]):
        lacking = "no variant of the training image with XLA for GPUs is there"
        return Check("gpu image", False, f"{lacking}; {found}" if found else lacking, remedy, needed=False)
    first = there[0]
    if driver is not None and driver < first.driver:
        why = f"{found}. Jobs get {first.reference}, whose CUDA needs driver {first.driver} or newer"
        update = f"update the driver, or remove that image (`docker rmi {first.reference}`) and use cu12"
        return Check("gpu image", False, why, update, needed=False)
    return Check("gpu image", True, found)


def ask_plugin() -> Mapping[str, str]:
    """Returns what images/runtime, gpu/installed_plugin.py says about this Python's plugin.

    It loads the plugin, so it is a process of its own. `problem` says so if that ended without an answer.
    """
    command = [sys.executable, "-m", "sagelet_runtime.gpu.installed_plugin"]
    environment = {**os.environ, "PYTHONPATH": str(find_root() / "runtime")}
    try:
        asked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S)
        told = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        return {"plugin": "", "api": "", "problem": f"the plugin cannot be asked for its API: {error}"}
    return {name: str(told.get(name, "")) for name in ("plugin", "api", "problem")}


def check_process(packages: str, ask: Callable[[], Mapping[str, str]]) -> Check:
    """Checks the process runtime, whose jobs run with the packages of the server's own Python."""
    if not packages:
        return Check(
            "gpu packages",
            False,
            f"this Python has no GPU plugin ({' or '.join(PLUGINS)}) beside a torch_xla that loads one",
            "`sagelet install-torch`, then pip install 'jax-cuda13-plugin[with-cuda]' or "
            "'jax-cuda12-plugin[with-cuda]', by the driver's CUDA",
            needed=False,
        )
    told = ask()
    api = f" (PJRT C API {told['api']})" if told["api"] else ""
    if told["problem"]:
        remedy = "install a plugin that fits (`sagelet docs gpu`)"
        return Check("gpu packages", False, f"this Python has {packages}{api}: {told['problem']}", remedy, needed=False)
    return Check("gpu packages", True, f"this Python has {packages}{api}")


def _has_image(reference: str) -> bool:
    return image_id(connect(), reference) is not None
