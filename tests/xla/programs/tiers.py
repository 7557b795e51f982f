"""Trains models that are traced once from their third call on, and prints what came of it as JSON.

Each case trains a model twice from one seed: traced at each step, and in tiers. Its outcome is the losses and weights
of both, what else the script can see of both, and what the report says.
"""

import copy
import gc
import json
import pickle
import random
import sys
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from sagelet_runtime.base import deferrals
from sagelet_runtime.dynamo import faults, gradients, tiers, xla

UP: list[tiers.Tiers] = []
gradients.install(torch.autograd, is_wanted=lambda: bool(UP) and UP[-1].is_up)
gradients.watch(torch.autograd, lambda create_graph: UP[-1].note_backward(create_graph) if UP else None)
deferrals.activate_torch_xla()
import torch_xla  # noqa: E402 - after the hooks, as in a job

DEVICE = torch_xla.device()
WIDTH, STEPS = 6, 8


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)
        self.note: Any = 0

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x)))


class Random(Base):
    """Batch norm and dropout, and numbers of the host's generators."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(WIDTH), nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.drop(self.norm(self.first(x).tanh())))


class Counts(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.note += 1
        return super().forward(x)


class Reads(Base):
    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.first(x))
        return self.last(x * (1 if x.sum().item() < 1e9 else 2))


class Changes(Base):
    def forward(self, x: Tensor) -> Tensor:
        x.mul_(0.5)
        return super().forward(x)


class Endless(Base):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * float("inf")


#: What the script's own Python counts, and draws from.
COUNTS = {"calls": 0}


class CountsElsewhere(Base):
    def forward(self, x: Tensor) -> Tensor:
        COUNTS["calls"] += 1
        return super().forward(x) / COUNTS["calls"]


class Draws(Base):
    """Dynamo does not know this generator."""

    def __init__(self) -> None:
        super().__init__()
        self.note = random.Random(3)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.note.gauss(1.0, 0.1)


class Shrinks(Base):
    def forward(self, x: Tensor) -> Tensor:
        self.first.weight.data.mul_(0.9)
        return super().forward(x)


def wrong(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: function(*args, **kwargs) * 1.01


def without_a_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(model: Any, x: Tensor) -> Any:
        return model.last(torch.tanh(model.first(x).detach()))

    return called


def failing(_function: Callable[..., Any]) -> Callable[..., Any]:
    raise RuntimeError("no such compiler\nand more")


class Training:
    def __init__(self, model: nn.Module, ways: Any, rows: tuple[int, ...]) -> None:
        self.model, self.ways, self.rows = model, ways, rows
        self.seen: list[Any] = []

    def call(self, x: Tensor) -> Tensor:
        return self.model(x) if self.ways is None else self.ways.call(nn.Module.__call__, self.model, (x,), {})

    def run(self, between: Callable[["Training", int], None]) -> list[Any]:
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        for step in range(STEPS):
            x = torch.randn(self.rows[step % len(self.rows)], WIDTH).to(DEVICE)
            optimizer.zero_grad()
            loss = self.call(x).square().mean()
            loss.backward()
            optimizer.step()
            torch_xla.sync()
            self.seen.append(loss.item())
            between(self, step)
        self.seen += [random.random(), torch.rand(2).tolist(), torch.rand(2, device=DEVICE).tolist()]
        return [*self.seen, *(one.detach().cpu().double().tolist() for one in self.model.state_dict().values())]


def nothing(_training: Training, _step: int) -> None:
    pass


def evaluated(training: Training, _step: int) -> None:
    training.model.eval()
    with torch.no_grad():
        training.seen.append(training.call(torch.ones(3, WIDTH).to(DEVICE)).sum().item())
    training.model.train()


def hooked(training: Training, step: int) -> None:
    if step == 5:
        training.model.first.register_forward_hook(lambda _module, _inputs, output: output * 2)


def unfrozen(training: Training, step: int) -> None:
    training.model.first.weight.requires_grad_(step >= 5)


def counted(training: Training, step: int) -> None:
    if step == STEPS - 1:
        training.seen.append(COUNTS.pop("calls"))
        COUNTS["calls"] = 0


def retained(training: Training, _step: int) -> None:
    loss = training.call(torch.ones(4, WIDTH).to(DEVICE)).square().mean()
    loss.backward(retain_graph=True)
    loss.backward()
    training.seen.append(training.model.first.weight.grad.sum().item())


def in_pairs(training: Training, _step: int) -> None:
    """Both calls change the means of batch norm before the first one's gradients are computed."""
    first, second = (training.call(torch.randn(4, WIDTH).to(DEVICE)) for _ in range(2))
    (first * second).mean().backward()
    training.seen.append(training.model.first.weight.grad.sum().item())


