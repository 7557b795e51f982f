"""Inductor's cache directory: where it is, what may be shared in it, and what it did for this worker.

The engine lays files from earlier jobs there and keeps the new ones (emulator, compile_cache/inductor.py).
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagelet_runtime.base import installed
from sagelet_runtime.base.variables import COMPILE_CACHE
from sagelet_runtime.base.wire import JsonObject

MODULE = "torch._inductor.codecache"
DIRECTORY = "TORCHINDUCTOR_CACHE_DIR"
#: In the directory that the engine gives: the directories of Inductor, one for each kind of processor.
SHARED = "inductor"
#: The directory of a job that was given none.
ALONE = "inductor-alone"
#: Torch's switches that turn Inductor's cache off, with that value.
SWITCHES = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TORCHINDUCTOR_FX_GRAPH_CACHE": "0"}
NONE_REASON = "no cache was given to this job"


def environment(environ: Mapping[str, str], base: str) -> dict[str, str]:
    """Returns the variable with Inductor's directory. Empty if the user chose one. `base`: /opt/ml.

    Torch's default is a directory of the machine, which other jobs on it would write to.
    """
    if environ.get(DIRECTORY):
        return {}
    given = environ.get(COMPILE_CACHE)
    own = os.path.join(given, SHARED, processor()) if given else os.path.join(base, "sagelet", ALONE)
    return {DIRECTORY: own}


def processor(info: Path = Path("/proc/cpuinfo")) -> str:
    """Returns 16 hexadecimal digits for what machine code depends on: processor, Python, torch.

    Inductor compiles for the processor that it runs on, and its own keys do not name it.
    """
    facts = [platform.machine(), sys.implementation.cache_tag, installed.torch_version() or ""]
    try:
        lines = info.read_text().splitlines()
    except OSError:
        lines = []
    for name in ("model name", "flags", "Features", "CPU part"):
        facts += [line for line in lines if line.partition(":")[0].strip() == name][:1]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def install(module: Any) -> None:
    """Patches what Inductor does about precompiled C++ headers. Torch's own are shared by all jobs of a machine.

    Inductor looks whether its header is current before it looks for compiled code. That takes two runs of the C++
    compiler in each process. So a job that has code of earlier jobs precompiles none. Torch takes the checksum of a
    header with the program openssl.
    """
    if not hasattr(module, "_HEADER_DIR"):
        return
    own = Path(os.environ[DIRECTORY])
    if shutil.which("openssl") is None or next(own.glob("*/*.so"), None) is not None:
        module._precompile_header = _no_header
    module._HEADER_DIR = str(own / "precompiled_headers")
    module._HEADER_LOCK_DIR = str(own / "precompiled_headers" / "locks")


def _no_header(*_header: Any, **_options: Any) -> None:
    """Returns no header, so that the C++ compiler reads the ordinary one."""


def figures(environ: Mapping[str, str], counters: Mapping[str, Any]) -> JsonObject:
    """Returns the report's `cache`. `counters`: Dynamo's, by group."""
    found = counters.get("inductor", {})
    off = [name for name, value in SWITCHES.items() if environ.get(name) == value]
    reason = f"{off[0]} is {environ[off[0]]}" if off else ""
    if not reason and os.path.basename(environ.get(DIRECTORY, "")) == ALONE:
        reason = NONE_REASON
    misses = found.get("fxgraph_cache_miss", 0) + found.get("fxgraph_cache_bypass", 0)
    hits = found.get("fxgraph_cache_hit", 0)
    return {"enabled": not reason, "reason": reason, "hits": hits, "misses": misses}
