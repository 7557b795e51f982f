"""The machine of a measurement. A figure means nothing without it."""

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.images.engine import connect
from sagelet_engine.instances.gpus import detect_gpus

PACKAGES = ("sagelet", "moto", "boto3", "torch", "torch_xla", "transformers")
NONE = "none"


def here() -> str:
    """The hardware, as a person would name it, and the versions of what runs on it."""
    gpus = f"{len(detect_gpus())} GPU(s)" if detect_gpus() else "no GPU"
    memory = f"{psutil.virtual_memory().total / 2**30:.1f} GiB"
    hardware = f"{processor()}, {len(os.sched_getaffinity(0))} cores, {memory}, {gpus}"
    versions = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    system = f"{platform.system()} {platform.release()}; Python {platform.python_version()}"
    return f"{hardware}, {system}, {versions}, Docker {docker()}"


def load() -> float:
    """The mean number of processes that ran or wanted to in the last minute."""
    return round(os.getloadavg()[0], 2)


def processor() -> str:
    """The name of the processor, as its maker gives it."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return NONE


def docker() -> str:
    """The version of the Docker Engine that answers."""
    try:
        return str(connect().version()["Version"])
    except RuntimeUnavailable:
        return NONE
