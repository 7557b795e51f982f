"""Lets a script's first backward pass be on the CPU, before its first XLA tensor.

torch's engine makes a thread for each device at the process's first backward pass. torch_xla says that there is no
device until its client is made. Each later backward pass on XLA then fails: `INTERNAL ASSERT ... device_ready_queues_`.

The client is not made earlier: `xmp.spawn` must come before it, and so must SPMD and forks. In place of that, the
backward passes of such a process run in the thread that calls them. torch has a setting for it. All other scripts,
those without XLA among them, pay one call of `run_backward` that looks.
"""

from __future__ import annotations

import sys
from typing import Any

MODULE = "torch.autograd.variable"


def install(variable: Any) -> None:
    """Puts an engine before torch's, for the first backward pass. `variable`: the module with torch's engine."""
    import torch

    holder, engine = variable.Variable, variable.Variable._execution_engine

    # torch._dynamo asks for this type.
    class First(torch._C._ImperativeEngine):  # type: ignore[misc]
        def run_backward(self, *args: Any, **kwargs: Any) -> Any:
            holder._execution_engine = engine if _has_client() else OneThread()
            return holder._execution_engine.run_backward(*args, **kwargs)

    class OneThread(torch._C._ImperativeEngine):  # type: ignore[misc]
        def run_backward(self, *args: Any, **kwargs: Any) -> Any:
            with torch.autograd.set_multithreading_enabled(False):
                return engine.run_backward(*args, **kwargs)

    holder._execution_engine = First()


def _has_client() -> bool:
    """True if torch_xla's client is made, so that the engine counts its devices."""
    native = getattr(sys.modules.get("torch_xla"), "_XLAC", None)
    return native is not None and bool(native._xla_runtime_is_initialized())
