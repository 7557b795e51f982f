"""Whether this machine is ready for compiled jobs on its GPUs: one check for each thing that has to be there."""

import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

from sagelet_engine.images.engine import connect, image_id
from sagelet_engine.images.variants import CU12
from sagelet_engine.instances.gpus import PATIENCE
from sagelet_engine.runtimes.choose import gpu_variants
from sagelet_engine.runtimes.docker_facts import DockerFacts, probe

QUERY = ("--query-gpu=uuid,name,driver_version,memory.total", "--format=csv,noheader")
INSTALL_DRIVER = "install NVIDIA's driver for this machine, so that `nvidia-smi` lists its GPUs"
#: CUDA 12.8, which torch 2.8.0 and the plugin are built with: NVIDIA's minor version compatibility begins here.
OLDEST_DRIVER = 525


@dataclass(frozen=True)
class Check:
    name: str
    good: bool
    #: What was seen, for people.
    found: str
    #: What to do; empty where all is good.
    remedy: str = ""


def check_gpus() -> list[Check]:
    """Never raises: what cannot be found out is a check that is not good."""
    facts = probe()
    return [
        check_driver(ask_driver()),
        check_nvml(ask_nvml),
        check_engine(facts),
        check_image(facts, _has_image),
        check_process(gpu_variants()),
    ]


def ask_driver() -> list[list[str]] | str:
    """UUID, name, driver's version and memory of each GPU; a sentence where the driver's tool cannot say."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "nvidia-smi is not on PATH"
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
        return Check("driver", False, answer, INSTALL_DRIVER)
    if not answer:
        return Check("driver", False, "the driver lists no GPU", INSTALL_DRIVER)
    version = answer[0][2]
    found = f"driver {version}: " + ", ".join(f"{name} ({memory}, {uuid})" for uuid, name, _, memory in answer)
    major = version.partition(".")[0]
    if major.isdigit() and int(major) < OLDEST_DRIVER:
        return Check("driver", False, found, f"CUDA 12 needs driver {OLDEST_DRIVER} or newer: update it")
    return Check("driver", True, found)


def ask_nvml() -> str:
    """The version of the driver that NVML speaks to. Raises whatever NVML does."""
    nvml = import_module("pynvml")
    nvml.nvmlInit()
    try:
        return str(nvml.nvmlSystemGetDriverVersion())
    finally:
        nvml.nvmlShutdown()


def check_nvml(ask: Callable[[], str]) -> Check:
    """NVML tells how busy GPUs are; without it jobs run and have no GPU metrics."""
    try:
        return Check("nvml", True, f"NVML answers, driver {ask()}")
    except Exception as error:
        # Of its own types, which need the library; and the library may be missing.
        remedy = "install the driver's library libnvidia-ml.so.1; after an update of the driver, restart the machine"
        return Check("nvml", False, f"NVML does not answer: {error}", remedy)


def check_engine(facts: DockerFacts | None) -> Check:
    if facts is None:
        return Check("docker", False, "no Docker Engine answers", "start it, or use `sagelet up --runtime process`")
    if not facts.gpus:
        return Check(
            "docker",
            False,
            f"Docker Engine {facts.version} knows neither the runtime `nvidia` nor CDI devices of NVIDIA's",
            "install the NVIDIA Container Toolkit, run `nvidia-ctk runtime configure --runtime=docker`, "
            "and restart the engine (docs/how-to/gpu.md)",
        )
    return Check("docker", True, f"Docker Engine {facts.version} gives containers GPUs")


def check_image(facts: DockerFacts | None, has_image: Callable[[str], bool]) -> Check:
    reference = CU12.reference
    if facts is None:
        return Check("image", False, "no Docker Engine answers", "start it, then `sagelet image build --variant cu12`")
    if not has_image(reference):
        return Check("image", False, f"{reference} is not there", "`sagelet image build --variant cu12`")
    return Check("image", True, f"{reference}: {CU12.text}")


def check_process(variants: Mapping[str, bool]) -> Check:
    """For the process runtime, whose jobs run with the packages of the server's own Python."""
    there = [reference for reference, good in variants.items() if good]
    if there:
        return Check("packages", True, f"this Python has the packages of {', '.join(there)}")
    wanted = " ".join(f"{name}=={version}" for name, version in CU12.packages.items())
    return Check("packages", False, "this Python has no GPU plugin that fits its torch_xla", f"pip install {wanted}")


def _has_image(reference: str) -> bool:
    return image_id(connect(), reference) is not None
