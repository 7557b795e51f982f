"""Finds the processes below this one, with psutil where it is installed and /proc otherwise."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sagelet_runtime.base.command_line import module_of


@dataclass(frozen=True)
class ProcessInfo:
    pid: int
    parent: int
    command: tuple[str, ...]
    zombie: bool = False


def table() -> list[ProcessInfo]:
    """Returns every visible process. A process that ends meanwhile is left out."""
    try:
        import psutil
    except ImportError:
        return _table_from_proc()
    found = []
    for process in psutil.process_iter(["pid", "ppid", "cmdline", "status"]):
        info = process.info
        zombie = info["status"] == psutil.STATUS_ZOMBIE
        found.append(ProcessInfo(info["pid"], info["ppid"] or 0, tuple(info["cmdline"] or ()), zombie))
    return found


def _table_from_proc(root: Path = Path("/proc")) -> list[ProcessInfo]:
    entries = (entry for entry in root.iterdir() if entry.name.isdigit())
    return [info for info in map(_read_proc, entries) if info is not None]


def _read_proc(entry: Path) -> ProcessInfo | None:
    try:
        stat = (entry / "stat").read_text(errors="replace")
        command = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    # The command name is in parentheses and may hold any character, so the fields begin after the last parenthesis.
    state, parent = stat.rpartition(")")[2].split()[:2]
    return ProcessInfo(int(entry.name), int(parent), tuple(command.rstrip("\0").split("\0")), state == "Z")


def session(leader: int) -> list[int]:
    """Returns the living processes of a session: those that its leader started and that did not leave it (setsid)."""
    return [process.pid for process in table() if not process.zombie and _session_of(process.pid) == leader]


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def stop_targets(processes: list[ProcessInfo], root: int, own_helpers: frozenset[int] = frozenset()) -> list[int]:
    """Returns the descendants of `root` that get a stop request, parents first.

    Shells pass no signal on, so every level gets it. Left out, with everything below them:

    - zombies and `own_helpers`.
    - multiprocessing workers of a process that gets the signal itself. A data loader whose worker is terminated raises
      an error in the middle of the script's own SIGTERM handler.
    - processes below a launcher of workers, which forwards the signal itself. A handler that is entered twice may save
      a checkpoint over itself.
    """
    by_parent: dict[int, list[ProcessInfo]] = {}
    commands = {process.pid: process.command for process in processes}
    for process in processes:
        by_parent.setdefault(process.parent, []).append(process)
    targets: list[int] = []
    level = [root]
    while level:
        children = [child for pid in level for child in by_parent.get(pid, ())]
        level = [
            child.pid
            for child in children
            if not child.zombie
            and child.pid not in own_helpers
            and (child.parent == root or not _is_handed_on(child, commands.get(child.parent, ())))
        ]
        targets += level
    return targets


_TORCHS = ("torch.distributed.run", "torch.distributed.launch")
#: Modules that start workers and forward signals: sagelet's, and torch's.
_LAUNCHERS = (
    "torch_xla.distributed.xla_spawn",
    "torch_xla.distributed.sm_dist",
    "sagelet_runtime.workers.mpi_like",
    *_TORCHS,
)


def _is_handed_on(process: ProcessInfo, parent_command: tuple[str, ...]) -> bool:
    return is_launcher(parent_command) or _is_worker(process, parent_command)


def is_launcher(command: Sequence[str]) -> bool:
    """True for `python -m MODULE` of a launcher, and for torchrun started as a program or as a script of Python."""
    return module_of(command) in _LAUNCHERS or is_torchrun(command)


def is_torchrun(command: Sequence[str]) -> bool:
    """True for torch's launcher, started as a module or as the program torchrun."""
    return module_of(command) in _TORCHS or any(os.path.basename(word) == "torchrun" for word in command[:2])


def _is_worker(process: ProcessInfo, parent_command: tuple[str, ...]) -> bool:
    """True for a multiprocessing worker: a fork has its parent's command line, a spawn names the module.

    Looks at Python processes only. The subshell of a shell script has its parent's command line too, but is not a
    worker, and the shell passes no signal on to it.
    """
    if not process.command or "python" not in os.path.basename(process.command[0]):
        return False
    return process.command == parent_command or any("multiprocessing" in part for part in process.command[1:])
