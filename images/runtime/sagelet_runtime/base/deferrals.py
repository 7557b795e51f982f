"""What torch_xla and Transformers import in every job though few jobs use it.

torch_xla imports AOTAutograd for its GRU, and its bridge to Dynamo, with Inductor, for the export to StableHLO.
Transformers imports SciPy and scikit-learn for one function each.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module

from sagelet_runtime.base.deferred import Finder, resolve
from sagelet_runtime.base.import_hook import after

BRIDGE = "dynamo_bridge"
_PACKAGE = "torch_xla._dynamo"
_ASSIGNMENT = {"scipy.optimize": ("linear_sum_assignment",)}
_TRANSFORMERS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "transformers.generation.candidate_generator": {"sklearn.metrics": ("roc_curve",)},
    "transformers.loss.loss_for_object_detection": _ASSIGNMENT,
    "transformers.loss.loss_deformable_detr": _ASSIGNMENT,
    "transformers.loss.loss_grounding_dino": _ASSIGNMENT,
    "transformers.loss.loss_rt_detr": _ASSIGNMENT,
}
_TORCH_XLA: Mapping[str, Mapping[str, Sequence[str]]] = {
    "torch_xla.experimental.scan": {"functorch.compile": ("aot_function", "default_partition", "make_boxed_func")},
    "torch_xla.stablehlo": {_PACKAGE: (BRIDGE,)},
}


def activate() -> None:
    """Defers what Transformers imports."""
    sys.meta_path.insert(0, Finder(_TRANSFORMERS))


def activate_torch_xla() -> None:
    """Defers what torch_xla imports. Not for jobs that Dynamo traces: they need all of it."""
    sys.meta_path.insert(0, Finder(_TORCH_XLA))
    after("torch_xla", _keep_the_bridge)


def _keep_the_bridge(_torch_xla: object) -> None:
    """Lets scripts find the bridge where `import torch_xla` would have put it."""
    package = resolve("torch_xla", "_dynamo")

    def __getattr__(name: str) -> object:
        if name != BRIDGE:
            raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")
        return import_module("torch_xla._dynamo.dynamo_bridge")

    package.__getattr__ = __getattr__
