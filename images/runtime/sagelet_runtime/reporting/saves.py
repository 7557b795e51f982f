"""Notes checkpoints of XLA tensors, made by torch.save or xm.save, and that a file was saved at all.

A file of torch.save with XLA tensors cannot be loaded without torch_xla.
"""

import functools
import os
import sys
from collections.abc import Mapping
from typing import Any

from sagelet_runtime.base import import_hook
from sagelet_runtime.base.untraced import untraced
from sagelet_runtime.reporting.recorder import Recorder

_DEEPEST = 6
#: `xm.save` copies tensors to the CPU before it calls torch.save.
_XM = "torch_xla.core.xla_model"


def install(torch: Any, recorder: Recorder) -> None:
    original = torch.save

    @untraced
    @functools.wraps(original)
    def save(obj: Any, *args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        recorder.steps.interruptions += _is_file(args[0] if args else kwargs.get("f"))
        # xm.mesh_reduce also uses torch.save, to exchange values.
        by_xm = caller.f_code.co_name == "save" and caller.f_globals.get("__name__") == _XM
        if not by_xm and not _holds_xla(obj, torch.Tensor):
            return original(obj, *args, **kwargs)
        recorder.reading.inside = True
        began = recorder.waits.begin()
        try:
            return original(obj, *args, **kwargs)
        finally:
            recorder.reading.inside = False
            call, seconds = "xm.save" if by_xm else "torch.save", recorder.waits.spent(began)
            recorder.saves.add(call, caller, seconds)
            recorder.waits.read(call, caller, seconds)

    torch.save = save
    import_hook.after("safetensors.torch", functools.partial(_note_files, recorder))


def _note_files(recorder: Recorder, safetensors: Any) -> None:
    original = safetensors.save_file

    @functools.wraps(original)
    def save_file(*args: Any, **kwargs: Any) -> Any:
        recorder.steps.interruptions += 1
        return original(*args, **kwargs)

    safetensors.save_file = save_file


def _is_file(target: object) -> bool:
    """Returns False for a buffer in memory, through which workers exchange values at many steps."""
    return isinstance(target, (str, os.PathLike)) or hasattr(target, "name")


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
