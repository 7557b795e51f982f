"""Trains on XLA tensors and prints what came of it as JSON: all traced each time, steps replayed, and models, too.

The last from the first call on, and from a later one on (`tiered`).

Each case is one of what scripts do around a step. Its outcome is each number that the script can see, exactly.
"""

import copy
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from sagelet_runtime.dynamo import faults, gradients, tiers, xla
from sagelet_runtime.replay import clipping, optimizers, programs
from sagelet_runtime.torch_xla import optimizers as steps

optimizers.install_adam(sys.modules[optimizers.ADAM])
optimizers.install_sgd(sys.modules[optimizers.SGD])
clipping.install(nn.utils.clip_grad)
gradients.install(torch.autograd)
faults.install(torch._dynamo.config)
torch_norm, clip_value = nn.utils.clip_grad.clip_grad_norm_, nn.utils.clip_grad.clip_grad_value_
import torch._dynamo  # noqa: E402
import torch_xla  # noqa: E402 - after the hooks, as in a job

steps.install(torch_xla)
clip_norm = nn.utils.clip_grad_norm_
DEVICE = torch_xla.device()
Loop = Callable[["Case"], Any]


class Case:
    """A small model, batches, and the numbers that the script has seen."""

    #: True if the model is traced once.
    once = False
    #: What traces the model once from a later call on.
    tiers: Any = None

    def __init__(self, kind: torch.dtype = torch.float32) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3)).to(kind).to(DEVICE)
        self.run = torch.compile(self.model, backend=xla.backend, dynamic=False) if self.once else self.model
        if Case.tiers is not None:
            Case.tiers = tiers.Tiers(xla.compile_once, after=2)
            self.run = lambda x: Case.tiers.call(nn.Module.__call__, self.model, (x,), {})
        self.parameters = list(self.model.parameters())
        self.kind = kind
        self.at = 0
        self.seen: list[Any] = []

    def loss(self) -> Tensor:
        self.at += 1
        generator = torch.Generator().manual_seed(self.at)
        x, y = torch.randn(5, 6, generator=generator), torch.randn(5, 3, generator=generator)
        return (self.run(x.to(self.kind).to(DEVICE)) - y.to(self.kind).to(DEVICE)).square().mean()

    def backward(self) -> None:
        loss = self.loss()
        loss.backward()
        self.see(loss)

    def see(self, *tensors: Any) -> None:
        """Reads values only at the end, so that reading changes nothing."""
        self.seen += [tensor.detach().clone() if isinstance(tensor, Tensor) else tensor for tensor in tensors]

    def step(self, optimizer: Any, *, clip: float = 0.0) -> None:
        optimizer.zero_grad()
        self.backward()
        if clip:
            self.see(clip_norm(self.model.parameters(), clip))
        optimizer.step()
        torch_xla.sync()

    def train(self, optimizer: Any, count: int = 5, *, clip: float = 0.0) -> Any:
        for _ in range(count):
            self.step(optimizer, clip=clip)
        return optimizer

    def outcome(self, optimizer: Any) -> list[Any]:
        state = optimizer.state_dict()["state"]
        moments = [value for at in sorted(state) for value in state[at].values()]
        return [exact(one) for one in (*self.seen, *self.parameters, *moments)]


def exact(value: Any) -> Any:
    return value.detach().cpu().double().tolist() if isinstance(value, Tensor) else value


def with_settings(kind: Any, **settings: Any) -> Loop:
    return lambda case: case.train(kind(case.parameters, **{"lr": 0.05, **settings}))


def frozen(case: Case) -> Any:
    case.parameters[0].requires_grad_(False)
    optimizer = case.train(torch.optim.AdamW(case.parameters, lr=0.05), 3)
    case.parameters[0].requires_grad_(True)
    return case.train(optimizer, 3)


def groups(case: Case) -> Any:
    first, rest = case.parameters[:2], case.parameters[2:]
    optimizer = torch.optim.AdamW([{"params": first, "weight_decay": 0.0}, {"params": rest, "lr": 0.01}], lr=0.05)
    return case.train(optimizer)


def added_group(case: Case) -> Any:
    optimizer = case.train(torch.optim.AdamW(case.parameters[:2], lr=0.05), 3)
    optimizer.add_param_group({"params": case.parameters[2:]})
    return case.train(optimizer, 3)


def late_parameter(case: Case) -> Any:
    """A parameter of the same group whose count of steps is another."""
    optimizer = torch.optim.Adam(case.parameters, lr=0.05)
    for at in range(5):
        optimizer.zero_grad()
        case.backward()
        if at < 2:
            case.parameters[1].grad = None
        optimizer.step()
        torch_xla.sync()
    return optimizer


def schedule(case: Case) -> Any:
    optimizer = torch.optim.AdamW(case.parameters, lr=0.05)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=8)
    for _ in range(6):
        case.step(optimizer, clip=1.0)
        cycle.step()
    return optimizer


