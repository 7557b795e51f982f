"""torch_xla.distributed.xla_multiprocessing: `uncompiled` puts `spawn` here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.multiprocessing

from ..core.missing import missing

__getattr__ = missing("torch_xla.distributed.xla_multiprocessing")


class MpModelWrapper:
    """Moves one model to the device of each worker, one worker after the other."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._lock = torch.multiprocessing.Lock()

    def to(self, device: Any) -> torch.nn.Module:
        with self._lock:
            self._model.to(device)
        return self._model


class MpSerialExecutor:
    """Runs a function in one worker after the other."""

    def __init__(self) -> None:
        self._lock = torch.multiprocessing.Lock()

    def run(self, fn: Callable[[], Any]) -> Any:
        with self._lock:
            return fn()
