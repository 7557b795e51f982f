"""Runs a training script unchanged and prints torch_xla's own counters of its last steps. It is a job's script itself.

    python step_counters.py SCRIPT [ARGUMENTS]

A step is from one optimizer step to the next. The counts are exact: no clock is read. Each line is one step's.
"""

import json
import runpy
import sys
from typing import Any

#: torch_xla's names: the count of a metric's samples, or their sum.
COUNTS = {
    "lazy_operations": ("LazyTracing", 0),
    "tensors": ("CreateXlaTensor", None),
    "graph_nodes": ("TensorsGraphSize", 1),
    "executions": ("ExecuteTime", 0),
    "compiles": ("CompileTime", 0),
}


def counters() -> dict[str, int]:
    import torch_xla
    import torch_xla.core.xla_model as xm

    # torch_xla counts an execution when it ends.
    xm.wait_device_ops()
    native = torch_xla._XLAC

    def value(name: str, place: int | None) -> int:
        if place is None:
            return int(native._xla_counter_value(name) or 0)
        return int((native._xla_metric_data(name) or (0, 0))[place])

    return {**{name: value(*which) for name, which in COUNTS.items()}, "arguments": _arguments()}


def _arguments() -> int:
    """Returns how many arguments the process's programs had. The library before the plugin counts them."""
    from sagelet_runtime.gpu import executions

    seen = executions.of_process()
    return seen.arguments() if seen is not None else 0


def count() -> None:
    """Prints a line before each optimizer step, from the second on."""
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    before: dict[str, int] = {}

    def stepping(_optimizer: Any, _args: Any, _kwargs: Any) -> None:
        now = counters()
        if before:
            print("counted=" + json.dumps({name: now[name] - before[name] for name in now}), flush=True)
        before.update(now)

    register_optimizer_step_pre_hook(stepping)


if __name__ == "__main__":
    count()
    sys.argv = sys.argv[1:]
    runpy.run_path(sys.argv[0], run_name="__main__")
