"""The steps of Adam, AdamW and SGD as programs.

torch's functions that make the steps are replaced, so optimizers, their hooks and their checkpoints stay. Each program
does the operations of torch's own loop over the parameters (`_single_tensor_adam`, `_single_tensor_sgd`), in its order.
What the host computes of it, such as the learning rate, is an argument: a schedule makes no new program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sagelet_runtime.replay import programs
from sagelet_runtime.replay.programs import NotReplayed

ADAM, ADAMW, SGD = "torch.optim.adam", "torch.optim.adamw", "torch.optim.sgd"
#: Settings that ask for another of torch's ways, or for something on the device.
_OTHER_WAYS = ("foreach", "fused", "capturable", "differentiable", "grad_scale", "found_inf", "has_complex")
_ADAMS = frozenset(
    {*_OTHER_WAYS, "decoupled_weight_decay", "amsgrad", "beta1", "beta2", "lr", "weight_decay", "eps", "maximize"}
)
_SGDS = frozenset(
    {*_OTHER_WAYS, "has_sparse_grad", "weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize"}
)

Step = Callable[..., Any]


def install_adam(module: Any) -> None:
    """Patches `adam`, which Adam and, in newer versions of torch, AdamW call."""
    module.adam = _replayed(module.adam, "Adam", _adam)


def install_adamw(module: Any) -> None:
    """Patches `adamw` of a torch whose AdamW has one that does not call `adam`."""
    from torch.optim import Adam

    if not issubclass(module.AdamW, Adam):
        module.adamw = _replayed(module.adamw, "AdamW", functools.partial(_adam, decoupled=True))


def install_sgd(module: Any) -> None:
    module.sgd = _replayed(module.sgd, "SGD", _sgd)


def name_others(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    """Notes the step of an optimizer that has no program. torch calls this before each optimizer's step."""
    if getattr(type(optimizer).step, "__module__", "") in (ADAM, ADAMW, SGD):
        return
    if any(one.device.type == "xla" for one in optimizer.param_groups[0]["params"][:1]):
        programs.replays.traced(type(optimizer).__name__, NotReplayed("sagelet has no program for this optimizer"))


def _replayed(original: Step, name: str, replay: Step) -> Step:
    @functools.wraps(original)
    def step(*lists: Any, **settings: Any) -> Any:
        if not lists or not programs.can_replay(lists[0]):
            return original(*lists, **settings)
        try:
            programs.check_surroundings()
            return replay(*lists, **settings)
        except NotReplayed as reason:
            programs.replays.traced(name, reason)
        return original(*lists, **settings)

    return step


def _check(settings: Mapping[str, Any], known: frozenset[str], numbers: Sequence[str]) -> None:
    """Raises NotReplayed for settings that the programs do not cover. `numbers`: those that must be Python's."""
    if unknown := settings.keys() - known:
        raise NotReplayed(f"{', '.join(sorted(unknown))} is not known of torch's optimizers")
    for name in _OTHER_WAYS:
        if settings.get(name) is not None and settings[name] is not False:
            raise NotReplayed(name)
    for name in numbers:
        if type(settings.get(name)) not in (float, int):
            raise NotReplayed(f"{name} is no number of Python")


