"""Chooses the PJRT device of a compiled job, and the number of threads."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sagelet_runtime.gpu import plugin as gpu
from sagelet_runtime.gpu import trial

#: Variables with the sizes of torch's and XLA's thread pools.
POOLS = ("OMP_NUM_THREADS", "PJRT_NPROC")
#: How often a thread of libgomp, torch's OpenMP, looks for work before it sleeps, and the variables that say so. By
#: itself libgomp looks for milliseconds, which takes the CPUs from the other jobs of the machine
#: (tests/bench/threads_that_wait.py). If it knows of more threads than CPUs it looks 1,000 times; it counts its own
#: process's threads only.
SPINS, SPINNING = "1000", ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")

#: Which of XLA's clients a job uses on CPUs: `builtin` is torch_xla's, `plugin` a PJRT plugin's (gpu/plugin.py).
CLIENT, CLIENTS, DEFAULT_CLIENT = "SAGELET_XLA_CLIENT", ("plugin", "builtin"), "plugin"
#: How many devices torch_xla's built-in client shows a process, such as those of a script for SPMD.
DEVICES = "CPU_NUM_DEVICES"
#: Values of PJRT_DEVICE for XLA on CPUs. The job's client decides between them.
CPUS = ("CPU", gpu.CPU_DEVICE)


class UnknownClient(Exception):
    """SAGELET_XLA_CLIENT has an unknown value."""


@dataclass(frozen=True)
class DeviceChoice:
    #: The value of PJRT_DEVICE.
    kind: str
    #: The reason of the choice, for the log.
    reason: str
    #: Further variables.
    environment: Mapping[str, str] = field(default_factory=dict)
    #: False if the device does not work through torch_xla. Then the job trains natively.
    compiled: bool = True


def choose_device(environ: Mapping[str, str], gpus: int, torch_xla: str) -> DeviceChoice:
    """Returns the device of the user's PJRT_DEVICE. Else GPUs if a plugin fits this torch_xla and works. Else the CPU.

    If a plugin fits and does not work, the job trains natively, so that it uses the GPUs that it asked for. Raises
    UnknownClient and trial.UnknownSetting.
    """
    asked = environ.get("PJRT_DEVICE", "")
    if asked and (asked != "CUDA" or not gpus):
        reason = "PJRT_DEVICE is set in the job's environment"
        return _on_cpu(environ, torch_xla, reason) if asked in CPUS else DeviceChoice(asked, reason)
    if not gpus:
        return _on_cpu(environ, torch_xla, "this host has no GPU")
    try:
        plugin = gpu.find_plugin(torch_xla)
        added = plugin.environment(environ)
    except gpu.PluginUnavailable as error:
        unused = f"{gpus} GPU(s) stay unused, since torch_xla {torch_xla} has no CUDA client"
        return _on_cpu(environ, torch_xla, f"{unused}: {error}")
    verdict = trial.tried(plugin, {**environ, **added})
    if not verdict.works:
        return DeviceChoice(plugin.route.device, _failed(plugin, verdict), compiled=False)
    reason = f"{gpus} GPU(s) through {_named(plugin, verdict)}, which passed its trial{verdict.when}"
    return DeviceChoice(plugin.route.device, reason, added)


def _named(plugin: gpu.Plugin, verdict: trial.Verdict) -> str:
    """`jax-cuda13-pjrt 0.12.0 (PJRT C API 0.116)`."""
    return f"{plugin.name} (PJRT C API {verdict.api})" if verdict.api else plugin.name


def _failed(plugin: gpu.Plugin, verdict: trial.Verdict) -> str:
    named = _named(plugin, verdict)
    again = f" (tried{verdict.when}; {trial.SETTING}=always tries it again)" if verdict.kept else ""
    return f"{named} does not work here: {verdict.reason}{again}"


def _on_cpu(environ: Mapping[str, str], torch_xla: str, reason: str) -> DeviceChoice:
    """Returns the CPU through the client that the job asks for. Raises UnknownClient and trial.UnknownSetting.

    The built-in client stands in for a plugin that is not installed, does not fit or does not work.
    """
    client = environ.get(CLIENT) or DEFAULT_CLIENT
    if client not in CLIENTS:
        raise UnknownClient(f"{CLIENT} is {client!r}; use {' or '.join(CLIENTS)}")
    if client == "builtin":
        return DeviceChoice("CPU", reason)
    count = environ.get(DEVICES, "")
    if not environ.get(CLIENT) and count.isdigit() and int(count) > 1:
        several = f"{DEVICES} asks for {count} devices, and a plugin has one for each worker"
        return DeviceChoice("CPU", f"{reason}; XLA's client is the built-in one, since {several}")
    try:
        plugin = gpu.find_cpu_plugin(torch_xla)
        added = plugin.environment(environ)
        verdict = trial.tried(plugin, {**environ, **added})
        if not verdict.works:
            raise gpu.PluginUnavailable(_failed(plugin, verdict))
    except gpu.PluginUnavailable as error:
        return DeviceChoice("CPU", f"{reason}; XLA's client is the built-in one, since {error}")
    passed = f"{_named(plugin, verdict)}, which passed its trial{verdict.when}"
    return DeviceChoice(gpu.CPU_DEVICE, f"{reason}; XLA's client is {passed}", added)


def thread_limit(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Returns the CPUs of the cgroup's quota, rounded up, or None unless that is below the affinity mask's number.

    XLA's and torch's thread pools look at the affinity mask only, and a pool far above the quota is throttled.
    """
    quota = _quota(root)
    if quota is None:
        return None
    limit = max(1, math.ceil(quota))
    return limit if limit < len(os.sched_getaffinity(0)) else None


def threads_of(workers: int) -> int:
    """Returns each worker's share of the CPUs if all `workers` are on this machine."""
    return max(1, (thread_limit() or len(os.sched_getaffinity(0))) // workers)


def shared_threads(environ: Mapping[str, str], workers: int) -> dict[str, str]:
    """Returns the sizes of the thread pools of one of several workers. A size that the user set stays."""
    ours = {"", str(thread_limit())}
    return {name: str(threads_of(workers)) for name in POOLS if environ.get(name, "") in ours}


def _quota(root: Path) -> float | None:
    unified = _numbers(root / "cpu.max")
    if unified is not None:
        return unified[0] / unified[1]
    quota, period = _numbers(root / "cpu" / "cpu.cfs_quota_us"), _numbers(root / "cpu" / "cpu.cfs_period_us")
    if quota is None or period is None or quota[0] <= 0:
        return None
    return quota[0] / period[0]


def _numbers(file: Path) -> list[int] | None:
    """Reads the numbers in a file. None if the file is missing or says `max`."""
    try:
        return [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):
        return None
