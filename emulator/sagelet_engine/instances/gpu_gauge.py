"""Measures how busy GPUs are with NVIDIA's driver (NVML). The first job that has a GPU loads the library."""

import logging
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

log = logging.getLogger(__name__)

_guard = threading.Lock()
_nvml: list[Any] = []


class GpuGauge:
    """The GPUs of one host, by UUID. Without GPUs, or without a driver that answers, it reads nothing."""

    def __init__(self, uuids: Sequence[str]) -> None:
        self._uuids = tuple(uuids)
        #: Why it reads nothing any more. Empty if it reads, or has no GPU.
        self.fault = ""

    def read(self) -> tuple[float, float] | None:
        """Returns utilization and memory in percent, each the sum over the GPUs: 0 to 100 x GPUs."""
        if not self._uuids:
            return None
        try:
            nvml = _library()
            found = [self._one(nvml, uuid) for uuid in self._uuids]
        except Exception as error:
            # The driver may be missing, too old, or have lost the GPU. None of this may fail a job.
            log.warning("GPU metrics are left out from now on: %s", error)
            self._uuids, self.fault = (), f"{type(error).__name__}: {error}"
            return None
        return sum(busy for busy, _ in found), sum(memory for _, memory in found)

    def _one(self, nvml: Any, uuid: str) -> tuple[float, float]:
        gpu = nvml.nvmlDeviceGetHandleByUUID(uuid)
        memory = nvml.nvmlDeviceGetMemoryInfo(gpu)
        return float(nvml.nvmlDeviceGetUtilizationRates(gpu).gpu), 100.0 * memory.used / memory.total


def _library() -> Any:
    with _guard:
        if not _nvml:
            module = import_module("pynvml")
            module.nvmlInit()
            _nvml.append(module)
        return _nvml[0]
