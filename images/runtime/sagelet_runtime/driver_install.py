"""Which process installs requirements for SDK v3's driver: it is watched (watched_install).

The driver installs in a process of its own, before the script, and says "Training Execution failed" of a failure. Every
Python of the job asks at its start (startup/sitecustomize.py), so this module is small.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from sagelet_runtime.command_line import of_this_process

#: Set by sagelet_runtime.command: what was `requirements.kept` then.
VARIABLE = "SAGELET_DRIVER_INSTALL"
WATCHER = "sagelet_runtime.watched_install"
#: Of the driver (sagemaker.train, 3.x), and of those before, whose script runs pip itself.
_INSTALLER = "/sm_drivers/scripts/install_requirements.py"
_SCRIPT = re.compile(r"(\S*)/sm_drivers/sm_train\.sh")
_PIPS = ("pip", "pip3")


def watch_if_it_is_this_process() -> None:
    """Does not return in the process that installs for the driver."""
    command = of_this_process()
    if is_drivers(command, _parent()):
        before = os.environ.pop(VARIABLE).split()
        os.execv(sys.executable, [sys.executable, "-m", WATCHER, *before, "--", *command[1:]])


def is_drivers(command: Sequence[str], parent: Sequence[str]) -> bool:
    """Whether a command is the driver's installation; a pip of the script's own is not."""
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
    """Whether it names the driver's script, and that has no installer: else a pip of its shell is the user's."""
    found = _SCRIPT.search(word)
    return found is not None and not os.path.exists(found[1] + _INSTALLER)


def _parent() -> list[str]:
    """The command that started this process; none is known without /proc."""
    file = Path("/proc", str(os.getppid()), "cmdline")
    return file.read_bytes().decode(errors="surrogateescape").split("\0") if file.exists() else []
