"""Optimizer steps on XLA tensors: without fused kernels, and on the CPU in a graph of their own."""

import os
from typing import Any

from sagelet_runtime.base.say import say_once
from sagelet_runtime.base.variables import on_cpu
from sagelet_runtime.dynamo import xla as tracing
from sagelet_runtime.replay import clipping
from sagelet_runtime.replay.optimizers import name_others
from sagelet_runtime.replay.programs import run_pending


def install(torch_xla: Any) -> None:
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    register_optimizer_step_pre_hook(_unfuse)
    if tracing.is_replayed(os.environ):
        register_optimizer_step_pre_hook(name_others)
        clipping.install_torch_xla(torch_xla)
    if on_cpu(os.environ) and os.environ.get("SAGELET_XLA_CUT", "1") != "0":
        register_optimizer_step_pre_hook(_cut())


def _unfuse(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    """Turns fused=True off, which torch refuses for XLA tensors. It is the default of Transformers 5.

    XLA fuses the update itself.
    """
    for group in optimizer.param_groups:
        if group.get("fused") and any(parameter.device.type == "xla" for parameter in group["params"]):
            group["fused"] = False
            optimizer._step_supports_amp_scaling = False
            say_once(f"{type(optimizer).__name__}(fused=True) has no kernel for XLA tensors; XLA compiles the update")


def _cut() -> Any:
    """Ends the graph between backward and update.

    In one graph, XLA's CPU compiler fuses the transposes of the weight gradients into the update loops. Strided reads
    then make the step 1.1 to 1.7 times slower, and start-up compiles the whole graph twice. If no gradient is pending,
    the backward pass is a program of its own already.
    """

    def cut(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        gradients = [one.grad for group in optimizer.param_groups for one in group["params"] if one.grad is not None]
        if gradients and gradients[0].device.type == "xla":
            run_pending([one for one in gradients if one.device.type == "xla"])

    return cut
