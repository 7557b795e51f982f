"""Finds the process that installs requirements for SDK v3's driver, and runs it under watched_install.

The driver installs in a process of its own, before the script. If that fails, it only says "Training Execution failed".
Every Python of the job imports this module at its start (startup/sitecustomize.py), so keep it small.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from sagelet_runtime.base.command_line import of_this_process

#: The value of `held_packages.kept()` before the installation. Set by sagelet_runtime.command.
VARIABLE = "SAGELET_DRIVER_INSTALL"
WATCHER = "sagelet_runtime.requirements.watched_install"
#: The driver's installer (sagemaker.train, 3.x). Earlier drivers have none and run pip in `sm_train.sh`.
_INSTALLER = "/sm_drivers/scripts/install_requirements.py"
_SCRIPT = re.compile(r"(\S*)/sm_drivers/sm_train\.sh")
_PIPS = ("pip", "pip3")


def watch_if_it_is_this_process() -> None:
    """Runs the driver's installation under the watcher. Does not return in that process."""
    command = of_this_process()
    if is_drivers(command, _parent()):
        before = os.environ.pop(VARIABLE).split()
        os.execv(sys.executable, [sys.executable, "-m", WATCHER, *before, "--", *command[1:]])


def is_drivers(command: Sequence[str], parent: Sequence[str]) -> bool:
    """True if a command is the driver's installation. A pip that the script runs is not."""
    words = list(command[1:])
    while words and words[0].startswith("-") and words[0] != "-m":
        words.pop(0)
    if words[:1] == ["-m"]:
        words.pop(0)
    if not words:
        return False
    if words[0].endswith(_INSTALLER):
        return True
    is_pip = os.path.basename(words[0]) in _PIPS and words[1:3] == ["install", "-r"]
    return is_pip and any(_installs_by_pip(word) for word in parent)


def _installs_by_pip(word: str) -> bool:
    """True if the word names `sm_train.sh` of a driver without an installer.

    If the driver has an installer, a pip that `sm_train.sh` starts is the user's.
    """
    found = _SCRIPT.search(word)
    return found is not None and not os.path.exists(found[1] + _INSTALLER)


def _parent() -> list[str]:
    """Returns the command line of the parent process. Empty without /proc."""
    file = Path("/proc", str(os.getppid()), "cmdline")
    return file.read_bytes().decode(errors="surrogateescape").split("\0") if file.exists() else []
