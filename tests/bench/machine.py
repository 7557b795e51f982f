"""What a figure was measured on: without it a figure says nothing."""

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from sagelet_engine.instances.gpus import detect_gpus

PACKAGES = ("sagelet", "moto", "boto3", "torch", "torch_xla")


@dataclass(frozen=True)
class Machine:
    #: As a person would name it.
    processor: str
    #: That this process may use.
    cores: int
    memory_gib: float
    kernel: str
    gpus: int
    #: By name; `none` where it is not there.
    versions: dict[str, str]

    @classmethod
    def here(cls) -> "Machine":
        versions = {"Python": platform.python_version(), **{name: package(name) for name in PACKAGES}}
        return cls(
            processor(),
            len(os.sched_getaffinity(0)),
            round(psutil.virtual_memory().total / 2**30, 1),
            f"{platform.system()} {platform.release()}",
            len(detect_gpus()),
            {**versions, "Docker": docker()},
        )

    def __str__(self) -> str:
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        gpus = f"{self.gpus} GPU(s)" if self.gpus else "no GPU"
        hardware = f"{self.processor}, {self.cores} cores, {self.memory_gib:g} GiB, {gpus}"
        return f"{hardware}, {self.kernel}; {versions}"


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


def docker() -> str:
    """The version of the Docker Engine that answers."""
    try:
        command = ["docker", "version", "--format", "{{.Server.Version}}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "none"


def load() -> float:
    """Mean number of processes that ran or wanted to in the last minute."""
    return round(os.getloadavg()[0], 2)


def now() -> str:
    return f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC"
