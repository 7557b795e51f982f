"""Makes this process one of several workers, if the launcher started several and PJRT's device is the CPU."""

import os
from typing import Any

from sagelet_runtime.base.variables import on_cpu
from sagelet_runtime.collectives.layout import read_layout


def install(torch_xla: Any) -> None:
    """Patches torch_xla. Raises an error if the variables or this torch_xla do not fit: a worker would train alone."""
    layout = read_layout(os.environ)
    if layout is None or not on_cpu(os.environ):
        return
    import torch_xla.core.xla_model as xm
    import torch_xla.runtime as xr

    from sagelet_runtime.collectives import ddp, identity, process_group, refusals
    from sagelet_runtime.collectives.calls import Calls
    from sagelet_runtime.collectives.joined import World

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
        # Fails if this torch_xla lacks the name: the patch would have no effect.
        getattr(xm, name)
        setattr(xm, name, getattr(calls, name))
    process_group.install(world)
    ddp.install()
