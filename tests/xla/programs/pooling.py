"""max_pool2d on the CPU by torch and on XLA by sagelet's lowering. Prints both as JSON.

The names of cases that torch_xla's own function computes begin with "own".
"""

import json
from collections.abc import Callable
from typing import Any

import torch
from both_devices import Case, Counted, Inputs, hlo, run
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from sagelet_runtime.lowerings import pooling

OWN = functional.max_pool2d
pooling.install(functional)
import torch_xla  # noqa: E402 - after the hooks, as in a job

from sagelet_runtime.dynamo import xla as tracing  # noqa: E402
from sagelet_runtime.lowerings import windows  # noqa: E402 - it imports torch
from sagelet_runtime.torch_xla import checkpoints  # noqa: E402

checkpoints.install(torch_xla)
CASES: dict[str, Case] = {}


def case(name: str, *args: Any) -> Callable[[Any], Any]:
    def added(function: Any) -> Any:
        CASES[name] = (lambda inputs: function(inputs, *args)) if args else function
        return function

    return added


def pool(values: Callable[[Inputs], Tensor], *args: Any, **settings: Any) -> Case:
    return lambda inputs: inputs.outcome(functional.max_pool2d(inputs.tensor(values(inputs)), *args, **settings))


def normal(*shape: int) -> Callable[[Inputs], Tensor]:
    return lambda inputs: torch.randn(shape, generator=inputs.generator)


def chosen(values: list[float], *shape: int) -> Callable[[Inputs], Tensor]:
    """Few different values, so that windows have several maxima."""
    return lambda inputs: torch.tensor(values)[torch.randint(len(values), shape, generator=inputs.generator)]


INFINITE, NAN = float("inf"), float("nan")
PLAIN = normal(2, 3, 8, 6)
CASES |= {
    "pool": pool(PLAIN, 2),
    "pool, with a name": pool(PLAIN, kernel_size=2, stride=2),
    "pool, 2 x 3": pool(PLAIN, (2, 3)),
    "pool, what is left over": pool(normal(2, 3, 9, 8), (2, 3), stride=(2, 3)),
    "pool, without a batch": pool(normal(3, 8, 6), [2]),
    "pool, equal values": pool(chosen([-1.0, 0.0, 0.0, 1.0], 4, 3, 8, 8), 2),
    "pool, zeros": pool(chosen([0.0, -0.0], 4, 3, 8, 8), 2),
    "pool, infinities": pool(chosen([-INFINITE, INFINITE, 0.0], 4, 3, 8, 8), 4),
    "pool, the least": pool(chosen([-INFINITE], 1, 1, 4, 4), 2),
    "pool, NaN": pool(chosen([NAN, 1.0, 2.0, 3.0, 4.0], 4, 3, 8, 8), 2),
    "pool, transposed": lambda inputs: inputs.outcome(
        functional.max_pool2d(inputs.normal(2, 8, 6, 3).permute(0, 3, 1, 2), 2)
    ),
    "pool, channels last": lambda inputs: inputs.outcome(
        functional.max_pool2d(inputs.normal(2, 3, 8, 6).contiguous(memory_format=torch.channels_last), 2)
    ),
    "pool, the module": lambda inputs: inputs.outcome(nn.MaxPool2d(2)(inputs.normal(2, 3, 8, 6).relu())),
    "own pool, larger": pool(normal(1, 2, 10, 10), 5),
    "own pool, overlapping": pool(PLAIN, 3, 2),
    "own pool, padded": pool(PLAIN, 2, 2, 1),
    "own pool, apart": pool(PLAIN, 2, 3),
    "own pool, ceil_mode": pool(normal(1, 2, 7, 7), 2, ceil_mode=True),
    "own pool, indices": lambda inputs: inputs.outcome(
        functional.max_pool2d(inputs.normal(2, 3, 8, 6), 2, return_indices=True)[0]
    ),
    "own pool, one value": pool(PLAIN, 1),
    "own pool, no rows": lambda inputs: inputs.outcome(functional.max_pool2d(inputs.normal(0, 3, 8, 6), 2)),
}


@case("pool, double backward")
def pool_twice(inputs: Inputs) -> list[Tensor]:
    x = inputs.normal(2, 3, 8, 6)
    y = functional.max_pool2d(x * x, 2)
    (gradient,) = torch.autograd.grad(inputs.weighted(y), x, create_graph=True)
    return inputs.outcome(gradient.square(), y)


@case("pool, no_grad")
def pool_without_gradients(inputs: Inputs) -> list[Tensor]:
    with torch.no_grad():
        return [functional.max_pool2d(inputs.normal(2, 3, 8, 6), 2)]


@case("pool, checkpoint", False)
@case("pool, reentrant checkpoint", True)
def pool_again(inputs: Inputs, is_reentrant: bool) -> list[Tensor]:
    x = inputs.normal(2, 3, 8, 6)
    return inputs.outcome(checkpoint(lambda y: functional.max_pool2d(y.neg(), 2), x, use_reentrant=is_reentrant))


@case("pool, hooks")
def pool_with_hooks(inputs: Inputs) -> list[Tensor]:
    module, seen = nn.MaxPool2d(2), []
    module.register_forward_hook(lambda _module, _inputs, output: output * 2)
    module.register_full_backward_hook(lambda _module, gradients, _outputs: seen.extend(gradients))
    return [*inputs.outcome(module(inputs.normal(2, 3, 8, 6).neg())), *seen]


@case("pool, saved on the CPU")
def pool_saved_elsewhere(inputs: Inputs) -> list[Tensor]:
    with torch.autograd.graph.save_on_cpu():
        y = functional.max_pool2d(inputs.normal(2, 3, 8, 6), 2)
    return inputs.outcome(y)


@case("own pool, TorchScript")
def pool_scripted(inputs: Inputs) -> list[Tensor]:
    return inputs.outcome(torch.jit.script(nn.Sequential(nn.MaxPool2d(2)))(inputs.normal(2, 3, 8, 6)))


@case("own pool, TorchScript's tracing")
def pool_traced(inputs: Inputs) -> list[Tensor]:
    module = torch.jit.trace(nn.MaxPool2d(2), inputs.normal(2, 3, 8, 6, is_leaf=False), check_trace=False)
    return inputs.outcome(module(inputs.normal(2, 3, 8, 6)))


@case("pool, torch.compile")
def pool_compiled(inputs: Inputs) -> list[Tensor]:
    backend = tracing.backend if inputs.device != "cpu" else "aot_eager"
    function = torch.compile(lambda x: functional.max_pool2d(x.neg(), 2) * 2, backend=backend, dynamic=False)
    return inputs.outcome(function(inputs.normal(2, 3, 8, 6)))


if __name__ == "__main__":
    windows.largest = lowering = Counted(windows.largest)
    results = {name: run(found, lowering) for name, found in CASES.items()}
    for name in ("pool", "pool, equal values"):
        results[f"{name}, float64"] = run(CASES[name], lowering, torch.float64)
    results["own pool, bfloat16"] = run(CASES["pool"], lowering, torch.bfloat16)
    lowered = hlo(CASES["pool"])
    functional.max_pool2d = OWN
    print(json.dumps({"cases": results, "hlo": {"lowered": lowered, "own": hlo(CASES["pool"])}}))
