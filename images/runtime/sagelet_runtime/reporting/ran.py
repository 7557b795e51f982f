"""Which files of the user a process has loaded, and whether it has loaded what compiles: `ran-NUMBER.json`.

The doctor names places of these files only. Every Python of the job imports this file at start, so it imports the rest
late.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from typing import TYPE_CHECKING

from sagelet_runtime.base.variables import CONFIGURED, INDUCTOR, NOT_COMPILED

if TYPE_CHECKING:
    from sagelet_runtime.base.wire import JsonObject


#: Files that are named, at most, and characters of a path.
MOST, LONGEST = 256, 400


def _working_directory() -> str:
    """Returns where the launcher has started the script: the source directory. Empty if it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


_ROOT = os.path.join(_working_directory(), "")
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STANDARD = os.path.dirname(os.path.abspath(os.__file__))
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class Ran:
    """The record of this process."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._started_ms = time.time_ns() // 1_000_000
        self._modules = 0

    def write_if_changed(self) -> None:
        """Writes if modules were imported since the last time."""
        if len(sys.modules) != self._modules:
            self.write()

    def write(self) -> None:
        self._modules = len(sys.modules)
        files = self._files()
        if not files or not is_of_the_script():
            return
        import json
        import zlib

        # One file for each script and rank, so that a job that starts a program a thousand times leaves one.
        number = zlib.crc32(f"{os.environ.get('RANK', '0')}:{files[0]}".encode("utf-8", "replace"))
        draft = os.path.join(self._directory, f".ran-{number}.{os.getpid()}")
        with open(draft, "w", encoding="utf-8") as file:
            json.dump(self._document(files), file)
        os.replace(draft, os.path.join(self._directory, f"ran-{number}.json"))

    def _document(self, files: list[str]) -> JsonObject:
        compiler = _compiler()
        return {
            "started_ms": self._started_ms,
            "files": files,
            "compiler": compiler,
            "loaded": compiler in sys.modules,
        }

    def _files(self) -> list[str]:
        """Returns the user's files in the order in which they were loaded, relative to the source directory."""
        found: dict[str, None] = {}
        for module in list(sys.modules.values()):
            content = getattr(module, "__dict__", {})
            # Python takes __file__ from the script before its exit handlers run, and leaves the loader.
            file = content.get("__file__") or getattr(content.get("__loader__"), "path", None)
            if isinstance(file, str) and file.endswith(".py") and len(found) < MOST:
                path = os.path.join(_ROOT, file)
                if _is_the_users(path):
                    found[path[len(_ROOT) :][-LONGEST:]] = None
        return list(found)


class _Record:
    """Of this process: a fork has none."""

    ran: Ran | None = None


def record(directory: str) -> None:
    """Begins the record of this process, which is written at its end. Does nothing if it has begun."""
    if _Record.ran is None:
        _Record.ran = Ran(directory)
        atexit.register(write)


def write() -> None:
    """Writes the record of this process. Fails at nothing: the script's end is worth more."""
    if _Record.ran is not None:
        try:
            _Record.ran.write()
        except OSError as error:
            from sagelet_runtime.base.say import say_once

            say_once(f"which files ran is not known: {error!r}")


def write_if_changed() -> None:
    """Writes the record if modules were imported since the last time. Raises OSError."""
    if _Record.ran is not None:
        _Record.ran.write_if_changed()


def is_of_the_script() -> bool:
    """False for what others start: a worker of a data loader, and a server that multiprocessing starts."""
    if sys.argv[:1] == ["-c"]:
        return False
    process = sys.modules.get("multiprocessing.process")
    return process is None or not process.current_process().daemon


def _forget() -> None:
    _Record.ran = None


os.register_at_fork(after_in_child=_forget)


def _compiler() -> str:
    """Returns the package without which nothing of this job is compiled. Empty in a native job."""
    if os.environ.get(CONFIGURED) != "1" or NOT_COMPILED in os.environ:
        return ""
    return "torch" if INDUCTOR in os.environ else "torch_xla"


def _is_the_users(path: str) -> bool:
    """True for a file below the source directory. A script may install packages there."""
    inner = path.startswith(_ROOT) and not path.startswith((_OWN, _STANDARD))
    return inner and not any(part in path for part in _PACKAGES)
