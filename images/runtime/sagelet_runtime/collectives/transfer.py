"""Copies tensors between XLA's device and this host's memory."""

from collections.abc import Sequence
from typing import Any


def sync(device: Any) -> None:
    """Computes everything that is pending on `device`, and waits for it.

    It syncs every live tensor once, before any is read. Asking for the gradients only would compute the forward pass
    again for the loss.
    """
    import torch_xla

    torch_xla._XLAC._xla_sync_live_tensors(str(device), [], True)


def apply_views(tensors: Sequence[Any]) -> None:
    """Brings writes through views (DDP's buckets) into the graph that `sync` computes."""
    import torch

    for tensor in tensors:
        if torch._is_functional_tensor(tensor):
            torch._sync(tensor)


def to_host(tensors: Sequence[Any]) -> list[Any]:
    """Returns contiguous copies in host memory, to which nothing else refers."""
    import torch_xla

    on_device = [index for index, tensor in enumerate(tensors) if tensor.device.type == "xla"]
    read = iter(torch_xla._XLAC._xla_get_cpu_tensors([tensors[index] for index in on_device]) if on_device else ())
    return [next(read) if tensor.device.type == "xla" else tensor.detach().clone().contiguous() for tensor in tensors]


def to_device(tensors: Sequence[Any], device: Any) -> list[Any]:
    """Copies `tensors` to `device`. Do not write to `tensors` afterwards: XLA reads them in the background."""
    import torch_xla

    if device.type != "xla":
        return list(tensors)
    moved: list[Any] = torch_xla._XLAC._xla_tensors_from_aten(list(tensors), [str(device)] * len(tensors), None)
    return moved


def device_of(tensors: Sequence[Any]) -> Any:
    """Returns the device of all `tensors`. Raises ValueError if they are on different ones."""
    devices = {tensor.device for tensor in tensors}
    if len(devices) != 1:
        raise ValueError(f"the tensors of one collective are on several devices: {', '.join(map(str, devices))}")
    return devices.pop()
