"""Compiles a model in place when the script calls it. The script is not changed.

`nn.Module.compile` is torch's own way: it keeps the names of the state_dict, hooks, and pickles of the module.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sagelet_runtime.base.say import say_once
from sagelet_runtime.dynamo import faults

#: Wrappers that exchange gradients. The module in them is compiled.
_TRANSPARENT = frozenset({"DistributedDataParallel", "DataParallel"})
#: Modules that torch compiles itself, and those whose parts are gathered while they run.
_OWN = frozenset({"OptimizedModule", "GraphModule", "FullyShardedDataParallel", "ScriptModule"})


class _Calls(threading.local):
    #: True within the call of an outermost module.
    inside = False


_calls = _Calls()
#: Called before each call of an outermost module that holds parameters.
_observers: list[Callable[[], None]] = []
#: True once the script has said that its model is not to be compiled.
_left_alone = threading.Event()


def leave_alone(why: str) -> None:
    """Compiles no further module in this process, because the script says so."""
    _left_alone.set()
    say_once(f"Inductor leaves the model alone: {why}")


def observe(observer: Callable[[], None]) -> None:
    """Calls `observer` from now on before each call of a model."""
    _observers.append(observer)


def install(torch: Any, options: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Compiles models. `options`: torch.compile's. Without any it uses Inductor."""

    def compiled(original: Callable[..., Any], module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _compile(module, options)
        return original(module, *args, **kwargs)

    install_calls(torch, compiled)


def install_calls(torch: Any, call: Callable[..., Any]) -> None:
    """Patches nn.Module's call. Must run before torch._dynamo is imported, which compares functions with it.

    `call` gets nn.Module's own call, an outermost module, its positional arguments, and those by name.
    """
    module = torch.nn.Module
    original = module.__call__

    @functools.wraps(original)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _calls.inside or not _is_model(torch, self):
            return original(self, *args, **kwargs)
        for observer in _observers:
            observer()
        _calls.inside = True
        try:
            return call(original, self, args, kwargs)
        finally:
            _calls.inside = False

    module.__call__ = __call__


def _is_model(torch: Any, module: Any) -> bool:
    """True for a module that holds parameters: losses and transforms of data have none. Wrappers are seen through."""
    names = {kind.__name__ for kind in type(module).__mro__}
    if names & _TRANSPARENT or torch.compiler.is_compiling() or torch.jit.is_tracing() or _loads_data():
        return False
    return next(module.parameters(), None) is not None


def _loads_data() -> bool:
    """True in a worker of a data loader, where nothing should be compiled."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _compile(module: Any, options: Mapping[str, Any]) -> None:
    names = {kind.__name__ for kind in type(module).__mro__}
    if module._compiled_call_impl is not None or names & _OWN or _left_alone.is_set():
        return
    import torch
    from torch._dynamo import external_utils, trace_rules

    try:
        # Dynamo does not trace a frame of torch's own layers, such as Sequential, unless another function calls it.
        if trace_rules.check(module.forward):
            module._compiled_call_impl = torch.compile(external_utils.wrap_inline(module._call_impl), **options)
        else:
            module.compile(**options)
    except (ImportError, RuntimeError) as error:
        faults.note(type(module).__name__, type(error).__name__, str(error))
