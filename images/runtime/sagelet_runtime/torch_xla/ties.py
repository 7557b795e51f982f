"""Keeps shared parameters shared when a model moves to XLA.

`nn.Module.to("xla")` makes a new Parameter for every place of a shared one. GPT-2's input and output embeddings come
apart, and the trained model is not the script's. Hugging Face's Trainer ties them again. A plain script does not.
"""

import functools
from typing import Any

Place = tuple[Any, str]


def install(_torch_xla: Any) -> None:
    import torch

    original = torch.nn.Module.to

    @functools.wraps(original)
    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        shared = shared_places(self)
        moved = original(self, *args, **kwargs)
        for places in shared:
            tie(places)
        return moved

    torch.nn.Module.to = to


def shared_places(module: Any) -> list[list[Place]]:
    """Returns the places of each parameter that is in more than one place and not on XLA yet."""
    places: dict[int, list[Place]] = {}
    for owner in module.modules():
        for name, parameter in owner._parameters.items():
            if parameter is not None and parameter.device.type != "xla":
                places.setdefault(id(parameter), []).append((owner, name))
    return [found for found in places.values() if len(found) > 1]


def tie(places: list[Place]) -> None:
    """Puts the first place's parameter into the others, if it is on XLA now."""
    owner, name = places[0]
    first = owner._parameters[name]
    if first is None or first.device.type != "xla":
        return
    for owner, name in places[1:]:
        owner._parameters[name] = first
