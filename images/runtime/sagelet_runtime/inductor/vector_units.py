"""Keeps which vector instructions Inductor's programs can use here, so that only the first job has to try.

Torch compiles a small program for each set of them, and loads it in another Python, which imports torch. It keeps the
program, and yet loads it again in each process that compiles: a second or two for each set.
"""

from __future__ import annotations

import functools
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from sagelet_runtime.inductor import cache

MODULE = "torch._inductor.cpu_vec_isa"
#: In Inductor's directory: a file for each trial that was passed.
PASSED = "vector_units"


def install(module: Any, prepared: Path | None = None) -> None:
    """Patches the trial. A trial that failed is not kept: what it lacked may be there for the next job.

    `prepared`: a directory of trials that were passed before any job ran.
    """
    off = any(os.environ.get(name) == value for name, value in cache.SWITCHES.items())
    if off or not hasattr(module, "_get_isa_dry_compile_fingerprint"):
        return
    original = module.VecISA.check_build
    directory = Path(os.environ[cache.DIRECTORY], PASSED)

    @functools.wraps(original)
    def check_build(self: Any, code: str) -> bool:
        # It names the compiler and torch. The user's own directory may be shared by machines.
        facts = [module._get_isa_dry_compile_fingerprint(self._arch_flags), str(self), code, cache.processor()]
        file = directory / hashlib.sha256("\n".join(facts).encode()).hexdigest()
        # Path.exists raises if the directory is another user's.
        if os.path.exists(file) or (prepared is not None and os.path.exists(prepared / file.name)):
            return True
        passed = bool(original(self, code))
        # Where the disk is full, read-only or another user's, the next job tries again.
        with suppress(OSError):
            if passed:
                directory.mkdir(parents=True, exist_ok=True)
                file.write_text(str(self))
        return passed

    module.VecISA.check_build = check_build
