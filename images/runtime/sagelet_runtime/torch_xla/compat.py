"""Restores what scripts for torch_xla 1.x call and torch_xla 2.9 has removed or changed.

Removed upstream: xrt_world_size, get_ordinal, parse_xla_device (pytorch/xla #8927), xr.using_pjrt, and the rendezvous
at the end of xm.save (#4926). Broken since torch.load became strict: xm.mesh_reduce of anything but tensors and plain
numbers.
"""

import functools
import io
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

from sagelet_runtime.base import image

#: The tag of xm.save's rendezvous in torch_xla 1.5 to 2.0. Scripts for 2.1 and later use it for their own rendezvous.
SAVE_TAG = "torch_xla.core.xla_model.save"
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


def install(_torch_xla: Any) -> None:
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr
    from torch_xla.distributed.parallel_loader import MpDeviceLoader

    def xrt_world_size(defval: int = 1) -> int:  # noqa: ARG001 - part of the name's contract
        return int(xr.world_size())

    def get_ordinal(defval: int = 0) -> int:  # noqa: ARG001 - part of the name's contract
        return int(xr.global_ordinal())

    def parse_xla_device(device: str) -> Any:
        from torch_xla._internal import utils

        return utils.parse_xla_device(device)

    removed = {"xrt_world_size": xrt_world_size, "get_ordinal": get_ordinal, "parse_xla_device": parse_xla_device}
    for name, function in removed.items():
        if not hasattr(xm, name):
            setattr(xm, name, function)
    if not hasattr(xr, "using_pjrt"):
        xr.using_pjrt = lambda: True
    xm.mesh_reduce = mesh_reduce
    # The Trainer computes its throughput from `dataset`. Without it, only the samples of one worker count.
    if not hasattr(MpDeviceLoader, "dataset"):
        MpDeviceLoader.dataset = property(lambda loader: loader._loader.dataset)
    xm.save = meeting_save(xm.save, os.environ)
    # mark_step and xla_device still work. One warning a step would bury the script's own lines.
    warnings.filterwarnings("ignore", message=r"Use torch_xla\.(sync|device) instead", category=DeprecationWarning)


def mesh_reduce(tag: str, data: Any, reduce_fn: Callable[[list[Any]], Any]) -> Any:
    """Calls `reduce_fn` with every worker's `data`. Any objects will do, such as NumPy's. Tensors arrive on the CPU."""
    import torch
    import torch_xla
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    buffer = io.BytesIO()
    torch.save(xm._maybe_convert_to_cpu(data), buffer)
    payload = buffer.getvalue()
    if xr.world_size() > 1:
        seen = xm.rendezvous(tag, payload)
    else:
        # This equals a rendezvous of one worker. torch_xla's own compiles a program for each length of the payload.
        torch_xla.sync()
        seen = [payload]
    return reduce_fn([torch.load(io.BytesIO(other), weights_only=False) for other in seen])


def meeting_save(original: Callable[..., None], environ: Mapping[str, str]) -> Callable[..., None]:
    """Returns an xm.save that waits until all workers have saved, if the one in the job's image did so.

    Scripts for that torch_xla read the file right after it. A call from an installed library does not wait: the library
    is made for the current torch_xla and may call xm.save in one worker only.
    """
    if not waits_for_all(environ):
        return original

    @functools.wraps(original)
    def save(data: Any, file_or_path: Any, master_only: bool = True, global_master: bool = False) -> None:
        import torch_xla.core.xla_model as xm
        import torch_xla.runtime as xr

        original(data, file_or_path, master_only, global_master)
        if xr.world_size() > 1 and not is_librarys(sys._getframe(1).f_code):
            xm.rendezvous(SAVE_TAG)

    return save


def waits_for_all(environ: Mapping[str, str]) -> bool:
    """True if the job's image had PyTorch 1.x, and so a torch_xla whose xm.save ended with a rendezvous."""
    return image.versions_of(environ.get("SAGELET_TRAINING_IMAGE", "")).get("torch", "").startswith("1.")


def is_librarys(code: CodeType) -> bool:
    """True if the code is an installed package's, not the script's."""
    return any(directory in code.co_filename for directory in _PACKAGES)
