"""torch_xla.utils: helpers that scripts for torch_xla use."""

from . import serialization, utils

__all__ = ["serialization", "utils"]
