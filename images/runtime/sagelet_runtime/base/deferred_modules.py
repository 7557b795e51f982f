"""Keeps modules out of a job that most jobs never use, though importing torch_xla or making an optimizer loads them.

Dynamo, AOT autograd and Inductor were more than half of the CPU time of `import torch_xla`, for GRUs by `scan` and for
the export to StableHLO. Here the first use loads them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from sagelet_runtime.base.deferred_import import Deferral, defer, forwarding, has_run

DYNAMO, SCAN, EXPORT = "torch._dynamo", "torch_xla.experimental.scan", "torch_xla.stablehlo"
#: The releases of torch whose uses of Dynamo outside torch.compile are known.
KNOWN = ("2.8.", "2.9.")
#: The modules that torch_xla.stablehlo imports and that give operators to XLA tensors.
OPERATORS = ("quantized", "stablehlo_custom_call", "xla_dynamic_reshape_ops")

#: What tells Dynamo, once it is loaded, which functions to hide and which to allow.
_once_loaded: list[Callable[[ModuleType], None]] = []
_real_disable = forwarding(DYNAMO, "disable")


def install() -> None:
    """Defers the modules in a compiled job. To be called before torch is imported."""
    install_dynamo()
    defer(Deferral(SCAN, {"scan": forwarding(SCAN, "scan")}))
    names = ("save_as_stablehlo", "save_torch_model_as_stablehlo")
    defer(Deferral(EXPORT, {name: forwarding(EXPORT, name) for name in names}))


def install_dynamo() -> None:
    """Defers Dynamo, which torch's optimizers and Transformers import to be left alone by it."""
    stand_ins = {
        "disable": _disable,
        "graph_break": _graph_break,
        "allow_in_graph": _allow_in_graph,
        "eval_frame": _EvalFrame(),
    }
    alone = frozenset(("config", "_trace_wrapped_higher_order_op"))
    defer(Deferral(DYNAMO, stand_ins, alone, _loaded, _is_known))


def install_operators(_torch_xla: Any) -> None:
    """Registers the operators that came with torch_xla.stablehlo."""
    for name in OPERATORS:
        import_module(f"torch_xla.experimental.{name}")


def _is_known() -> bool:
    return str(getattr(sys.modules.get("torch"), "__version__", "")).startswith(KNOWN)


def _disable(fn: Any = None, recursive: bool = True, **options: Any) -> Any:
    """Dynamo's `disable`, also as a decorator. A function need not be hidden from Dynamo before it is loaded."""
    if fn is None:
        return functools.partial(_disable, recursive=recursive, **options)
    if not isinstance(fn, FunctionType):
        return _real_disable(fn, recursive, **options)
    called: Callable[..., Any] = fn

    @functools.wraps(fn)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        return called(*args, **kwargs)

    def hide(dynamo: ModuleType) -> None:
        nonlocal called
        called = dynamo.disable(fn, recursive, **options)
        # Dynamo looks for its mark on the function that is called.
        vars(disabled).update(vars(called))

    _once_loaded.append(hide)
    return disabled


def _allow_in_graph(fn: Any) -> Any:
    """Dynamo's `allow_in_graph`, which notes the functions and returns them."""
    _once_loaded.append(lambda dynamo: dynamo.allow_in_graph(fn))
    return fn


def _graph_break(*_args: Any, **_kwargs: Any) -> None:
    """Dynamo's `graph_break`. It means nothing to code that is not being compiled."""


class _OfDynamo(type):
    def __instancecheck__(cls, instance: object) -> bool:
        # The attribute of the package may still be the stand-in, so the module is asked itself.
        loaded = sys.modules.get(f"{DYNAMO}.eval_frame")
        return has_run(sys.modules[DYNAMO]) and isinstance(instance, getattr(loaded, "OptimizedModule", ()))


class _OptimizedModule(metaclass=_OfDynamo):
    """The class of compiled modules. Accelerate asks whether a model is one: before Dynamo is loaded none is."""


class _EvalFrame:
    """Dynamo's eval_frame."""

    OptimizedModule = _OptimizedModule

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(f"{DYNAMO}.eval_frame"), name)


def _loaded(dynamo: ModuleType) -> None:
    for tell in _once_loaded:
        tell(dynamo)
    _once_loaded.clear()
