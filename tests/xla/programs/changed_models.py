"""Changes a model between calls of its compiled form, natively on the CPU. Prints what each form did as JSON."""

import json
import sys
from typing import Any

import torch
import torch._dynamo
from torch import Tensor, nn

from sagelet_runtime.dynamo import faults

if "--bare" not in sys.argv:
    faults.install(torch._dynamo.config)


def trained(*, compiled: bool) -> dict[str, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    model[0].weight.requires_grad_(False)
    # AOT autograd is what Inductor and sagelet's backend for XLA have in common.
    run = torch.compile(model, backend="aot_eager", dynamic=False) if compiled else model
    x = torch.ones(2, 3)

    def gradient() -> Any:
        model.zero_grad()
        run(x).square().sum().backward()
        weight: Tensor = model[0].weight
        return weight.grad.tolist() if weight.grad is not None else None

    assert gradient() is gradient() is None
    found: dict[str, Any] = {}
    model[0].weight.requires_grad_(True)
    found["unfrozen"] = gradient()
    hook = model[1].register_forward_hook(lambda _module, _inputs, output: output * 2)
    found["hooked"] = run(x).tolist()
    hook.remove()
    found["without the hook"] = run(x).tolist()
    return found


print(json.dumps([trained(compiled=False), trained(compiled=True)]))
