"""`DistributedDataParallel` of the library's first version: torch's own."""

from torch.nn.parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
