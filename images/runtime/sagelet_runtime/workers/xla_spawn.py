"""`python -m torch_xla.distributed.xla_spawn --num_gpus N SCRIPT ARGUMENT...`: AWS's launcher, called on each host."""

from __future__ import annotations

import argparse
import os
import sys

from sagelet_runtime.base.world import from_environment
from sagelet_runtime.workers import script
from sagelet_runtime.workers.launcher import Launcher


def main() -> None:
    parser = argparse.ArgumentParser(prog="torch_xla.distributed.xla_spawn")
    parser.add_argument("--num_gpus", "--num_cores", dest="workers", type=_count, metavar="N")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    sys.exit(run(asked.script, asked.arguments, asked.workers))


def run(program: str, arguments: list[str], workers: int | None) -> int:
    """Starts this host's workers, one for each GPU of the instance type if `workers` is None. Returns the exit code."""
    return Launcher(from_environment(os.environ, workers), script.command(program, arguments), os.environ).run()


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers")
    return int(text)
