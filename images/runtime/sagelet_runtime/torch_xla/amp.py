"""Automatic mixed precision on PJRT's CPU client, and the GradScaler that torch_xla 2.9 dropped (pytorch/xla #9608)."""

from __future__ import annotations

import os
from typing import Any

from sagelet_runtime.base.say import say_for_all
from sagelet_runtime.base.wire import StateDict

#: Devices on which float16 becomes bfloat16, and why. XLA's CPU code multiplies float16 matrices at 0.5 GFLOP/s, and
#: bfloat16 ones at 160. XLAGPU is the renamed GPU of torch_xla 2.9, which has no GradScaler for float16.
WITHOUT_HALF = {
    "CPU": "on XLA's CPU device, where float16 is 250 times slower",
    "CPU_PLUGIN": "on XLA's CPU device, where float16 is slow",
    "XLAGPU": "on this GPU plugin, as torch_xla 2.9 has no gradient scaling",
}


def install(_torch_xla: Any) -> None:
    import torch
    from torch_xla import amp

    if not hasattr(amp, "GradScaler"):
        amp.GradScaler = _disabled_scaler(torch)
    kind = os.environ.get("PJRT_DEVICE", "")
    if kind in WITHOUT_HALF:
        _map_half_to_bfloat16(torch, WITHOUT_HALF[kind])
        _turn_scaling_off(torch)
        _enable_autocast(torch, amp)


def _disabled_scaler(torch: Any) -> Any:
    class GradScaler(torch.amp.GradScaler):  # type: ignore[misc]
        """Passes losses and steps through. bfloat16 has float32's range, so nothing needs scaling."""

        def __init__(self, *_args: Any, **_settings: Any) -> None:
            super().__init__(device="cpu", enabled=False)

    return GradScaler


def _map_half_to_bfloat16(torch: Any, why: str) -> None:
    base = torch.amp.autocast_mode.autocast
    original = base.__init__

    def init(
        self: Any, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if device_type == "cuda":
            # Transformers up to 4.30 and scripts of that time ask for CUDA. On AWS's GPUs that covers XLA tensors, too.
            device_type, dtype = "xla", dtype or torch.float16
        if device_type == "xla" and dtype == torch.float16:
            dtype = torch.bfloat16
            if enabled:
                say_for_all(f"autocast to float16 computes in bfloat16 {why}; nothing is scaled")
        original(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    base.__init__ = init


def _turn_scaling_off(torch: Any) -> None:
    """Turns a GradScaler off when it meets XLA tensors.

    Where torch_xla is installed, torch's own scaler is on without a GPU (Accelerate makes one for fp16=True). It would
    read a value back from the device in every step.
    """
    base = torch.amp.GradScaler
    original = base.scale

    def scale(self: Any, outputs: Any) -> Any:
        if self._enabled and isinstance(outputs, torch.Tensor) and outputs.device.type == "xla":
            # bfloat16 has float32's range. The line about autocast says that nothing is scaled.
            self._enabled = False
        return original(self, outputs)

    base.scale = scale
    base.load_state_dict = _accepting_nothing(base.load_state_dict)


def _accepting_nothing(original: Any) -> Any:
    """Wraps load_state_dict: a scaler that was off saved an empty state, and a resumed job's scaler is still on."""

    def load_state_dict(self: Any, state_dict: StateDict) -> None:
        if not state_dict:
            self._enabled = False
        original(self, state_dict)

    return load_state_dict


def _enable_autocast(torch: Any, amp: Any) -> None:
    """Replaces torch_xla.amp.autocast, which does nothing off TPUs and leaves an object that fails when entered."""
    from torch_xla.amp import autocast_mode

    plain = torch.amp.autocast_mode.autocast

    class autocast(autocast_mode.autocast):  # type: ignore[misc]
        def __init__(self, device: Any, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
            if "xla" not in str(device):
                raise ValueError(f"torch_xla.amp.autocast is for XLA devices, not {device}; use torch.autocast")
            plain.__init__(self, "xla", dtype=dtype or torch.bfloat16, enabled=enabled, cache_enabled=cache_enabled)

        # torch_xla 2.8's own methods use a device that only its own __init__ sets.
        __enter__, __exit__ = plain.__enter__, plain.__exit__

    amp.autocast = autocast_mode.autocast = autocast
