"""Checks whether this machine is ready for compiled jobs on its GPUs, with one check for each requirement."""

import shutil
import subprocess
from collections.abc import Callable
from importlib import import_module

from sagelet_engine.images.engine import connect, image_id
from sagelet_engine.images.variants import CU12, PLUGINS
from sagelet_engine.instances.gpus import PATIENCE
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
        check_image(facts, _has_image),
        check_process(gpu_packages()),
    ]


def ask_driver() -> list[list[str]] | str:
    """Returns UUID, name, driver's version and memory of each GPU, or a sentence if the driver's tool gives no
    answer.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return NO_TOOL
    try:
        asked = subprocess.run([tool, *QUERY], capture_output=True, text=True, timeout=PATIENCE)
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
    version = answer[0][2]
    found = f"driver {version}: " + ", ".join(f"{name} ({memory}, {uuid})" for uuid, name, _, memory in answer)
    major = version.partition(".")[0]
    if major.isdigit() and int(major) < OLDEST_DRIVER:
        return Check("gpus", False, found, f"CUDA 12 needs driver {OLDEST_DRIVER} or newer: update it", needed=False)
    return Check("gpus", True, found)


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


def check_image(facts: DockerFacts | None, has_image: Callable[[str], bool]) -> Check:
    reference = CU12.reference
    if facts is None:
        return Check(
            "gpu image",
            False,
            "no Docker Engine answers",
            "start it, then `sagelet image build --variant cu12`",
            needed=False,
        )
    if not has_image(reference):
        return Check(
            "gpu image", False, f"{reference} is not there", "`sagelet image build --variant cu12`", needed=False
        )
    return Check("gpu image", True, f"{reference}: {CU12.text}")


def check_process(packages: str) -> Check:
    """Checks the process runtime, whose jobs run with the packages of the server's own Python."""
    if packages:
        return Check("gpu packages", True, f"this Python has {packages}")
    return Check(
        "gpu packages",
        False,
        f"this Python has no GPU plugin ({' or '.join(PLUGINS)}) beside a torch_xla that loads one",
        "`sagelet install-torch`, then pip install 'jax-cuda13-plugin[with-cuda]' or 'jax-cuda12-plugin[with-cuda]', "
        "by the driver's CUDA",
        needed=False,
    )


def _has_image(reference: str) -> bool:
    return image_id(connect(), reference) is not None
