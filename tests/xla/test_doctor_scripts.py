"""Scripts of examples/best_practices on torch_xla: a few that differ in kind, and all of them to be recorded.

`SAGELET_RECORD=1` (`make doctor-scripts`) runs them all and writes tests/data/doctor, which the unit tests replay.
"""

import os
from pathlib import Path

import pytest

from support.doctor_scripts import RUNS, Run, findings, run, save

pytestmark = pytest.mark.xla

RECORDING = os.environ.get("SAGELET_RECORD") == "1"
LIVE = ("dynamic_shapes_wrong", "missing_mark_step_wrong", "device_mixing_wrong", "trainer_right_workers")
#: Rules whose finding hangs on how fast this machine is now.
TIMED = {"short-training", "slower-than-native", "input-bound"}


@pytest.mark.parametrize("one", [one for one in RUNS if RECORDING or one.name in LIVE], ids=lambda one: one.name)
def test_what_the_doctor_says_of_a_script(one: Run, tmp_path: Path) -> None:
    record = run(one, tmp_path)
    assert bool(record["exit_code"]) is one.fails, record["last_lines"]
    if RECORDING:
        save(one, record)
    found = {finding["rule"]: finding for finding in findings(one, record)}
    if one.rule is None:
        assert found.keys() <= TIMED
    else:
        assert one.rule in found
        assert found.keys() - {one.rule} <= TIMED | {"torch-save"}
