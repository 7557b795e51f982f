"""`python -m sagelet_runtime.workers.mpi_like COMMAND ARGUMENT...`: replaces mpirun in native data parallel jobs."""

import os
import sys

from sagelet_runtime.base.world import from_environment
from sagelet_runtime.workers.launcher import Launcher, mpi_tag


def main() -> None:
    world = from_environment(os.environ)
    sys.exit(Launcher(world, sys.argv[1:], os.environ, mpi_tag(world)).run(world.mpi_environment))


if __name__ == "__main__":
    main()
