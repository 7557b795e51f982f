"""Lets Lightning's Trainer train on the XLA device of a compiled job. Its XLA accelerator looks for TPUs only.

A job of one worker. Several workers train natively: Lightning would start XLA's workers itself, and joins none that
another launcher has started.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from sagelet_runtime.base.import_hook import after
from sagelet_runtime.base.say import say_once
from sagelet_runtime.base.world import from_environment

#: Since 2.0 the package is `lightning`, and `pytorch_lightning` with `lightning_fabric`.
ACCELERATORS = ("lightning.fabric.accelerators.xla", "lightning_fabric.accelerators.xla")
CONNECTORS = tuple(
    f"{package}.trainer.connectors.accelerator_connector" for package in ("lightning.pytorch", "pytorch_lightning")
)
PRECISIONS = ("lightning.pytorch.plugins.precision.xla", "pytorch_lightning.plugins.precision.xla")


def is_wanted(environ: Mapping[str, str]) -> bool:
    """True in a job of one worker."""
    return environ.get("WORLD_SIZE", "1") == "1" and from_environment(environ).size == 1


def activate() -> None:
    """Installs the hooks of this process."""
    for names, patch in (
        (ACCELERATORS, install_accelerator),
        (CONNECTORS, install_connector),
        (PRECISIONS, install_precision),
    ):
        for name in names:
            after(name, patch)


def install_accelerator(module: Any) -> None:
    """Patches XLAAccelerator: the process has one XLA device."""
    say_once("Lightning calls the XLA device of this job a TPU")
    kind = module.XLAAccelerator
    kind.auto_device_count = staticmethod(lambda: 1)
    kind.is_available = staticmethod(lambda: True)


def install_connector(module: Any) -> None:
    """Patches the choice of a device: `gpu` and `cuda` are the device that the job is compiled for."""
    module._AcceleratorConnector._choose_gpu_accelerator_backend = staticmethod(lambda: "tpu")


def install_precision(module: Any) -> None:
    """Patches XLAPrecision, which has no mixed precision: such a Trainer computes in float32, as the log says."""
    kind = module.XLAPrecision
    original: Callable[..., None] = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, precision: Any = "32-true") -> None:
        if str(precision).endswith("-mixed"):
            say_once(f"Lightning has no precision={precision!r} on XLA; the Trainer computes in float32")
            precision = "32-true"
        original(self, precision)

    kind.__init__ = __init__
