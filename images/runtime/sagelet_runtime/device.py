"""Which PJRT device a compiled job gets, and how many threads."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DeviceChoice:
    #: Value of PJRT_DEVICE.
    kind: str
    #: Why, for the log.
    reason: str


def choose_device(environ: Mapping[str, str], gpus: int, torch_xla: str) -> DeviceChoice:
    """The device of the user's PJRT_DEVICE, or the CPU: the one client that the public torch_xla brings."""
    if environ.get("PJRT_DEVICE"):
        return DeviceChoice(environ["PJRT_DEVICE"], "PJRT_DEVICE is set in the job's environment")
    if gpus:
        return DeviceChoice("CPU", f"torch_xla {torch_xla} has no CUDA client, so {gpus} GPU(s) stay unused")
    return DeviceChoice("CPU", "this host has no GPU")


def thread_limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """CPUs of the cgroup's quota, rounded up, when it is below what the scheduler lets this process use.

    XLA's and torch's thread pools look at the affinity mask only, and a pool far above the quota is throttled.
    """
    quota = _quota(root)
    if quota is None:
        return None
    limit = max(1, math.ceil(quota))
    return limit if limit < len(os.sched_getaffinity(0)) else None


def _quota(root: Path) -> float | None:
    unified = _numbers(root / "cpu.max")
    if unified is not None:
        return unified[0] / unified[1]
    quota, period = _numbers(root / "cpu" / "cpu.cfs_quota_us"), _numbers(root / "cpu" / "cpu.cfs_period_us")
    if quota is None or period is None or quota[0] <= 0:
        return None
    return quota[0] / period[0]


def _numbers(file: Path) -> list[int] | None:
    """None where the file is not there or says `max`."""
    try:
        return [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):
        return None
