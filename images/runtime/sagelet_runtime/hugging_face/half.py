"""fp16=True of Transformers and accelerate where CPUs stand in for GPUs.

Transformers up to 4.43 and accelerate before 1.x refuse it. Later releases compute in float32 and say nothing. Here a
native job computes in float32 and says so. A compiled job gets past the refusal and computes in bfloat16 (`amp.py` says
so). `training_args.fp16` keeps the script's value: scripts choose padding lengths and log lines by it.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sagelet_runtime.base import image, installed
from sagelet_runtime.base.say import say_for_all
from sagelet_runtime.gpu import missing_gpu
from sagelet_runtime.torch_xla import amp

#: The first releases that do not refuse: of TrainingArguments, and of the Trainer (which used torch's rule before).
_TAKES, _TRAINER_TAKES = (4, 44), (4, 41)
#: The first release of Accelerate that does not refuse on XLA.
_ACCELERATE_TAKES = (0, 28)


def install_arguments(module: Any) -> None:
    """Patches `TrainingArguments` of transformers.training_args, in a native job."""
    kind = module.TrainingArguments
    refuses = _release() < _TAKES
    original = kind.__post_init__

    @functools.wraps(original)
    def __post_init__(self: Any) -> None:
        if self.fp16_full_eval:
            # float16 gains nothing on a CPU, which computes it more slowly.
            self.fp16_full_eval = False
            missing_gpu.say_float32()
        with _hidden(self, refuses):
            original(self)

    kind.__post_init__ = __post_init__


def install_trainer(module: Any) -> None:
    """Patches `Trainer` of transformers.trainer, in a native job."""
    if _release() >= _TRAINER_TAKES:
        return
    kind = module.Trainer
    original = kind.__init__

    @functools.wraps(original)
    def __init__(self: Any, model: Any = None, args: Any = None, *rest: Any, **more: Any) -> None:
        with _hidden(args, args is not None):
            original(self, model, args, *rest, **more)

    kind.__init__ = __init__


def install_state(module: Any) -> None:
    """Patches `AcceleratorState` of accelerate.state: float16 is float32.

    Its first argument is `mixed_precision`. Before Accelerate 0.6 it was `fp16`, a bool.
    """
    kind = module.AcceleratorState
    original = kind.__init__
    _, name, *_ = inspect.signature(original).parameters

    @functools.wraps(original)
    def __init__(self: Any, *given: Any, **more: Any) -> None:
        asked, *rest = given or (more.pop(name, None),)
        if asked is None and not kind._shared_state:
            asked = os.environ.get("ACCELERATE_MIXED_PRECISION")
        if asked is True or str(getattr(asked, "value", asked)).lower() == "fp16":
            asked = False if asked is True else "no"
            missing_gpu.say_float32()
        original(self, asked, *rest, **more)

    kind.__init__ = __init__


def install_compiled(module: Any) -> None:
    """Patches transformers.training_args in a compiled job, whose XLA device would be a GPU on AWS."""
    device = os.environ.get("PJRT_DEVICE", "")
    original: Callable[[Any], str | None] | None = getattr(module, "get_xla_device_type", None)
    if original is not None and device in ("CUDA", *amp.WITHOUT_HALF):
        module.get_xla_device_type = lambda device: None if original(device) is None else "GPU"
    if device in amp.WITHOUT_HALF:
        kind = module.TrainingArguments
        kind.__post_init__ = _evaluated_in_bfloat16(kind.__post_init__)


def install_compiled_state(module: Any) -> None:
    """Patches accelerate.state in a compiled job, if this Accelerate refuses float16 on XLA. It computes in float32."""
    refuses = image.numbers(installed.version("accelerate") or "") < _ACCELERATE_TAKES
    if refuses and os.environ.get("PJRT_DEVICE") in amp.WITHOUT_HALF:
        install_state(module)


def _evaluated_in_bfloat16(original: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(original)
    def __post_init__(self: Any) -> None:
        if self.fp16_full_eval:
            self.fp16_full_eval, self.bf16_full_eval = False, True
            say_for_all(f"fp16_full_eval computes in bfloat16 {amp.WITHOUT_HALF[os.environ['PJRT_DEVICE']]}")
        original(self)

    return __post_init__


def _release() -> tuple[int, ...]:
    return image.numbers(installed.version("transformers") or "")


@contextmanager
def _hidden(arguments: Any, wanted: bool) -> Iterator[None]:
    """Hides the request for float16 in `arguments` while the body runs."""
    if not wanted or not arguments.fp16:
        yield
        return
    missing_gpu.say_float32()
    arguments.fp16 = False
    try:
        yield
    finally:
        arguments.fp16 = True


#: The module to patch once a script of a compiled job imports it.
MODULE = "transformers.training_args"
_STATE = "accelerate.state"
#: Modules that a script imports, and the patch of each in a native job and in a compiled one.
NATIVE = ((MODULE, install_arguments), ("transformers.trainer", install_trainer), (_STATE, install_state))
COMPILED = ((MODULE, install_compiled), (_STATE, install_compiled_state))
