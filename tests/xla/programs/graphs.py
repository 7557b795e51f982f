"""Calls functions on XLA, traced at each call and once by sagelet's backend of torch.compile. Prints both as JSON.

Each function is called several times with other values. Its outcome is each number that the caller sees, also after it
has changed what it got.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from sagelet_runtime.dynamo import faults, gradients, xla

gradients.install(torch.autograd)
import torch_xla  # noqa: E402 - after the hook, as in a job

Call = Callable[[Callable[[Any], Any], int], Any]
DEVICE = torch_xla.device()


def values(at: int, *shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(at)
    return torch.randn(*shape, generator=generator).to(DEVICE)


def changed(*outputs: Tensor) -> list[Tensor]:
    """Changes each output in place, one after the other, and returns all as they are then."""
    for at, output in enumerate(outputs):
        output.add_(at + 1)
    return list(outputs)


def returns_its_input(compiled: Callable[[Any], Any], at: int) -> Any:
    x = values(at, 2, 3)
    same, doubled = compiled(lambda x: (x, x * 2))(x)
    same.add_(1)
    return [x, same, doubled]


def returns_a_copy(compiled: Callable[[Any], Any], at: int) -> Any:
    x = values(at, 2, 3)
    return [x, *changed(*compiled(lambda x: (x.clone(), x * 2))(x)), x]


def returns_one_twice(compiled: Callable[[Any], Any], at: int) -> Any:
    def twice(x: Tensor) -> Any:
        y = x * 2
        return y, y.clone(), y.clone()

    return changed(*compiled(twice)(values(at, 2, 3)))


def returns_a_constant(compiled: Callable[[Any], Any], at: int) -> Any:
    def constant(x: Tensor) -> Any:
        return torch.full((2,), 3.5, device=x.device), torch.ones(2, device=x.device), x + 1

    return changed(*compiled(constant)(values(at, 2, 3)))


def returns_views(compiled: Callable[[Any], Any], at: int) -> Any:
    x = values(at, 2, 3)
    flat, turned, row, new = compiled(lambda x: (x.view(-1), x.t(), x[1], x + 1))(x)
    turned.mul_(2)
    row.add_(1)
    return [x, flat, turned, row, new]


def changes_its_input(compiled: Callable[[Any], Any], at: int) -> Any:
    def change(x: Tensor) -> Tensor:
        x.mul_(3)
        return x + 1

    x = values(at, 2, 3)
    alias = x.detach()
    return [compiled(change)(x), x, alias]


def pending_inputs(compiled: Callable[[Any], Any], at: int) -> Any:
    x = values(at, 2, 3)
    return [compiled(lambda x, y: x @ y.t())(x * 2, x + 1), x]


def copies_at_first(compiled: Callable[[Any], Any], at: int) -> Any:
    x = values(at, 2, 3)
    torch_xla.sync()
    y = x.clone()
    if at > 1:
        y[0] = 7.0
    return [compiled(lambda x, y: x - 2 * y)(x, y)]


def nothing_to_compute(compiled: Callable[[Any], Any], at: int) -> Any:
    x = values(at, 2, 3).requires_grad_()
    compiled(lambda x: x.view(-1))(x).sum().backward()
    again = compiled(lambda x: x.view(2, 3).clone())(x)
    again.square().sum().backward()
    return [again, x.grad]


def no_inputs(compiled: Callable[[Any], Any], at: int) -> Any:
    return changed(compiled(lambda: torch.arange(4.0, device=DEVICE) * 2)(), values(at, 2))


def normalised(compiled: Callable[[Any], Any], at: int) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).to(DEVICE)
    run = compiled(model)
    for step in range(3):
        run(values(at + step, 5, 3)).square().sum().backward()
    return [*model.parameters(), *model.buffers(), *(one.grad for one in model.parameters())]


def gradients_of(compiled: Callable[[Any], Any], at: int) -> Any:
    """A hook of the script changes the gradient with which the backward pass begins, once."""
    x = values(at, 2, 3).requires_grad_()
    run = compiled(lambda x: x.exp().mean())
    found = []
    for step in range(3):
        loss = run(x)
        if step == 1:
            loss.register_hook(lambda gradient: gradient.mul_(2))
        loss.backward()
        torch_xla.sync()
        assert x.grad is not None
        found += [loss, x.grad.clone()]
    return found


def accumulated(compiled: Callable[[Any], Any], at: int) -> Any:
    torch.manual_seed(0)
    model = nn.Linear(3, 2).to(DEVICE)
    model.bias.requires_grad_(False)
    run = compiled(model)
    for step in range(4):
        (run(values(at + step, 5, 3)).square().mean() / 4).backward()
    return [model.weight.grad]


def dropped(compiled: Callable[[Any], Any], at: int) -> Any:
    """Between two calls the script makes more programs than torch_xla keeps, if XLA_COMPILATION_CACHE_SIZE is small."""
    x = values(at, 2, 3)
    found = compiled(lambda x: x.sin() * 3)(x)
    for size in range(1, 8):
        _held = torch.ones(10 * at + size).to(DEVICE) + 3
        torch_xla.sync()
    return [x, found]


CALLS: dict[str, Call] = {
    "its input": returns_its_input,
    "a copy": returns_a_copy,
    "one result twice": returns_one_twice,
    "a constant": returns_a_constant,
    "views": returns_views,
    "changes its input": changes_its_input,
    "pending inputs": pending_inputs,
    "copies at first": copies_at_first,
    "no inputs": no_inputs,
    "nothing to compute": nothing_to_compute,
    "batch norm": normalised,
    "gradients": gradients_of,
    "accumulated": accumulated,
    "dropped": dropped,
}


def outcome(call: Call, *, once: bool) -> Any:
    """Returns what the caller sees of four calls, with their numbers."""
    torch._dynamo.reset()
    functions: dict[str, Any] = {}

    def compiled(function: Any) -> Any:
        """Compiles a function once, though each call makes it anew."""
        if not once:
            return function
        if isinstance(function, nn.Module):
            return torch.compile(function, backend=xla.backend, dynamic=False)
        code = function.__code__
        return functions.setdefault(code, torch.compile(function, backend=xla.backend, dynamic=False))

    seen = [call(compiled, at) for at in range(4)]
    return [[one.detach().cpu().tolist() for one in tensors] for tensors in seen]


if __name__ == "__main__":
    names = sys.argv[1:] or CALLS
    found = {name: [outcome(CALLS[name], once=once) for once in (False, True)] for name in names}
    print(json.dumps([found, faults.noted()]))
