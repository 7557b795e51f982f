"""`train`, the entry point of a training host: `python -m sagelet_runtime.train`.

AWS's toolkit does the work. This puts right what it lacks: the script's lines come out whole and at once, a stop
request reaches the script, orphans are reaped when this is process 1.
"""

import io
import os
import sys

from sagelet_runtime import compiler_faults, init, pump, signals

FRAMEWORK_MODULE = "sagelet_runtime.framework:main"


def main() -> None:
    """Runs the job described under /opt/ml (or SAGEMAKER_BASE_DIR). Exits 0, or as the toolkit does on failure."""
    if init.is_init():
        init.become_child_of_init()
    signals.install()
    _line_buffered()
    _forget_working_directory()
    os.environ.setdefault("SAGEMAKER_TRAINING_MODULE", FRAMEWORK_MODULE)

    from sagemaker_training.cli.train import main as toolkit_main

    pump.install()
    compiler_faults.install()
    toolkit_main()


def _line_buffered() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace", line_buffering=True)


def _forget_working_directory() -> None:
    """`python -m` puts the working directory on sys.path, and the toolkit hands sys.path to the user script."""
    named = [os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if sys.path and os.path.abspath(sys.path[0]) == os.getcwd() and os.getcwd() not in named:
        del sys.path[0]


if __name__ == "__main__":
    main()
