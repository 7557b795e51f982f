"""Makes this process a worker of its world, where the launcher started several and PJRT's device is the CPU."""

import os
from typing import Any

from sagelet_runtime.world.layout import read_layout


def install(torch_xla: Any) -> None:
    """Raises what makes a worker train alone: variables that do not fit, a torch_xla that does not."""
    layout = read_layout(os.environ)
    if layout is None or os.environ.get("PJRT_DEVICE") != "CPU":
        return
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    from sagelet_runtime.world import ddp, identity, process_group, refusals
    from sagelet_runtime.world.calls import Calls
    from sagelet_runtime.world.joined import World

    world = World(layout)
    identity.install(xr, layout)
    refusals.install(torch_xla)
    calls = Calls(world)
    for name in (
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "all_to_all",
        "collective_permute",
        "collective_broadcast",
        "xla_rendezvous",
        "rendezvous",
    ):
        # A name that this torch_xla has not would be a patch of nothing.
        getattr(xm, name)
        setattr(xm, name, getattr(calls, name))
    process_group.install(world)
    ddp.install()