def accumulation(case: Case) -> Any:
    optimizer = torch.optim.AdamW(case.parameters, lr=0.05)
    for _ in range(4):
        optimizer.zero_grad()
        for _ in range(3):
            case.backward()
        case.see(clip_norm(case.model.parameters(), 0.5))
        optimizer.step()
        torch_xla.sync()
    return optimizer


def own_clipping(case: Case) -> Any:
    optimizer = torch.optim.AdamW(case.parameters, lr=0.05)
    for _ in range(4):
        optimizer.zero_grad(set_to_none=False)
        case.backward()
        for parameter in case.parameters:
            parameter.grad.mul_(0.3)
        clip_value(case.model.parameters(), 0.01)
        optimizer.step()
        torch_xla.sync()
    return optimizer


def new_data(case: Case) -> Any:
    """The script puts other weights in place, in two ways."""
    optimizer = case.train(torch.optim.AdamW(case.parameters, lr=0.05), 3)
    for parameter in case.parameters:
        parameter.data = parameter.data * 0.5
    case.train(optimizer, 2)
    with torch.no_grad():
        for parameter in case.parameters:
            parameter.mul_(0.5)
    return case.train(optimizer, 2)


def aliases(case: Case) -> Any:
    """What the script took before the steps: aliases have the new values after them, copies the old ones."""
    optimizer = case.train(torch.optim.AdamW(case.parameters, lr=0.05), 2)
    state = case.model.state_dict()
    alias, clone, deep = case.parameters[0].detach(), case.parameters[0].detach().clone(), copy.deepcopy(state)
    row = case.parameters[0].data[0]
    moments = optimizer.state_dict()["state"][0]["exp_avg"]
    moment = moments.detach()
    case.train(optimizer, 3, clip=0.5)
    for one in (alias, clone, row, moments, moment, *state.values(), *deep.values()):
        case.see(one)
    return optimizer


def partly_changed(case: Case) -> Any:
    """Between the steps the script changes a part of a weight, by views that it takes before and after a step."""
    optimizer = torch.optim.AdamW(case.parameters, lr=0.05)
    weight, bias = case.parameters[:2]
    early = weight.detach()[2]
    for _ in range(4):
        case.step(optimizer, clip=0.5)
        with torch.no_grad():
            weight[0].fill_(0.5)
            weight.data.t()[1].mul_(2)
            early.add_(0.25)
            bias.view(-1)[1:3] = 0.125
            weight[3, 0] = 1.5
        case.see(weight, weight.detach()[:, 1], bias)
    return optimizer


def resumed(case: Case) -> Any:
    optimizer = case.train(torch.optim.AdamW(case.parameters, lr=0.05, amsgrad=True), 3)
    saved = copy.deepcopy(torch_xla.core.xla_model._maybe_convert_to_cpu(optimizer.state_dict()))
    weights = torch_xla.core.xla_model._maybe_convert_to_cpu(case.model.state_dict())
    case.model.load_state_dict(weights)
    again = torch.optim.AdamW(case.parameters, lr=0.01, amsgrad=True)
    again.load_state_dict(saved)
    return case.train(again, 3)


def evaluation(case: Case) -> Any:
    optimizer = torch.optim.AdamW(case.parameters, lr=0.05)
    for _ in range(4):
        case.step(optimizer, clip=1.0)
        case.model.eval()
        with torch.no_grad():
            case.see(case.loss())
        case.model.train()
    return optimizer


def views(case: Case) -> Any:
    """Parameters that are views of one tensor, and a step that is not followed by the end of a graph."""
    flat = torch.arange(12.0).div(12).to(DEVICE)
    case.parameters = [nn.Parameter(flat[:6].view(2, 3)), nn.Parameter(flat[6:])]
    optimizer = torch.optim.AdamW(case.parameters, lr=0.05)
    for _ in range(4):
        optimizer.zero_grad()
        (case.parameters[0].square().sum() + case.parameters[1].exp().sum()).backward()
        clip_norm(case.parameters, 0.5)
        optimizer.step()
    case.see(flat)
    return optimizer


def scaled(case: Case) -> Any:
    scaler = torch.amp.GradScaler("xla")
    optimizer = torch.optim.AdamW(case.parameters, lr=0.05)
    for _ in range(4):
        optimizer.zero_grad()
        loss = case.loss()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        torch_xla.sync()
    return optimizer


def tripled(weight: Tensor) -> None:
    assert weight.grad is not None
    weight.grad.mul_(3)


def watched(case: Case) -> Any:
    """Hooks of modules and of gradients, some of which change what they get."""
    first, last = case.model[0], case.model[3]
    first.register_forward_pre_hook(lambda _module, inputs: (inputs[0] * 0.5,))
    last.register_forward_hook(lambda _module, _inputs, output: output + 1)
    last.register_full_backward_hook(lambda _module, before, _after: (before[0] * 2,))
    first.weight.register_hook(lambda gradient: gradient * 0.5)
    last.weight.register_post_accumulate_grad_hook(tripled)
    return case.train(torch.optim.AdamW(case.parameters, lr=0.05), clip=0.5)


