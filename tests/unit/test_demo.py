"""`make demo REPEAT=N`: how the number gets to the demo. `tests/acceptance/test_demo.py` runs it."""

import subprocess
import sys

from support.clients import ROOT


def test_make_passes_the_number_of_pairs_on() -> None:
    def commands(*arguments: str) -> str:
        return subprocess.run(["make", "-n", "demo", *arguments], cwd=ROOT, capture_output=True, text=True).stdout

    assert "examples/gpt2/demo.py --repeat 3\n" in commands("REPEAT=3")
    assert "--repeat" not in commands()


def test_a_number_that_gives_no_verdict_is_refused_before_anything_starts() -> None:
    command = [sys.executable, ROOT / "examples" / "gpt2" / "demo.py", "--repeat", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert "argument --repeat: invalid choice: 2" in done.stderr
    assert done.stdout == ""
