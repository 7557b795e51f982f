"""Automatic mixed precision on PJRT's CPU client, and the GradScaler that torch_xla 2.9 dropped (pytorch/xla #9608)."""

from __future__ import annotations

import os
from typing import Any

from sagelet_runtime.say import say_for_all

#: Devices on which float16 becomes bfloat16. XLA's CPU code multiplies float16 matrices at 0.5 GFLOP/s, bfloat16 ones
#: at 160; the renamed GPU is torch_xla 2.9's, which has no GradScaler for float16.
WITHOUT_HALF = {
    "CPU": "on XLA's CPU device, where float16 is 250 times slower",
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
        """Passes losses and steps through: bfloat16 has float32's range, so there is nothing to scale."""

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
            # Transformers up to 4.30 and scripts of then: on AWS's GPUs it is of XLA's tensors, too.
            device_type, dtype = "xla", dtype or torch.float16
        if device_type == "xla" and dtype == torch.float16:
            dtype = torch.bfloat16
            if enabled:
                say_for_all(f"autocast to float16 computes in bfloat16 {why}; nothing is scaled")
        original(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    base.__init__ = init


def _turn_scaling_off(torch: Any) -> None:
    """A GradScaler that meets XLA tensors lets them through.

    Where torch_xla is installed torch's own scaler is on without a GPU (Accelerate makes one for fp16=True), and
    it would read a value back from the device in every step.
    """
    base = torch.amp.GradScaler
    original = base.scale

    def scale(self: Any, outputs: Any) -> Any:
        if self._enabled and isinstance(outputs, torch.Tensor) and outputs.device.type == "xla":
            # bfloat16 has float32's range. The line about autocast says it.
            self._enabled = False
        return original(self, outputs)

    base.scale = scale
    base.load_state_dict = _accepting_nothing(base.load_state_dict)


def _accepting_nothing(original: Any) -> Any:
    """A scaler that was off saved an empty state; a resumed job hands it to a scaler that is not off yet."""

    def load_state_dict(self: Any, state_dict: dict[str, Any]) -> None:
        if not state_dict:
            self._enabled = False
        original(self, state_dict)

    return load_state_dict


def _enable_autocast(torch: Any, amp: Any) -> None:
    """torch_xla.amp.autocast does nothing off TPUs, and leaves an object that fails when it is entered."""
    from torch_xla.amp import autocast_mode

    plain = torch.amp.autocast_mode.autocast

    class autocast(autocast_mode.autocast):  # type: ignore[misc]
        def __init__(self, device: Any, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
            if "xla" not in str(device):
                raise ValueError(f"torch_xla.amp.autocast is for XLA devices, not {device}; use torch.autocast")
            plain.__init__(self, "xla", dtype=dtype or torch.bfloat16, enabled=enabled, cache_enabled=cache_enabled)

        # 2.8's own ask for a device that only its __init__ looks up.
        __enter__, __exit__ = plain.__enter__, plain.__exit__

    amp.autocast = autocast_mode.autocast = autocast
