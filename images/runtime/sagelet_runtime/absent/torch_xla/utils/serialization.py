"""torch_xla.utils.serialization: one file, in place of one for each tensor."""

from __future__ import annotations

from typing import Any

import torch

from ..core import xla_model as xm


def save(data: Any, path: Any, master_only: bool = True, global_master: bool = False) -> None:
    vars(xm)["save"](data, path, master_only, global_master)


def load(path: Any) -> Any:
    return torch.load(path, weights_only=False)
