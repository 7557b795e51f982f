"""The command `sagelet` as a process: what Python does at its end."""

import subprocess
import sys

PROGRAM = """
import atexit, gc, sys
# Python calls the last one first.
atexit.register(lambda: print("frozen:", gc.get_freeze_count() > 10_000))
from sagelet_api.cli.entry import main
sys.argv = ["sagelet", "--version"]
main()
"""


def test_python_does_not_look_for_garbage_in_what_stays_until_the_end() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    version, frozen = done.stdout.splitlines()
    assert version.startswith("sagelet, version ")
    assert frozen == "frozen: True"
