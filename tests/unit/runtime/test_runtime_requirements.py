"""pip's constraints, and its last words."""

from pathlib import Path

import pytest

from sagelet_runtime import installed, requirements
from sagelet_runtime.requirements import PipErrors

CONFLICT = """
ERROR: Cannot install torch==1.12.1 because these package versions have conflicting dependencies.

The conflict is caused by:
    The user requested torch==1.12.1
    The user requested (constraint) torch==2.9.0

To fix this you could try to:
1. loosen the range of package versions you've specified

ERROR: ResolutionImpossible: for help visit https://pip.pypa.io/en/latest/topics/dependency-resolution/
"""


def said(text: str) -> str:
    found = PipErrors()
    for line in text.splitlines():
        found.feed(line)
    return found.text()


def test_a_conflict_with_a_constraint_names_the_pin_and_the_remedy() -> None:
    text = said(CONFLICT)
    assert text.startswith("Cannot install torch==1.12.1 because")
    assert "The user requested torch==1.12.1. sagelet keeps torch==2.9.0" in text
    assert "SAGELET_PINS=exact" in text
    assert "for help visit" not in text


def test_a_conflict_of_a_dependency() -> None:
    text = said(CONFLICT.replace("The user requested torch==1.12.1", "torchvision 0.13 depends on torch==1.12.1"))
    assert "torchvision 0.13 depends on torch==1.12.1. sagelet keeps torch==2.9.0" in text


def test_other_errors_are_pips_own_lines_once() -> None:
    line = "ERROR: No matching distribution found for nothing"
    assert said(f"Looking in links: .\n{line}\n{line}\n") == "No matching distribution found for nothing"
    assert said("all is well") == ""


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("ERROR: Failed building wheel for tokenizers", True),
        ("ERROR: Could not find a version that satisfies the requirement x==1 (from versions: 2.0, 2.1)", True),
        ("ERROR: Could not find a version that satisfies the requirement x==1 (from versions: none)", False),
        ("ERROR: Could not open requirements file", False),
    ],
)
def test_a_pin_that_this_python_cannot_have_is_told_of_the_image_of_its_day(
    monkeypatch: pytest.MonkeyPatch, line: str, hint: bool
) -> None:
    assert ("sagelet image build --variant py39" in said(line)) is hint
    monkeypatch.setattr(requirements, "_OF_THEN", (4, 0))
    assert "py39" not in said(line)


def test_a_long_failure_keeps_its_end() -> None:
    text = said("\n".join(f"ERROR: line {number}" for number in range(100)))
    assert text.splitlines()[-1].strip() == "line 99"
    assert len(text.splitlines()) == 6


def test_the_constraints_are_what_is_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", {"torch": "2.9.0", "torch_xla": "2.9.0"}.get)
    base = tmp_path / "opt ml"
    added = requirements.constrain(str(base), {"PIP_CONSTRAINT": "/mine.txt"})
    mine, ours = added["PIP_CONSTRAINT"].split()
    assert (mine, ours) == ("/mine.txt", (base / requirements.FILE).as_uri())
    assert (base / requirements.FILE).read_text() == "torch==2.9.0\ntorch_xla==2.9.0\n"
    assert requirements.constrain(str(base), added) == added
    assert requirements.constrain(str(base), {"SAGELET_PINS": " Exact "}) == {}
    monkeypatch.setattr(installed, "version", {}.get)
    assert requirements.constrain(str(base), {}) == {}


@pytest.mark.parametrize(
    ("command", "pip"),
    [
        (["python", "-m", "pip", "install", "-r", "x"], True),
        (["python", "-m", "pip", "list"], False),
        (["train"], False),
    ],
)
def test_what_is_pip(command: list[str], pip: bool) -> None:
    assert requirements.is_pip(command) == pip
