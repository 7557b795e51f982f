"""What a process of a job notes of the files that it has loaded. Without torch, in processes of jobs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.training_host import RUNTIME

STARTUP = RUNTIME / "sagelet_runtime" / "startup"
COMPILED = {"SM_TRAINING_COMPILER_CONFIGURED": "1"}


def ran(code: Path, *command: str, **variables: str) -> list[dict[str, Any]]:
    """Runs Python in the source directory as a job does. Returns the notes, the earliest process's first."""
    directory = code.parent / "notes"
    directory.mkdir(exist_ok=True)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SAGELET", "SM_", "PYTHON"))}
    path = os.pathsep.join(map(str, (STARTUP, code, RUNTIME)))
    environment = {**kept, "PYTHONPATH": path, "SAGELET_REPORT_DIR": str(directory), **variables}
    subprocess.run([sys.executable, *command], env=environment, cwd=code, timeout=60)
    notes = [json.loads(file.read_text()) for file in directory.glob("ran-*.json")]
    return sorted(notes, key=lambda note: note["started_ms"])


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A source directory in which the alphabet and the entry point differ."""
    directory = tmp_path / "code"
    (directory / "inner").mkdir(parents=True)
    (directory / "bench.py").write_text("print('never')\n")
    (directory / "inner" / "__init__.py").write_text("")
    (directory / "inner" / "data.py").write_text("import json\n")
    (directory / "train.py").write_text("import inner.data\n")
    return directory


def test_the_entry_point_comes_first_and_what_it_imports_after_it(code: Path) -> None:
    (note,) = ran(code, "train.py")
    assert note["files"] == ["train.py", "inner/__init__.py", "inner/data.py"]
    assert (note["compiler"], note["loaded"]) == ("", False)


def test_a_script_that_fails_has_run(code: Path) -> None:
    (code / "train.py").write_text("import inner.data\nimport os\nraise SystemExit('over')\n")
    assert ran(code, "train.py")[0]["files"][0] == "train.py"


def test_what_a_compiled_job_never_imports_compiles_nothing(code: Path) -> None:
    (note,) = ran(code, "train.py", **COMPILED)
    assert (note["compiler"], note["loaded"]) == ("torch_xla", False)
    (code / "train.py").write_text("import sys\nsys.modules['torch_xla'] = sys\n")
    (note,) = ran(code, "train.py", **COMPILED)
    assert note["loaded"]
    (note,) = ran(code, "train.py", **COMPILED, SAGELET_INDUCTOR="chosen")
    assert note["compiler"] == "torch"
    (note,) = ran(code, "train.py", **COMPILED, SAGELET_NOT_COMPILED="no plugin")
    assert note["compiler"] == ""


def test_a_program_that_a_job_starts_often_leaves_one_note(code: Path) -> None:
    script = "import subprocess, sys\nfor _ in range(3):\n    subprocess.run([sys.executable, 'bench.py'])\n"
    (code / "train.py").write_text(script)
    assert [note["files"] for note in ran(code, "train.py")] == [["train.py"], ["bench.py"]]


def test_a_tool_leaves_none(code: Path) -> None:
    assert ran(code, "-c", "import inner.data") == []
    assert ran(code, "-m", "json.tool", "--help") == []
