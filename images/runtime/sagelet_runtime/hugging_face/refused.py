"""What Accelerate does natively and refuses on XLA: gathering objects, and loading in the first worker only."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from sagelet_runtime.base.say import say_for_all

_TAG = "accelerate.utils.gather_object"


def install_objects(operations: Any) -> None:
    """Patches `gather_object` of accelerate.utils.operations. gather_for_metrics calls it for all but tensors.

    Accelerate says "gather objects in TPU is not supported". torch_xla exchanges objects at a rendezvous.
    """
    original = operations.gather_object

    @functools.wraps(original)
    def gather_object(object: Any) -> Any:
        try:
            return original(object)
        except NotImplementedError:
            return _gathered(object)

    operations.gather_object = gather_object


def _gathered(object: Any) -> Any:
    """Returns what Accelerate returns natively: the workers' lists in one list, or one worker's object itself."""
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    if xr.world_size() == 1:
        return object
    return [one for part in xm.mesh_reduce(_TAG, object, list) for one in part]


def install_dispatching(data_loader: Any) -> None:
    """Patches prepare_data_loader of accelerate.data_loader. On XLA it refuses `dispatch_batches=True`.

    With it the first worker loads and sends each worker its part. Without it each worker loads its own part. That has
    the same samples, except those that fill up a ragged last batch.
    """
    original = data_loader.prepare_data_loader
    signature = inspect.signature(original)
    if "dispatch_batches" not in signature.parameters:
        return

    @functools.wraps(original)
    def prepare_data_loader(*args: Any, **settings: Any) -> Any:
        asked = signature.bind(*args, **settings)
        if asked.arguments.get("dispatch_batches") and not asked.arguments.get("put_on_device"):
            asked.arguments["dispatch_batches"] = False
            say_for_all("dispatch_batches=True: XLA devices have no such loader, so each worker loads its own part")
        return original(*asked.args, **asked.kwargs)

    data_loader.prepare_data_loader = prepare_data_loader


#: Modules that a script of a compiled job imports, and the patch of each.
PATCHES = (("accelerate.utils.operations", install_objects), ("accelerate.data_loader", install_dispatching))
