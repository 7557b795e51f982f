"""Runs cases of a lowering on the CPU by torch and on XLA, and says how often the lowering computed."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


class Inputs:
    """Tensors that are the same on each device, and those whose gradients are asked for."""

    def __init__(self, device: Any, kind: torch.dtype = torch.float32) -> None:
        self.device, self.kind = device, kind
        self.generator = torch.Generator().manual_seed(0)
        self.leaves: list[Tensor] = []

    def tensor(self, value: Tensor, *, is_leaf: bool = True) -> Tensor:
        value = value.to(self.kind).to(self.device)
        if is_leaf:
            self.leaves.append(value.requires_grad_())
        return value

    def normal(self, *shape: int, is_leaf: bool = True) -> Tensor:
        return self.tensor(torch.randn(shape, generator=self.generator), is_leaf=is_leaf)

    def module(self, module: nn.Module) -> nn.Module:
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=self.generator) / 2)
        module = module.to(self.kind).to(self.device)
        self.leaves += [one for one in module.parameters() if one.requires_grad]
        return module

    def weighted(self, *outputs: Tensor) -> Tensor:
        """Returns a sum in which each value has another weight."""
        total: Any = 0
        for one in outputs:
            weights = torch.randn(one.shape, generator=self.generator)
            total = total + (one * weights.to(one.dtype).to(self.device)).sum()
        return total  # type: ignore[no-any-return]

    def outcome(self, *outputs: Tensor) -> list[Tensor]:
        """Returns the outputs, and the gradients of their weighted sum."""
        self.weighted(*outputs).backward()
        return [*outputs, *(one.grad for one in self.leaves if one.grad is not None)]


Case = Callable[[Inputs], list[Tensor]]


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Any) -> None:
        self.count = 0
        self._function = function
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any) -> Any:
        self.count += 1
        return self._function(*args)


def run(case: Case, lowering: Counted, kind: torch.dtype = torch.float32) -> dict[str, Any]:
    """Returns all outputs and gradients of both devices, and how often the lowering computed on XLA."""
    import torch_xla

    before = lowering.count
    on_xla = case(Inputs(torch_xla.device(), kind))
    # All in one program. Reading a value would make a program of that value alone.
    torch_xla.sync()
    lowered = lowering.count - before
    return {"cpu": numbers(case(Inputs("cpu", kind))), "xla": numbers(on_xla), "lowered": lowered}


def numbers(tensors: list[Tensor]) -> list[Any]:
    return [one.detach().cpu().double().flatten().tolist() for one in tensors]


def hlo(case: Case) -> str:
    """Returns the program of the outputs and gradients before XLA's own passes."""
    import torch_xla

    text: str = torch_xla._XLAC._get_xla_tensors_hlo(case(Inputs(torch_xla.device())))
    return text
