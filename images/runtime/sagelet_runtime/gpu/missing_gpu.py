"""For jobs whose instance type has GPUs on a host without any: its CPUs stand in for them.

AWS's GPUs run what a CPU refuses. What the script asks for and cannot have here is printed once, with the remedy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from sagelet_runtime.base.say import say, say_for_all
from sagelet_runtime.base.variables import CONFIGURED, is_on_xla
from sagelet_runtime.base.world import gpus_of

#: The instance type for whose GPUs the CPUs stand in.
VARIABLE = "SAGELET_STANDS_IN_FOR"


def environment(instance_type: str, environ: Mapping[str, str], gpus: int) -> dict[str, str]:
    """Returns the variable if the instance type has GPUs and `gpus`, the number of this host's, is 0. Else empty."""
    return {} if gpus or not gpus_of(instance_type, environ, 0) else {VARIABLE: instance_type}


def say_unused(gpus: int, has_cuda: bool) -> None:
    """Prints that a host has GPUs and a torch that cannot use them, and what to do."""
    if gpus and not has_cuda:
        say(
            "torch is installed without CUDA here, so native code cannot use this host's GPUs. `sagelet image build "
            "--torch-build cuda` makes the image with it, `--variant cu13` the one for compiled code, too; in the "
            "process runtime it is `sagelet install-torch --torch-build cuda`"
        )


def is_compiled(environ: Mapping[str, str]) -> bool:
    """True if torch_xla trains in this process when the script asks it to."""
    return environ.get(CONFIGURED) == "1" and is_on_xla(environ)


def install(torch: Any) -> None:
    """Patches torch. Without a GPU, torch itself says `Found no NVIDIA driver` and advises to install one."""
    torch.cuda._lazy_init = explained(torch.cuda._lazy_init, without_gpu(os.environ))
    if not is_compiled(os.environ):
        _autocast_in_float32(torch)


def explained(original: Callable[[], None], text: str) -> Callable[[], None]:
    """Wraps CUDA's initialization, which every request for a GPU reaches. The class of its error stays the same."""

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
    """Prints that a native job that asks for float16 computes in float32."""
    say_for_all(f"float16 is computed in float32: this host's CPUs stand in for {os.environ.get(VARIABLE, 'GPUs')}")


def _autocast_in_float32(torch: Any) -> None:
    """Patches CUDA autocast. Without CUDA, torch warns of it and turns it off."""
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
