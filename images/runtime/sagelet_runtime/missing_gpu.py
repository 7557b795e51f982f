"""A job whose instance type has GPUs, on a host that has none: its CPUs stand in for them.

AWS's GPUs run what a CPU refuses. What the script asks for and cannot have here is said, once, and with the remedy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from sagelet_runtime import uncompiled
from sagelet_runtime.say import say_for_all
from sagelet_runtime.workers.world import gpus_of

#: The instance type whose GPUs are stood in for.
VARIABLE = "SAGELET_STANDS_IN_FOR"


def environment(instance_type: str, environ: Mapping[str, str], gpus: int) -> dict[str, str]:
    """The variable, where the instance type has GPUs and this host has `gpus`: none."""
    return {} if gpus or not gpus_of(instance_type, environ, 0) else {VARIABLE: instance_type}


def is_compiled(environ: Mapping[str, str]) -> bool:
    """Whether torch_xla trains in this process, if the script asks it to."""
    return environ.get("SM_TRAINING_COMPILER_CONFIGURED") == "1" and uncompiled.NOT_COMPILED not in environ


def activate() -> None:
    """Installs the hooks in this process."""
    from sagelet_runtime import hook
    from sagelet_runtime.hugging_face import half

    hook.after("torch", install)
    for name, patch in () if is_compiled(os.environ) else half.NATIVE:
        hook.after(name, patch)


def install(torch: Any) -> None:
    """Patches torch. Its own words for a missing GPU are `Found no NVIDIA driver` and the advice to install one."""
    torch.cuda._lazy_init = explained(torch.cuda._lazy_init, without_gpu(os.environ))
    if not is_compiled(os.environ):
        _autocast_in_float32(torch)


def explained(original: Callable[[], None], text: str) -> Callable[[], None]:
    """CUDA's initialization, which all that asks for a GPU comes to. Its error is of the same class as ever."""

    def _lazy_init() -> None:
        try:
            original()
        except (AssertionError, RuntimeError) as error:
            raise type(error)(text) from None

    return _lazy_init


def without_gpu(environ: Mapping[str, str]) -> str:
    what = f"This host has no GPU: its CPUs stand in for {environ[VARIABLE]}, and there is no CUDA device. "
    machine = "or run the job on a machine with an NVIDIA GPU"
    if is_compiled(environ):
        return f"{what}In a compiled job use xm.xla_device() in the place of 'cuda', {machine}."
    choice = "torch.device('cuda' if torch.cuda.is_available() else 'cpu')"
    return f"{what}Use {choice} in the place of 'cuda', {machine}."


def say_float32() -> None:
    """Of a native job that asks for float16."""
    say_for_all(f"float16 is computed in float32: this host's CPUs stand in for {os.environ.get(VARIABLE, 'GPUs')}")


def _autocast_in_float32(torch: Any) -> None:
    """torch warns of CUDA autocast without CUDA, and turns it off."""
    base = torch.amp.autocast_mode.autocast
    original = base.__init__

    def __init__(
        self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if device_type == "cuda" and enabled:
            enabled = False
            say_float32()
        original(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    base.__init__ = __init__
