"""Notes checkpoints of XLA tensors, made by torch.save or xm.save.

A file of torch.save with XLA tensors cannot be loaded without torch_xla.
"""

import functools
import sys
import time
from collections.abc import Mapping
from typing import Any

from sagelet_runtime.reporting.recorder import Recorder
from sagelet_runtime.reporting.untraced import untraced

_DEEPEST = 6
#: `xm.save` copies tensors to the CPU before it calls torch.save.
_XM = "torch_xla.core.xla_model"


def install(torch: Any, recorder: Recorder) -> None:
    original = torch.save

    @untraced
    @functools.wraps(original)
    def save(obj: Any, *args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        # xm.mesh_reduce also uses torch.save, to exchange values.
        by_xm = caller.f_code.co_name == "save" and caller.f_globals.get("__name__") == _XM
        if not by_xm and not _holds_xla(obj, torch.Tensor):
            return original(obj, *args, **kwargs)
        recorder.reading.inside = True
        begin = time.perf_counter()
        try:
            return original(obj, *args, **kwargs)
        finally:
            recorder.reading.inside = False
            recorder.saves.add("xm.save" if by_xm else "torch.save", caller, time.perf_counter() - begin)

    torch.save = save


def _holds_xla(value: Any, tensor: type, depth: int = 0) -> bool:
    if isinstance(value, tensor):
        return bool(value.is_xla)  # type: ignore[attr-defined]
    if depth > _DEEPEST:
        return False
    if isinstance(value, Mapping):
        return any(_holds_xla(one, tensor, depth + 1) for one in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_xla(one, tensor, depth + 1) for one in value)
    return False
