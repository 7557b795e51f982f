"""torch_xla.amp: `uncompiled` puts `autocast` and `GradScaler` here."""

from . import syncfree

__all__ = ["syncfree"]
