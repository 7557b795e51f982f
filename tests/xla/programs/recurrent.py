"""LSTM and GRU on the CPU by torch and on XLA by sagelet's lowering. Prints both as JSON.

The names of cases that torch's own function computes begin with "own".
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from both_devices import Case, Counted, Inputs, hlo, run
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sagelet_runtime.lowerings import recurrent

OWN = torch._VF.lstm, torch._VF.gru
recurrent.install(torch)
LSTM, GRU = nn.LSTM, nn.GRU
KINDS: dict[str, Any] = {"LSTM": LSTM, "GRU": GRU}
import torch_xla  # noqa: E402 - after the hooks, as in a job

from sagelet_runtime.dynamo import xla as tracing  # noqa: E402
from sagelet_runtime.lowerings import sequences  # noqa: E402 - it imports torch
from sagelet_runtime.torch_xla import checkpoints  # noqa: E402

checkpoints.install(torch_xla)
recurrent.install_gru(sys.modules[recurrent.TORCH_XLA_GRU])
#: What torch_xla has put in the place of nn.GRU.
LOOP = nn.GRU
assert LOOP is not GRU
CASES: dict[str, Case] = {}
T, B, WIDTH, HIDDEN = 3, 2, 4, 5
SEQUENCE = (T, B, WIDTH)


def outputs(result: Any) -> list[Tensor]:
    y, ends = result
    return [y, *(ends if isinstance(ends, tuple) else (ends,))]


def sequence(kind: Any, *, states: bool = False, shape: tuple[int, ...] = SEQUENCE, **settings: Any) -> Case:
    def run(inputs: Inputs) -> list[Tensor]:
        module = inputs.module(kind(WIDTH, HIDDEN, **settings))
        x = inputs.normal(*shape)
        if not states:
            return inputs.outcome(*outputs(module(x)))
        firsts = [inputs.normal(settings.get("num_layers", 1), B, HIDDEN) for _ in range(2 if kind is LSTM else 1)]
        return inputs.outcome(*outputs(module(x, tuple(firsts) if kind is LSTM else firsts[0])))

    return run


def part(kind: Any, which: Callable[[list[Tensor]], Tensor]) -> Case:
    """A script that uses one output only."""

    def run(inputs: Inputs) -> list[Tensor]:
        module = inputs.module(kind(WIDTH, HIDDEN))
        return inputs.outcome(which(outputs(module(inputs.normal(*SEQUENCE)))))

    return run


def frozen(kind: Any) -> Case:
    def run(inputs: Inputs) -> list[Tensor]:
        module = kind(WIDTH, HIDDEN)
        module.weight_hh_l0.requires_grad_(False)
        module.bias_ih_l0.requires_grad_(False)
        module = inputs.module(module)
        return inputs.outcome(*outputs(module(inputs.normal(*SEQUENCE, is_leaf=False))))

    return run


def penalty(kind: Any) -> Case:
    """A gradient that is a part of the loss. The second layer's input depends on the first one's weights."""

    def run(inputs: Inputs) -> list[Tensor]:
        module = inputs.module(kind(WIDTH, HIDDEN, num_layers=2))
        x = inputs.normal(*SEQUENCE)
        y = outputs(module(x))
        (gradient,) = torch.autograd.grad(inputs.weighted(*y), x, create_graph=True)
        return inputs.outcome(gradient.square(), *y)

    return run


def twice(kind: Any) -> Case:
    """One module for two layers, so that each weight has two gradients."""

    def run(inputs: Inputs) -> list[Tensor]:
        module = inputs.module(kind(HIDDEN, HIDDEN))
        y, ends = module(inputs.normal(T, B, HIDDEN))
        return inputs.outcome(*outputs(module(y, ends)))

    return run


def again(kind: Any, is_reentrant: bool) -> Case:
    def run(inputs: Inputs) -> list[Tensor]:
        module = inputs.module(kind(WIDTH, HIDDEN))
        x = inputs.normal(*SEQUENCE)
        return inputs.outcome(checkpoint(lambda value: outputs(module(value))[0], x, use_reentrant=is_reentrant))

    return run


def scripted(kind: Any) -> Case:
    def run(inputs: Inputs) -> list[Tensor]:
        module = torch.jit.script(nn.Sequential(inputs.module(kind(WIDTH, HIDDEN))))
        return inputs.outcome(*outputs(module(inputs.normal(*SEQUENCE))))

    return run


def within_autocast(kind: Any) -> Case:
    def run(inputs: Inputs) -> list[Tensor]:
        module = inputs.module(kind(WIDTH, HIDDEN))
        with torch.autocast(inputs.device if isinstance(inputs.device, str) else "xla", dtype=torch.bfloat16):
            return inputs.outcome(*(one.float() for one in outputs(module(inputs.normal(*SEQUENCE)))))

    return run


def without_gradients(kind: Any) -> Case:
    def run(inputs: Inputs) -> list[Tensor]:
        module = inputs.module(kind(WIDTH, HIDDEN))
        with torch.no_grad():
            return outputs(module(inputs.normal(*SEQUENCE, is_leaf=False)))

    return run


def compiled(kind: Any) -> Case:
    """Dynamo leaves these modules to Python, and compiles what is around."""

    def run(inputs: Inputs) -> list[Tensor]:
        module = inputs.module(kind(WIDTH, HIDDEN))
        backend = tracing.backend if inputs.device != "cpu" else "aot_eager"
        function = torch.compile(lambda x: outputs(module(x.sin()))[0] * 2, backend=backend, dynamic=False)
        return inputs.outcome(function(inputs.normal(*SEQUENCE)))

    return run


for name, kind in KINDS.items():
    CASES |= {
        name: sequence(kind),
        f"{name}, first states": sequence(kind, states=True),
        f"{name}, batch first": sequence(kind, batch_first=True, shape=(B, T, WIDTH)),
        f"{name}, three layers": sequence(kind, states=True, num_layers=3),
        f"{name}, one step": sequence(kind, states=True, shape=(1, B, WIDTH)),
        f"{name}, without a batch": sequence(kind, shape=(T, WIDTH)),
        f"{name}, no dropout within one layer": sequence(kind, dropout=0.5),
        f"{name}, the last output": part(kind, lambda found: found[0][-1]),
        f"{name}, the last state": part(kind, lambda found: found[-1]),
        f"{name}, frozen": frozen(kind),
        f"{name}, twice": twice(kind),
        f"{name}, checkpoint": again(kind, False),
        f"{name}, reentrant checkpoint": again(kind, True),
        f"{name}, no_grad": without_gradients(kind),
        f"{name}, torch.compile": compiled(kind),
        f"own {name}, two directions": sequence(kind, bidirectional=True),
        f"own {name}, no bias": sequence(kind, bias=False),
        f"own {name}, TorchScript": scripted(kind),
        f"own {name}, autocast": within_autocast(kind),
    }
CASES |= {
    "torch_xla's GRU": sequence(LOOP, states=True, num_layers=2),
    "torch_xla's GRU, batch first": sequence(LOOP, batch_first=True, shape=(B, T, WIDTH)),
    "own loop, a long sequence": sequence(LOOP, shape=(recurrent.LONGEST + 1, B, WIDTH)),
    "own loop, no bias": sequence(LOOP, bias=False),
}
CASES["own LSTM, projections"] = sequence(LSTM, proj_size=2)


def texts() -> dict[str, str]:
    """Returns the programs of both, with torch's functions and with sagelet's, for two lengths of the sequence."""
    lowered, found = (torch._VF.lstm, torch._VF.gru), {}
    for name, kind in KINDS.items():
        for steps in (4, 8):
            for which, functions in {"lowered": lowered, "own": OWN}.items():
                torch._VF.lstm, torch._VF.gru = functions
                found[f"{which} {name}, {steps} steps"] = hlo(sequence(kind, shape=(steps, B, WIDTH)))
    torch._VF.lstm, torch._VF.gru = lowered
    return found


if __name__ == "__main__":
    sequences.run = lowering = Counted(sequences.run)
    results = {name: run(found, lowering) for name, found in CASES.items()}
    for name in KINDS:
        # torch's own operations compute it, whose rounding adds up in float32.
        results[f"{name}, double backward, float64"] = run(penalty(KINDS[name]), lowering, torch.float64)
        results[f"{name}, float64"] = run(CASES[f"{name}, three layers"], lowering, torch.float64)
        results[f"own {name}, bfloat16"] = run(CASES[name], lowering, torch.bfloat16)
    print(json.dumps({"cases": results, "hlo": texts()}))
