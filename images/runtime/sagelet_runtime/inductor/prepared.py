"""What Inductor needs once for each image, torch, C++ compiler and processor, made before any job runs.

Each program includes one large C++ header, which is most of what a small program takes to compile. Compiled by itself
the header takes 120 MB. Each trial of vector instructions imports torch in another Python. Torch would keep both where
any job can write. `sagelet install-torch` and `sagelet image build` run
`python -m sagelet_runtime.inductor.prepared`, which puts both beside torch, and no job writes there.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib import util
from pathlib import Path
from typing import Any

from sagelet_runtime.inductor import cache, vector_units

#: Beside torch's directory: a directory for each kind of processor.
BESIDE_TORCH = "sagelet_inductor"
#: In a processor's directory.
HEADERS, VECTOR_UNITS = "headers", vector_units.PASSED
#: Also there: what the C++ compiler said of itself when it compiled the headers.
COMPILER = "compiler"
#: Beside these directories: who holds its lock prepares.
LOCK = ".lock"
#: g++ looks for this beside a header that it includes first.
COMPILED = ".gch"
#: Of what torch says of a compiler that fails: its output follows, hundreds of lines.
MOST_CHARACTERS = 300


def directory() -> Path | None:
    """Returns where this processor's files are, or would be. None without torch."""
    spec = util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent.with_name(BESIDE_TORCH) / cache.processor()


def header_name(header: str, command_line: str, options: Mapping[str, Any], compiler: str) -> str:
    """Returns the name of a header's file, which depends on all that decides whether g++ can use it."""
    facts = [header, command_line, compiler, *(f"{name}={value}" for name, value in sorted(options.items()))]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest() + ".h"


def _compiler_version(module: Any, options: Mapping[str, Any]) -> str:
    compiler = module.CppTorchDeviceOptions(**options, precompiling=True).get_compiler()
    return str(module.get_compiler_version_info(compiler))


def install_trials(module: Any) -> None:
    """Patches the trials of vector instructions: those that were passed here are not done again."""
    prepared = directory()
    vector_units.install(module, None if prepared is None else prepared / VECTOR_UNITS)


def install_headers(module: Any) -> None:
    """Patches torch's look for a precompiled header: one that is prepared is taken as it is.

    Torch runs the C++ compiler's preprocessor in each process to see whether a header is current. These were made with
    this torch by this compiler, which is in their names.
    """
    cache.install(module)
    prepared = directory()
    if not hasattr(module, "_precompile_header") or prepared is None or not (prepared / HEADERS).is_dir():
        return
    original = module._precompile_header

    @functools.cache
    def precompile_header(header: str, hashable_cmd_line: str, **options: Any) -> Any:
        compiler = _compiler_version(module, options)
        file = prepared / HEADERS / header_name(header, hashable_cmd_line, options, compiler)
        if Path(f"{file}{COMPILED}").is_file():
            return str(file)
        return original(header, hashable_cmd_line, **options)

    module._precompile_header = precompile_header


def prepare(target: Path) -> int:
    """Compiles a small program with Inductor and keeps what it took. Returns bytes. Raises what torch raises."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{target.name}-", dir=target.parent) as name:
        draft, own = Path(name, "draft"), Path(name, "inductor")
        for part in (HEADERS, VECTOR_UNITS):
            (draft / part).mkdir(parents=True)
        os.environ[cache.DIRECTORY] = str(own)
        _compile_a_program(draft / HEADERS)
        passed = own / VECTOR_UNITS
        if passed.is_dir():
            shutil.copytree(passed, draft / VECTOR_UNITS, dirs_exist_ok=True)
        (draft / COMPILER).write_text(_compiler())
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
    return sum(file.stat().st_size for file in target.rglob("*") if file.is_file())


def _compile_a_program(headers: Path) -> None:
    import torch
    import torch._inductor.codecache as module
    import torch._inductor.cpu_vec_isa as isa

    cache.install(module)
    original = module._precompile_header

    def kept(header: str, hashable_cmd_line: str, **options: Any) -> Any:
        made = original(header, hashable_cmd_line, **options)
        compiler = _compiler_version(module, options)
        file = headers / header_name(header, hashable_cmd_line, options, compiler)
        for suffix in ("", COMPILED):
            shutil.copy(f"{made}{suffix}", f"{file}{suffix}")
        return made

    module._precompile_header = functools.cache(kept)
    vector_units.install(isa)
    torch.compile(lambda x: torch.tanh(x) + 1)(torch.ones(64))


def unfit() -> str:
    """Returns why nothing can be prepared here. Empty if it can."""
    spec = util.find_spec("torch")
    if spec is None or spec.origin is None:
        return "torch is not installed"
    if "_precompile_header" not in Path(spec.origin).with_name("_inductor").joinpath("codecache.py").read_text():
        return "this torch precompiles no header"
    lacking = [name for name in ("g++", "openssl") if shutil.which(name) is None]
    return f"{' and '.join(lacking)} not installed" if lacking else ""


def _compiler() -> str:
    return subprocess.run(["g++", "--version"], stdout=subprocess.PIPE, check=True).stdout.decode(errors="replace")


def _is_current(target: Path) -> bool:
    """Returns whether this compiler's headers are there. Jobs take no other's."""
    file = target / COMPILER
    return file.is_file() and file.read_text() == _compiler()


def prepare_once(target: Path) -> str:
    """Prepares what is not there yet, while nobody else does. Returns what it did. Raises what torch raises."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_current(target):
            return f"Inductor's header is there: {target}"
        for draft in target.parent.glob(f"{target.name}-*"):
            shutil.rmtree(draft)  # Of a preparation that was killed.
        print("Inductor's header: 120 MB, half a minute", flush=True)
        began = time.monotonic()
        size = prepare(target)
        return f"{target}: {size / 1e6:.0f} MB, {time.monotonic() - began:.0f} s"


def main() -> int:
    """Prepares what is not there yet, and says what it did. Where it cannot, a job does it for itself: XLA and native
    jobs need none of it, so no installation fails by it.
    """
    target = directory()
    why = unfit()
    if target is not None and not why:
        try:
            print(prepare_once(target))
        except Exception as error:
            why = f"{type(error).__name__}: {' '.join(str(error).split())[:MOST_CHARACTERS]}"
    if why:
        print(f"Inductor's first job will compile its own header: {why}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
