"""`python -m torch_xla.distributed.sm_dist [--training_script] SCRIPT ARGUMENT...`, the launcher up to PyTorch 1.10.

The launcher script in AWS's documents passes all hyperparameters on, so the script's name may be anywhere among them.
"""

import os
import sys

from sagelet_runtime.workers import xla_spawn

FLAGS = ("--training_script", "--training-script")


def main() -> None:
    try:
        program, arguments = split(sys.argv[1:])
    except ValueError as error:
        sys.exit(f"torch_xla.distributed.sm_dist: {error}")
    sys.exit(xla_spawn.run(os.path.normpath(program), arguments, None))


def split(arguments: list[str]) -> tuple[str, list[str]]:
    """Returns the script and its own arguments. Raises ValueError if no script is named."""
    for at, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name in FLAGS and equals:
            return value, arguments[:at] + arguments[at + 1 :]
        if name in FLAGS and at + 1 < len(arguments):
            return arguments[at + 1], arguments[:at] + arguments[at + 2 :]
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], arguments[1:]
    raise ValueError("no script is named; add the hyperparameter `training_script`")
