"""Programs that nodes run by their path, without sagelet's package or site-packages to be found."""

import subprocess
import sys
from pathlib import Path

import pytest

from sagelet_engine import runtimes

ROOT = Path(runtimes.__file__).parent
PROGRAMS = [path for path in ROOT.rglob("*.py") if "sys.path.append(" in path.read_text()]


def test_there_are_programs() -> None:
    assert {"docker.py", "host_shim.py", "shim.py"} <= {path.name for path in PROGRAMS}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_program_finds_its_modules(program: Path) -> None:
    code = f"import runpy; runpy.run_path({str(program)!r}, run_name='looked at')"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