def hooked_later(case: Case) -> Any:
    """Hooks that the script adds, and takes away, after the first steps."""
    optimizer = case.train(torch.optim.AdamW(case.parameters, lr=0.05), 2)
    hook = case.model[3].register_forward_hook(lambda _module, _inputs, output: output * 2)
    case.train(optimizer, 2)
    hook.remove()
    return case.train(optimizer, 2)


def hooks(case: Case) -> Any:
    optimizer = torch.optim.SGD(case.parameters, lr=0.05, momentum=0.9)
    optimizer.register_step_pre_hook(lambda *_: case.see(case.parameters[0]))
    optimizer.register_step_post_hook(lambda *_: case.see(case.parameters[0]))
    return case.train(optimizer, 4)


def clips(**settings: Any) -> Loop:
    """torch's own clipping, which a script may have from before torch_xla was imported, and other norms."""
    settings = {"clip": torch_norm, **settings}
    clip = settings.pop("clip")

    def loop(case: Case) -> Any:
        optimizer = torch.optim.AdamW(case.parameters, lr=0.05)
        for _ in range(3):
            optimizer.zero_grad()
            case.backward()
            case.see(clip(case.model.parameters(), 0.5, **settings))
            optimizer.step()
            torch_xla.sync()
        return optimizer

    return loop


def device_rate(case: Case) -> Any:
    return case.train(torch.optim.AdamW(case.parameters, lr=torch.tensor(0.05), foreach=False, capturable=False), 3)


ADAM, ADAMW, SGD = torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD
CASES: dict[str, Loop] = {
    "adam": with_settings(ADAM),
    "adam, weight decay": with_settings(ADAM, weight_decay=0.1),
    "adam, amsgrad": with_settings(ADAM, amsgrad=True, betas=(0.5, 0.7)),
    "adam, maximize": with_settings(ADAM, maximize=True),
    "adamw": with_settings(ADAMW),
    "adamw, all": with_settings(ADAMW, amsgrad=True, maximize=True, weight_decay=0.3, eps=1e-3),
    "sgd": with_settings(SGD),
    "sgd, momentum": with_settings(SGD, momentum=0.9, weight_decay=0.1),
    "sgd, nesterov": with_settings(SGD, momentum=0.9, nesterov=True),
    "sgd, dampening": with_settings(SGD, momentum=0.9, dampening=0.2, maximize=True),
    "clipping": lambda case: case.train(ADAMW(case.parameters, lr=0.05), clip=0.5),
    "capturable": with_settings(ADAMW, capturable=True),
    "rmsprop": with_settings(torch.optim.RMSprop),
    "a norm that must be finite": clips(clip=clip_norm, error_if_nonfinite=True),
    "the largest value": clips(clip=clip_norm, norm_type=float("inf")),
    "another norm": clips(clip=clip_norm, norm_type=1.5),
    "torch's clipping": clips(),
    "foreach": with_settings(ADAMW, foreach=True),
    "a rate that is a tensor": device_rate,
    "frozen": frozen,
    "groups": groups,
    "an added group": added_group,
    "a late parameter": late_parameter,
    "a schedule": schedule,
    "accumulation": accumulation,
    "clipping by the script": own_clipping,
    "other weights": new_data,
    "aliases and copies": aliases,
    "changed in part": partly_changed,
    "resumed": resumed,
    "evaluation": evaluation,
    "views": views,
    "scaled": scaled,
    "hooks": hooks,
    "watched": watched,
    "hooked later": hooked_later,
}
#: Cases in which what happens to the model matters. They are also trained with models that are traced once.
WITH_MODELS = (
    "clipping", "groups", "frozen", "a late parameter", "accumulation", "clipping by the script", "other weights",
    "changed in part", "aliases and copies", "resumed", "evaluation", "scaled", "watched", "hooked later",
)  # fmt: skip


def outcome(loop: Loop, kind: torch.dtype = torch.float32) -> Any:
    try:
        case = Case(kind)
        return case.outcome(loop(case))
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"


def outcomes(cases: Sequence[str] = tuple(CASES)) -> dict[str, Any]:
    """Returns the numbers of each case, and how many of its calls were replayed and traced."""
    answers: dict[str, Any] = {}
    for name in cases:
        loop = CASES[name]
        torch._dynamo.reset()
        for kind in (torch.float32, torch.bfloat16, torch.float64) if name == "clipping" else (torch.float32,):
            programs.replays = programs.Replays()
            known = name if kind is torch.float32 else f"{name}, {kind}"
            numbers = outcome(loop, kind)
            answers[known] = [numbers, {**programs.replays.figures(), **tiers_of()}]
    return answers


def tiers_of() -> dict[str, Any]:
    return {} if Case.tiers is None else {"tier": Case.tiers.report.document()}


can_replay = programs.can_replay
programs.can_replay = lambda _parameters: False
traced = outcomes()
programs.can_replay = can_replay
replayed = outcomes()
Case.once = True
once = outcomes(WITH_MODELS)
Case.once, Case.tiers = False, True
print(json.dumps([traced, replayed, once, outcomes(WITH_MODELS), faults.noted()]))
