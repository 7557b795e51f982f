"""Builds and reads the library in front of a PJRT plugin (`pjrt_front.c` says why), with a C compiler and ctypes.

`python -m sagelet_runtime.gpu.pjrt_front` builds it beside this file. The build of a GPU variant of the image calls it.
"""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("pjrt_front.c")
#: Not pjrt_front.so, because Python would take that for this module.
BUILT_IN = SOURCE.with_name("libpjrt_front.so")
COMPILERS = ("cc", "gcc", "clang")
#: Seconds for the compiler.
TIMEOUT_S = 60


class FrontUnavailable(Exception):
    """The library is missing and cannot be built. The message says why."""


class Status(ctypes.Structure):
    """`Status` of pjrt_front.c."""

    _fields_ = [
        ("hits", ctypes.c_int64),
        ("misses", ctypes.c_int64),
        ("written", ctypes.c_int64),
        ("failures", ctypes.c_int64),
        ("enabled", ctypes.c_int32),
        ("reason", ctypes.c_char * 256),
        ("major", ctypes.c_int32),
        ("minor", ctypes.c_int32),
    ]


def library() -> Path:
    """Returns the path of the image's library, or else of one built for this user. Raises FrontUnavailable."""
    if BUILT_IN.is_file():
        return BUILT_IN
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    # Not in the temporary directory itself: a file there under a known name may be another user's.
    directory = Path(tempfile.gettempdir()) / f"sagelet-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    if directory.is_symlink() or directory.stat().st_uid != os.getuid() or directory.stat().st_mode & 0o022:
        raise FrontUnavailable(f"{directory} belongs to another user")
    made = directory / f"pjrt-front-{digest}.so"
    if not made.is_file():
        build(made)
    return made


def build(target: Path) -> None:
    """Compiles the library into `target`. Raises FrontUnavailable."""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise FrontUnavailable("there is no C compiler")
    draft = target.with_name(f"{target.name}.{os.getpid()}")
    command = [compiler, "-std=gnu11", "-O2", "-shared", "-fPIC", "-o", str(draft), str(SOURCE), "-ldl", "-lpthread"]
    try:
        made = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FrontUnavailable(f"{compiler} fails: {error}") from error
    if made.returncode != 0:
        raise FrontUnavailable(f"{compiler} fails: {made.stderr.strip()[-300:]}")
    draft.replace(target)


def status(path: str) -> Status:
    """Returns what the cache of this process has done so far. If it has done anything, the library is loaded."""
    function = ctypes.CDLL(path).sagelet_pjrt_front_status
    function.restype = ctypes.POINTER(Status)
    found: Status = function().contents
    return found


if __name__ == "__main__":
    build(BUILT_IN)
