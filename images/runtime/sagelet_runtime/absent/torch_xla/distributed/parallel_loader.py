"""torch_xla.distributed.parallel_loader: `uncompiled` puts MpDeviceLoader and ParallelLoader here."""

from ..core.missing import missing

__getattr__ = missing("torch_xla.distributed.parallel_loader")
