"""Functions and classes of Transformers that old scripts import."""

import importlib
import os
from typing import Any

#: Names of the package `transformers`, and its modules that have them today.
_OF_PACKAGE = {"AdamW": "optimization", "is_torch_tpu_available": "utils"}

#: Accelerate's variable. Without it, native workers that find no GPU train alone, and no message says so.
USE_CPU = "ACCELERATE_USE_CPU"


def install_package(import_utils: Any) -> None:
    _leave_out_smddp(import_utils)
    _add_names(import_utils)


def _leave_out_smddp(import_utils: Any) -> None:
    """Hides SageMaker's library from the Trainer on CPUs, whose code for it needs GPUs. Workers use gloo anyway."""
    if os.environ.get(USE_CPU) == "true":
        import_utils._smdistributed_available = False


def _add_names(import_utils: Any) -> None:
    """Adds the names to the package's class, because `transformers` puts several objects of it into sys.modules."""
    lazy = import_utils._LazyModule
    original = lazy.__getattr__

    def __getattr__(self: Any, name: str) -> Any:
        if self.__name__ == "transformers" and name in _OF_PACKAGE and name not in self._class_to_module:
            return getattr(importlib.import_module(f"transformers.{_OF_PACKAGE[name]}"), name)
        return original(self, name)

    lazy.__getattr__ = __getattr__


def install_utils(utils: Any) -> None:
    def is_torch_tpu_available(check_device: bool = True) -> bool:  # noqa: ARG001 - part of the name's contract
        return bool(utils.is_torch_xla_available())

    def send_example_telemetry(*_: Any, **__: Any) -> None:
        """Does nothing. The original told Hugging Face that an example runs."""

    for function in (is_torch_tpu_available, send_example_telemetry):
        if not hasattr(utils, function.__name__):
            setattr(utils, function.__name__, function)


def install_file_utils(file_utils: Any) -> None:
    """Patches file_utils. It was `utils` until 4.17, and re-exports a part of `utils` today."""
    if not hasattr(file_utils, "is_torch_tpu_available"):
        utils = importlib.import_module("transformers.utils")
        file_utils.is_torch_tpu_available = utils.is_torch_tpu_available


def install_optimization(optimization: Any) -> None:
    if hasattr(optimization, "AdamW"):
        return
    torch = importlib.import_module("torch")

    class AdamW(torch.optim.AdamW):  # type: ignore[name-defined, misc]
        """torch's AdamW with the defaults and the arguments of the class that 4.5x removed.

        correct_bias=False has no counterpart and is refused.
        """

        def __init__(
            self,
            params: Any,
            lr: float = 1e-3,
            betas: tuple[float, float] = (0.9, 0.999),
            eps: float = 1e-6,
            weight_decay: float = 0.0,
            correct_bias: bool = True,
            no_deprecation_warning: bool = False,  # noqa: ARG002 - part of the name's contract
        ) -> None:
            if not correct_bias:
                raise ValueError("AdamW(correct_bias=False) of Transformers is gone: use torch.optim.AdamW")
            super().__init__(params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)

    optimization.AdamW = AdamW
