"""`make demo`: how its words get to the demo. `tests/acceptance/test_demo.py` runs it."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from sagelet_engine.store.jobs import Store
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


def test_what_a_demo_of_another_version_left_is_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = spec_from_file_location("demo", ROOT / "examples" / "gpt2" / "demo.py")
    assert spec is not None
    assert spec.loader is not None
    demo = module_from_spec(spec)
    spec.loader.exec_module(demo)
    data = tmp_path / "data"
    demo.begin_anew(data)
    data.mkdir()
    Store(data / "sagelet.db").close()
    (data / "jobs").mkdir()
    demo.begin_anew(data)
    assert {path.name for path in data.iterdir()} >= {"jobs", "sagelet.db"}
    assert capsys.readouterr().out == ""
    with closing(sqlite3.connect(data / "sagelet.db")) as db:
        db.execute("PRAGMA user_version = 15")
    demo.begin_anew(data)
    assert not data.exists()
    assert "is of another version of sagelet, and is removed" in capsys.readouterr().out
