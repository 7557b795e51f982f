"""A function under sagelet's backend of torch.compile returns what it returns when torch_xla traces each call."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.images.context import find_root
from support import forked_python
from support.flat import numbers

pytestmark = pytest.mark.xla

PROGRAMS = Path(__file__).parent / "programs"
#: XLA rounds in other places where a program ends in another place.
ROUNDED = {"batch norm", "gradients"}


def printed(program: str, *words: str, **variables: str) -> Any:
    environ = {**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": str(find_root() / "runtime"), **variables}
    # The walk through all calls is the witness of a Python of its own.
    command = [forked_python.python() if words else sys.executable, PROGRAMS / program, *words]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def run(*names: str, **variables: str) -> tuple[dict[str, tuple[Any, Any]], dict[str, int]]:
    """Returns what each call led to, traced at each call and once, and what could not be traced once."""
    found, faults = printed("graphs.py", *names, **variables)
    return found, faults


def test_each_call_returns_what_it_returns_traced() -> None:
    found, faults = run()
    assert faults == {}
    for name, (traced, once) in found.items():
        if name in ROUNDED:
            assert list(numbers(once)) == pytest.approx(list(numbers(traced)), rel=1e-5, abs=1e-5), name
        else:
            assert once == traced, name


def test_a_graph_whose_program_is_dropped_is_traced_from_then_on() -> None:
    found, faults = run("dropped", XLA_COMPILATION_CACHE_SIZE="4")
    traced, once = found["dropped"]
    assert once == traced
    assert faults == {"a graph: NoLonger: torch_xla dropped the program from its cache": 1}


def test_a_compiled_model_follows_what_the_script_changes_about_it() -> None:
    plain, compiled = printed("changed_models.py")
    assert compiled["unfrozen"] is not None
    for name, values in plain.items():
        assert list(numbers(compiled[name])) == pytest.approx(list(numbers(values))), name


def test_dynamo_alone_does_not_follow() -> None:
    """If a Dynamo follows by default, sagelet's switches can go."""
    plain, compiled = printed("changed_models.py", "--bare")
    assert (plain["unfrozen"] is None, compiled["unfrozen"] is None) == (False, True)
