"""torch.distributed's backend 'xla': tensors on XLA, exchanged over gloo."""

import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from sagelet_runtime.collectives.joined import World


def install(world: World) -> None:
    """Replaces torch_xla's `init_process_group('xla')` and its init methods `xla://` and `pjrt://`."""
    import torch.distributed as dist
    from torch_xla.distributed import xla_backend

    from sagelet_runtime.collectives.gloo_group import GlooXlaProcessGroup

    def make(store: Any, rank: int, size: int, timeout: timedelta) -> GlooXlaProcessGroup:
        return GlooXlaProcessGroup(world, store, rank, size, timeout)

    # torch_xla has registered its own backend by now, and torch 2.1 refuses a second one of the same name.
    dist.Backend._plugins.pop("XLA", None)
    if hasattr(dist.Backend, "XLA"):
        del dist.Backend.XLA
    dist.Backend.register_backend("xla", make, devices=["xla"])
    xla_backend._create_xla_process_group = make

    def rendezvous(_url: str, **_settings: Any) -> Iterator[tuple[Any, int, int]]:
        world.group()
        yield dist.PrefixStore("c10d", world.store), world.layout.rank, world.layout.size

    handlers = sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers
    handlers["xla"] = handlers["pjrt"] = rendezvous
