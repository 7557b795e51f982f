"""The rules on what the scripts of examples/best_practices really reported (tests/data/doctor)."""

import re

import pytest

from support.doctor_scripts import EXAMPLES, RECORDS, RUNS, Run, findings, load

#: They are small and short, so that they can be run: compiling does not pay for most of them.
SHORT, SLOW = "short-training", "slower-than-native"
#: Those that are as they should be in that, too.
LONG = ("trainer_right", "trainer_right_workers", "short_training_right")


@pytest.mark.parametrize("one", [one for one in RUNS if one.rule], ids=lambda one: one.name)
def test_the_wrong_script_has_its_finding_at_its_line(one: Run) -> None:
    found = {finding["rule"]: finding for finding in findings(one, load(one))}
    assert one.rule is not None
    finding = found.pop(one.rule)
    # A checkpoint that cannot be loaded was written by torch.save.
    assert found.keys() <= {SHORT, SLOW, *(["torch-save"] if one.rule == "unreadable-checkpoint" else [])}
    marked = [number for number, line in enumerate(_lines(one), 1) if "# <- " in line]
    assert [finding["line"]] == marked if marked else "line" not in finding
    if marked:
        assert finding["file"] == one.file


@pytest.mark.parametrize("one", [one for one in RUNS if not one.rule], ids=lambda one: one.name)
def test_the_right_script_has_none(one: Run) -> None:
    found = {finding["rule"] for finding in findings(one, load(one))}
    assert found <= ({SLOW} if one.name in LONG else {SHORT, SLOW})


def test_every_script_is_run_and_every_record_is_of_a_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} - {"submit.py"} == {one.file for one in RUNS}
    assert {path.stem for path in RECORDS.glob("*.json")} == {one.name for one in RUNS}


def test_records_name_no_directory_of_the_machine_that_made_them() -> None:
    for one in RUNS:
        assert not re.search(r"/(root|home|tmp|work|Users)\b", one.record.read_text()), one.name


def _lines(one: Run) -> list[str]:
    return (EXAMPLES / one.file).read_text().splitlines()
