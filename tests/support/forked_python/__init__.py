"""Python for training scripts of tests: a fork of a process that has imported torch, in place of a new interpreter.

Importing torch takes 2 s of CPU, and what torch_xla imports of it another. Hundreds of scripts of the tests do both.
`python` in `directory()/bin` is called as Python is. It asks a *template* for a fork, and stays in the script's place:
it passes signals on, and ends as the script ends. The parts:

- `caller.py` runs as that `python`. It runs Python itself for whatever is not a plain script.
- `template.py` imports, then forks. There is a template for each set of what Python and libraries read when they start:
  options, variables (`READ_AT_START`), limits, signals.
- `modules.py` hides the imported modules from the script until it imports them. So hooks of imports work as ever.
- `startup/sitecustomize.py` has the job start `python` of this directory, where it would start its own interpreter.

No template makes a client of XLA, a thread or a random state that its forks would share. Tests that look at processes
(signals, sessions, launchers) use Python itself, and so do the witnesses: one script at least of each group.
`SAGELET_TEST_UNFORKED=1` runs all tests by Python itself.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
STARTUP = HERE / "startup"
#: Names the directory of the sockets. Tests have it from the process that deals them to workers.
VARIABLE = "TEST_FORKED_PYTHON"
UNFORKED = "SAGELET_TEST_UNFORKED"
#: Of the directory's name.
PREFIX = "sagelet-forks-"
_PROGRAM = """#!{python} -IS
import sys
sys.path.insert(0, {here!r})
import caller
caller.main()
"""


def prepare() -> None:
    """Makes the directory for this process and those that it starts. Its templates end with this process."""
    if os.environ.get(UNFORKED) == "1" or sys.platform != "linux":
        return
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    (directory / "owner").write_text(str(os.getpid()))
    program = directory / "bin" / "python"
    program.parent.mkdir()
    program.write_text(_PROGRAM.format(python=sys.executable, here=str(HERE)))
    program.chmod(0o755)
    os.environ[VARIABLE] = str(directory)


def remove() -> None:
    """Removes the directory."""
    if directory := os.environ.pop(VARIABLE, None):
        shutil.rmtree(directory, ignore_errors=True)


def python() -> str:
    """Returns the program that a test calls to run a script."""
    directory = os.environ.get(VARIABLE)
    return str(Path(directory, "bin", "python")) if directory else sys.executable


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a job whose processes run scripts by `python()`."""
    directory = os.environ.get(VARIABLE)
    if directory is None:
        return dict(environment)
    path = os.pathsep.join(part for part in (environment.get("PYTHONPATH", ""), str(STARTUP)) if part)
    return {**environment, VARIABLE: directory, "PYTHONPATH": path}
