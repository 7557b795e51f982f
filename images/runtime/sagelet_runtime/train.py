"""`train`, the entry point of a training host: `python -m sagelet_runtime.train`.

AWS's toolkit does the work. This module adds what the toolkit lacks: the script's lines come out whole and at once, a
stop request reaches the script, and orphans are reaped if this is process 1.
"""

import gc
import io
import os
import sys

from sagelet_runtime.base import compiler_faults, memory_kills, signals
from sagelet_runtime.entry import init, output_relay

FRAMEWORK_MODULE = "sagelet_runtime.launch.framework:main"


def main() -> None:
    """Runs the job described under /opt/ml (or SAGEMAKER_BASE_DIR). Exits 0, or with the toolkit's code on failure."""
    if init.is_init():
        init.become_child_of_init()
    signals.install()
    _line_buffered()
    _forget_working_directory()
    os.environ.setdefault("SAGEMAKER_TRAINING_MODULE", FRAMEWORK_MODULE)

    # What is imported stays. Python would look for garbage in it while it is imported, and once more at the end.
    gc.disable()
    from sagemaker_training.cli.train import main as toolkit_main

    gc.freeze()
    gc.enable()
    output_relay.install()
    compiler_faults.install()
    memory_kills.install()
    toolkit_main()


def _line_buffered() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace", line_buffering=True)


def _forget_working_directory() -> None:
    """Removes the working directory from sys.path, unless PYTHONPATH names it.

    `python -m` puts it there, and the toolkit passes sys.path to the user script.
    """
    named = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if sys.path and os.path.abspath(sys.path[0]) == os.getcwd() and os.getcwd() not in named:
        del sys.path[0]


if __name__ == "__main__":
    main()
