"""`make demo`: how its words get to the demo. `tests/acceptance/test_demo.py` runs it."""

import subprocess
import sys

import pytest

from support.clients import ROOT


def test_make_passes_its_words_on() -> None:
    def words(*arguments: str) -> list[str]:
        done = subprocess.run(["make", "-n", "demo", *arguments], cwd=ROOT, capture_output=True, text=True)
        (line,) = [line for line in done.stdout.splitlines() if "examples/gpt2/demo.py" in line]
        return line.split("demo.py")[1].split()

    assert words() == []
    assert words("REPEAT=3") == ["--repeat", "3"]
    assert words("COMPILER=inductor", "RUNTIME=docker") == ["--compiler", "inductor", "--runtime", "docker"]


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("--repeat", "2"), "argument --repeat: invalid choice: 2"),
        (("--steps", "19"), "argument --steps: 19 are too few steps: at least 20"),
        (("--compiler", "gcc"), "argument --compiler: invalid choice: 'gcc'"),
    ],
)
def test_what_gives_no_figures_is_refused_before_anything_starts(words: tuple[str, ...], refusal: str) -> None:
    command = [sys.executable, ROOT / "examples" / "gpt2" / "demo.py", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert refusal in done.stderr
    assert done.stdout == ""
