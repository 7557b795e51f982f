"""Makes `torch_xla.runtime` report this worker's rank and world from the launcher's variables."""

from __future__ import annotations

import os
from typing import Any

from sagelet_runtime.collectives.layout import Layout


def install(runtime: Any, layout: Layout) -> None:
    """Patches `runtime`, the module `torch_xla.runtime`. xm's get_local_ordinal and is_master_ordinal call it."""
    # The functions return these two values first, and Dynamo reads them without breaking the graph.
    runtime._WORLD_SIZE, runtime._ORDINAL = layout.size, layout.rank
    answers: dict[str, int | str] = {
        "world_size": layout.size,
        "global_ordinal": layout.rank,
        "local_ordinal": layout.local_rank,
        "local_process_count": layout.local_size,
        "local_device_count": layout.local_size,
        "global_device_count": layout.size,
        "global_runtime_device_count": layout.size,
        "process_index": layout.rank,
        "process_count": layout.size,
        "host_index": layout.host,
        "get_master_ip": layout.address,
    }
    for name, answer in answers.items():
        setattr(runtime, name, _constant(name, answer))
    # These decide which worker of a host writes torch_xla's debug files.
    os.environ.setdefault("PJRT_LOCAL_PROCESS_RANK", str(layout.local_rank))
    os.environ.setdefault("PJRT_LOCAL_PROCESS_COUNT", str(layout.local_size))


def _constant(name: str, answer: int | str) -> Any:
    def ask() -> int | str:
        return answer

    ask.__name__ = ask.__qualname__ = name
    return ask