def _adam(*lists: Any, decoupled: bool = False, **settings: Any) -> None:
    """One step of Adam. `lists`: parameters, gradients, first and second moments, their maxima, counts of steps."""
    import torch

    _check(settings, _ADAMS, ("lr", "beta1", "beta2", "weight_decay", "eps"))
    if len(lists) != 6:
        raise NotReplayed("torch calls the step in another way")
    *tensors, counts = lists
    if not all(count.device.type == "cpu" for count in counts):
        raise NotReplayed("counts of steps on the device")
    decoupled = decoupled or settings.get("decoupled_weight_decay", False)
    amsgrad, maximize, decay = settings["amsgrad"], settings["maximize"], settings["weight_decay"]
    tensors = tensors if amsgrad else tensors[:4]
    shapes = programs.signature(*tensors)
    steps = [count.item() + 1 for count in counts]
    different = sorted(set(steps))
    places = None if len(different) == 1 else tuple(different.index(one) for one in steps)
    beta1, beta2, lr = settings["beta1"], settings["beta2"], settings["lr"]
    numbers = [1 - lr * decay if decoupled else decay, 1 - beta1, beta2, 1 - beta2, settings["eps"]]
    for step in different:
        numbers += [-(lr / (1 - beta1**step)), (1 - beta2**step) ** 0.5]

    def function(arguments: list[Any]) -> list[Any]:
        *flat, vector = arguments
        parts = _divided(flat, len(shapes[1]))
        weight, *common = vector[:5].unbind()
        by_step = vector[5:].unbind()
        for at, (p, g, *moments) in enumerate(zip(*parts)):
            place = places[at] if places else 0
            g = -g if maximize else g
            if decay != 0 and decoupled:
                p.mul_(weight)
            elif decay != 0:
                g = g.add(p * weight)
            _adam_update(p, g, moments, common, by_step[2 * place : 2 * place + 2])
        return [one for kind in (0, *range(2, len(parts))) for one in parts[kind]]

    changed = [one for kind in (0, *range(2, len(tensors))) for one in tensors[kind]]
    key = (shapes, places, amsgrad, maximize, decay != 0, decoupled)
    _run("adam", key, function, tensors, numbers, changed)
    # A number of Python would be made a tensor for each count.
    torch._foreach_add_(counts, torch.tensor(1.0), alpha=1.0)


def _adam_update(p: Any, g: Any, moments: list[Any], common: Sequence[Any], by_step: Sequence[Any]) -> None:
    """Updates a parameter and its moments in place. `moments`: the first and second, and with amsgrad the maxima."""
    import torch

    first, second, *maxima = moments
    to_first, keep_second, to_second, eps = common
    negative_step, root = by_step
    first.lerp_(g, to_first)
    second.mul_(keep_second).add_(g * g * to_second)
    if maxima:
        maxima[0].copy_(torch.maximum(maxima[0], second))
    largest = maxima[0] if maxima else second
    p.add_(first / (largest.sqrt() / root).add_(eps) * negative_step)


def _sgd(*lists: Any, **settings: Any) -> None:
    """One step of SGD. `lists`: parameters, gradients, momentum buffers, which are None before the first step."""
    numbers_of = ("lr", "weight_decay", "momentum", "dampening")
    _check(settings, _SGDS, numbers_of)
    if len(lists) != 3 or settings.get("has_sparse_grad"):
        raise NotReplayed(
            "sparse gradients" if settings.get("has_sparse_grad") else "torch calls the step in another way"
        )
    parameters, gradients, buffers = lists
    lr, decay, momentum, dampening = (settings[name] for name in numbers_of)
    nesterov, maximize = settings["nesterov"], settings["maximize"]
    if momentum != 0 and any(buffer is None for buffer in buffers):
        raise NotReplayed("the first step, which makes the momentum")
    tensors = [parameters, gradients, buffers] if momentum != 0 else [parameters, gradients]
    shapes = programs.signature(*tensors)

    def function(arguments: list[Any]) -> list[Any]:
        *flat, vector = arguments
        parts = _divided(flat, len(shapes[1]))
        negative_rate, weight, keep, add = vector.unbind()
        for p, g, *rest in zip(*parts):
            g = -g if maximize else g
            if decay != 0:
                g = g.add(p * weight)
            for buffer in rest:
                buffer.mul_(keep).add_(g * add)
                g = g.add(buffer * keep) if nesterov else buffer
            p.add_(g * negative_rate)
        return [one for kind in (0, *range(2, len(parts))) for one in parts[kind]]

    changed = [*parameters, *(buffers if momentum != 0 else ())]
    key = (shapes, decay != 0, momentum != 0, nesterov, maximize)
    _run("sgd", key, function, tensors, [-lr, decay, momentum, 1 - dampening], changed)


def _run(
    kind: str, key: Any, function: Callable[[list[Any]], list[Any]], tensors: Sequence[Sequence[Any]],
    numbers: Sequence[float], changed: Sequence[Any],
) -> None:  # fmt: skip
    """Runs a step's program and writes its results into `changed`."""
    import torch

    first = tensors[0][0]
    vector = torch.tensor(numbers, dtype=first.dtype).to(first.device)
    arguments = [one for part in tensors for one in part]
    results = programs.replays.run("steps", (kind, len(numbers), key), function, [*arguments, vector])
    programs.write(changed, results)


def _divided(flat: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [flat[at : at + size] for at in range(0, len(flat), size)]
