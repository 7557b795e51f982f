"""In-place operations have the same results and errors with sagelet's meta kernels as with torch's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sagelet_engine.images.context import find_root
from support.xla_workers import UNOPTIMIZED

pytestmark = pytest.mark.xla

PROGRAM = Path(__file__).parent / "programs" / "in_place.py"
#: Calls that torch refuses.
REFUSED = {
    "does not fit",
    "integers and a fraction",
    "other type in lerp",
    "too large",
    "too large for addcdiv",
}


def test_results_and_errors_are_torch_s() -> None:
    environ = {**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": str(find_root() / "runtime"), **UNOPTIMIZED}
    done = subprocess.run([sys.executable, PROGRAM], env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    (before, slow), (after, quick) = json.loads(done.stdout.splitlines()[-1])
    assert after == before
    assert slow > 0
    assert quick == 0, "no step of the optimizer was checked in Python"
    assert {name for name, outcome in before.items() if isinstance(outcome, str)} == REFUSED
