"""Patches Inductor's entry, so that a graph that it cannot compile runs natively instead of failing the job."""

from __future__ import annotations

import functools
from typing import Any

from sagelet_runtime.dynamo import faults

MODULE = "torch._inductor.compile_fx"


def install(module: Any) -> None:
    """Patches `compile_fx`. torch.compile looks it up for each graph, also for the script's own use of Inductor."""
    import torch

    original, lower = module.compile_fx, module.compile_fx_inner

    @functools.wraps(lower)
    def lowered(graph: Any, inputs: Any, **settings: Any) -> Any:
        """Compiles one graph: forward, backward (which may come late, in the middle of `backward()`), or inference."""
        try:
            return lower(graph, inputs, **settings)
        except Exception as error:
            faults.note("backward" if settings.get("is_backward") else "forward", type(error).__name__, str(error))
            return torch._functorch.aot_autograd.make_boxed_func(graph.forward)

    @functools.wraps(original)
    def compile_fx(model: Any, inputs: Any, inner_compile: Any = lowered, **settings: Any) -> Any:
        try:
            return original(model, inputs, inner_compile=inner_compile, **settings)
        except Exception as error:
            faults.note("graph", type(error).__name__, str(error))
            return model.forward

    module.compile_fx = compile_fx
