"""Runs in-place operations on XLA tensors with torch's meta kernels and then with sagelet's. Prints both as JSON."""

import json
from typing import Any

import torch
import torch_xla
from torch import _meta_registrations

from sagelet_runtime.torch_xla import in_place

DEVICE = torch_xla.device()


#: Calls of what torch's shape checks in Python consist of.
python_checks = 0
_broadcast = _meta_registrations._broadcast_shapes


def counted(*shapes: Any) -> Any:
    global python_checks
    python_checks += 1
    return _broadcast(*shapes)


_meta_registrations._broadcast_shapes = counted


def tensor(*shape: int, kind: torch.dtype = torch.float32) -> torch.Tensor:
    torch.manual_seed(sum(shape) + 1)
    return (torch.rand(shape) * 7).to(kind).to(DEVICE)


CALLS: dict[str, Any] = {
    "number": lambda x: x.mul_(0.9).add_(1e-8).sub_(1).div_(3),
    "one shape": lambda x: x.mul_(tensor(4, 3)).add_(tensor(4, 3), alpha=0.5).sub_(tensor(4, 3)).div_(tensor(4, 3)),
    "lerp": lambda x: x.lerp_(tensor(4, 3), 0.1).lerp_(tensor(4, 3), tensor(4, 3)),
    "addcmul": lambda x: x.addcmul_(tensor(4, 3), tensor(4, 3), value=0.3),
    "addcdiv": lambda x: x.addcdiv_(tensor(4, 3), tensor(4, 3), value=-0.3),
    "no dimensions": lambda x: x.mul_(tensor()).add_(tensor(kind=torch.bfloat16)),
    "a weight without dimensions": lambda x: x.lerp_(tensor(4, 3), tensor()),
    "broadcast": lambda x: x.add_(tensor(3)).addcmul_(tensor(3), tensor(4, 1)),
    "bfloat16": lambda x: x.add_(tensor(4, 3, kind=torch.bfloat16)),
    "too large": lambda x: x.mul_(tensor(2, 4, 3)),
    "does not fit": lambda x: x.add_(tensor(4, 5)),
    "too large for addcdiv": lambda x: x.addcdiv_(tensor(2, 4, 3), tensor(4, 3)),
    "other type in lerp": lambda x: x.lerp_(tensor(4, 3, kind=torch.bfloat16), 0.5),
    "integers and a fraction": lambda _: tensor(4, 3, kind=torch.int64).add_(0.5),
    "integers": lambda _: tensor(4, 3, kind=torch.int64).mul_(3).float(),
}


def outcomes() -> tuple[dict[str, Any], int]:
    """Returns what each call yields, and how often a training's steps were checked in Python."""
    found: dict[str, Any] = {}
    for name, call in CALLS.items():
        try:
            found[name] = call(tensor(4, 3)).cpu().double().tolist()
        except (RuntimeError, TypeError) as error:
            found[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    checks = python_checks
    found["AdamW"] = trained()
    return found, python_checks - checks


def trained() -> Any:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 2)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
    for _ in range(3):
        optimizer.zero_grad()
        model(tensor(6, 5)).square().mean().backward()
        optimizer.step()
        torch_xla.sync()
    return [parameter.detach().cpu().double().tolist() for parameter in model.parameters()]


before = outcomes()
in_place.install(torch_xla)
print(json.dumps([before, outcomes()]))
