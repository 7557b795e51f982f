"""Stands in for SageMaker Debugger's library where it is not installed. It has the names and saves nothing."""

from __future__ import annotations

from enum import Enum
from typing import Any

from sagelet_runtime.base.say import say

say(
    "smdebug is a stand-in here: its names exist, but no tensor is saved and no rule runs "
    "(`sagelet docs reference/packages`)"
)


class modes(Enum):
    TRAIN = 1
    EVAL = 2
    PREDICT = 3
    GLOBAL = 4


class SaveConfigMode:
    """When to save, for one mode."""

    def __init__(
        self,
        save_interval: int | None = None,
        start_step: int | None = None,
        end_step: int | None = None,
        save_steps: list[int] | None = None,
    ) -> None:
        self.save_interval, self.start_step, self.end_step, self.save_steps = (
            save_interval,
            start_step,
            end_step,
            save_steps,
        )


class SaveConfig(SaveConfigMode):
    """When to save."""

    def __init__(self, *given: Any, mode_save_configs: dict[modes, SaveConfigMode] | None = None, **rest: Any) -> None:
        super().__init__(*given, **rest)
        self.mode_save_configs = mode_save_configs


class ReductionConfig:
    """What to save in place of a tensor."""

    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)


class Collection:
    """A named group of tensors."""

    def __init__(self, name: str, **settings: Any) -> None:
        self.name = name
        self.__dict__.update(settings)

    def include(self, *_names: Any) -> None:
        """Names tensors. No tensor is saved."""

    def add(self, *_tensors: Any) -> None:
        """Names tensors. No tensor is saved."""

    def add_module_tensors(self, *_modules: Any, **_settings: Any) -> None:
        """Names tensors. No tensor is saved."""


class CollectionKeys:
    DEFAULT = "default"
    ALL = "all"
    WEIGHTS = "weights"
    BIASES = "biases"
    GRADIENTS = "gradients"
    LOSSES = "losses"
    METRICS = "metrics"
    INPUTS = "inputs"
    OUTPUTS = "outputs"
    OPTIMIZER_VARIABLES = "optimizer_variables"