def penalty(training: Training) -> None:
    output = training.call(torch.ones(4, WIDTH).to(DEVICE)).sum()
    (gradient,) = torch.autograd.grad(output, training.model.first.weight, create_graph=True)
    (output + gradient.square().sum()).backward()
    training.seen.append(training.model.first.weight.grad.sum().item())


def penalised(training: Training, _step: int) -> None:
    penalty(training)


def penalised_later(training: Training, step: int) -> None:
    """What the model cannot do is refused, as its gradients would be constants."""
    if step == 5 and training.ways is not None:
        try:
            penalty(training)
        except gradients.NotDifferentiable:
            return
        raise AssertionError("the gradients of a program were differentiated")


def copied(training: Training, step: int) -> None:
    """A model that is traced once has nothing of it in its attributes."""
    if step == 5:
        again = pickle.loads(pickle.dumps(copy.deepcopy(training.model)))
        training.seen += [
            vars(again).keys() == vars(Base()).keys(),
            again.state_dict().keys() == Base().state_dict().keys(),
        ]


#: The model, what compiles it, rows of the batches, and what the script does after each step.
CASES: dict[str, tuple[type[Base], Any, tuple[int, ...], Any]] = {
    "plain": (Base, xla.compile_once, (4,), nothing),
    "random": (Random, xla.compile_once, (4,), nothing),
    "evaluated": (Random, xla.compile_once, (4,), evaluated),
    "a last batch": (Base, xla.compile_once, (4, 4, 4, 3), nothing),
    "hooked later": (Base, xla.compile_once, (4,), hooked),
    "unfrozen later": (Base, xla.compile_once, (4,), unfrozen),
    "copied": (Base, xla.compile_once, (4,), copied),
    "counts elsewhere": (CountsElsewhere, xla.compile_once, (4,), counted),
    "draws": (Draws, xla.compile_once, (4,), nothing),
    "shrinks": (Shrinks, xla.compile_once, (4,), nothing),
    "retained": (Base, xla.compile_once, (4,), retained),
    "in pairs": (Random, xla.compile_once, (4,), in_pairs),
    "penalised": (Base, xla.compile_once, (4,), penalised),
    "penalised later": (Base, xla.compile_once, (4,), penalised_later),
    "counts": (Counts, xla.compile_once, (4,), nothing),
    "reads": (Reads, xla.compile_once, (4,), nothing),
    "changes its input": (Changes, xla.compile_once, (4,), nothing),
    "not finite": (Endless, xla.compile_once, (4,), nothing),
    "wrong": (Base, wrong, (4,), nothing),
    "without a gradient": (Base, without_a_gradient, (4,), nothing),
    "failing": (Base, failing, (4,), nothing),
}


def trained(name: str, ways: Any) -> tuple[list[Any], Any]:
    kind, _, rows, between = CASES[name]
    for seed in (torch.manual_seed, random.seed):
        seed(3)
    torch_xla.core.xla_model.set_rng_state(5, str(DEVICE))
    training = Training(kind().to(DEVICE), ways, rows)
    return training.run(between), weakref.ref(training.model)


def outcome(name: str) -> list[Any]:
    before, _ = trained(name, None)
    ways = tiers.Tiers(CASES[name][1], after=2)
    UP.append(ways)
    after, model = trained(name, ways)
    gc.collect()
    return [before, after, ways.report.document(), model() is None]


never = tiers.Tiers(xla.compile_once)
never.clocks = lambda: (0.0, 0.0, 0.0)
trained("plain", never)
#: torch.optim imports Dynamo in each job. These are the rest of what going up needs.
LATE = ("torch._functorch.aot_autograd", "torch._inductor.compile_fx", "torch_xla._dynamo.dynamo_bridge")
imported = sorted(name for name in LATE if name in sys.modules)
import torch._dynamo  # noqa: E402

faults.install(torch._dynamo.config)
outcomes = {name: outcome(name) for name in CASES}
tiers.NEEDED = {"torch": ("is_autocast_enabled", "no_such_function"), "torch.no_such_module": ("other",)}
print(json.dumps([imported, outcomes, outcome("plain")]))
