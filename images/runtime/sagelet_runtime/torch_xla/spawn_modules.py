"""Adds `torch_xla.distributed.xla_spawn` and `sm_dist`, the launchers that only AWS's torch_xla had."""

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from sagelet_runtime.base.command_line import module_of

DIRECTORY = str(Path(__file__).with_name("xla_modules"))
LAUNCHERS = ("torch_xla.distributed.xla_spawn", "torch_xla.distributed.sm_dist")


def install(_torch_xla: Any) -> None:
    """Makes `import torch_xla.distributed.xla_spawn` work."""
    import torch_xla.distributed

    torch_xla.distributed.__path__.append(DIRECTORY)


def stand_in(command: Sequence[str]) -> bool:
    """Puts empty packages in torch_xla's place in a process that is `python -m LAUNCHER`. Returns whether it is one.

    A launcher needs nothing of torch_xla, whose import takes seconds and half a gigabyte on each host.
    """
    if module_of(command) not in LAUNCHERS:
        return False
    for name, path in (("torch_xla", []), ("torch_xla.distributed", [DIRECTORY])):
        package = ModuleType(name)
        package.__path__ = path
        sys.modules[name] = package
    return True
