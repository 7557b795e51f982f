"""Where a script is while its process uses no CPU: in processes that sagelet's sitecustomize has set up, as in jobs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_runtime.reporting import idling
from sagelet_runtime.reporting.idling import EVERY, LEAST, MOST, Idling
from support.training_host import RUNTIME, poll

STARTUP = RUNTIME / "sagelet_runtime" / "startup"
#: How the processes of native jobs, of Inductor's, and of XLA's are marked.
MODES = {
    "native": {"SAGELET_NOT_COMPILED": "1"},
    "inductor": {"SAGELET_INDUCTOR": "1"},
    "xla": {"SM_TRAINING_COMPILER_CONFIGURED": "1"},
}
#: Looks more often than a job does.
HASTE = "from sagelet_runtime.reporting import idling\nidling.EVERY, idling.LEAST = 0.1, 0.1\n"
WAITS = """
import threading

def download():
    threading.Event().wait()
"""


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of the clock, and of CPU time."""
    at = [100.0, 5.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    monkeypatch.setattr(time, "process_time", lambda: at[1])
    monkeypatch.setattr(idling, "_used", lambda: at[1])
    return at


def looked(idle: Idling, clocks: list[float], cpu: float, times: int = 1) -> dict[str, Any]:
    """Looks some times, between which a share of a CPU was used."""
    for _ in range(times):
        clocks[0], clocks[1] = clocks[0] + EVERY, clocks[1] + cpu * EVERY
        idle.look()
    return idle.document()


def test_the_longest_stretch_is_kept_with_the_calls_that_the_main_thread_was_in(clocks: list[float]) -> None:
    idle = Idling()
    assert "seconds" not in looked(idle, clocks, 0.0, int(LEAST / EVERY) - 1)
    hung = looked(idle, clocks, 0.0, 3)
    assert hung["seconds"] == LEAST + 2 * EVERY
    assert any(re.search(r"test_runtime_idling\.py:\d+ in looked", call) for call in hung["stack"])
    assert len(hung["stack"]) <= MOST
    looked(idle, clocks, 0.5)
    assert looked(idle, clocks, 0.0, 4) == hung, "the process worked again, and then waited for less long"
    assert looked(idle, clocks, 0.0, 5)["seconds"] == 9 * EVERY


def test_a_step_ends_a_stretch(clocks: list[float]) -> None:
    idle, steps = Idling(), [0]
    idle.steps = lambda: steps[0]
    for _ in range(20):
        steps[0] += 1
        assert "seconds" not in looked(idle, clocks, 0.0)


def test_a_thread_that_is_not_there_has_no_calls() -> None:
    assert idling.stack(None) == []


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    """Starts scripts as in jobs, with a directory for the notes of each, and ends them."""
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, script: str, variables: dict[str, str]) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        (directory / "train.py").write_text(script)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("SAGELET", "SM_", "PYTHON"))}
        kept |= {"PYTHONPATH": f"{STARTUP}{os.pathsep}{RUNTIME}", "SAGELET_REPORT_DIR": str(directory), **variables}
        running.append(
            subprocess.Popen([sys.executable, str(directory / "train.py")], env=kept, start_new_session=True)
        )
        return directory

    yield start
    for process in running:
        # With the processes that it forked.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def notes(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in directory.glob("idle-*.json")]


def test_a_script_that_hangs_before_it_trains_says_where_in_every_kind_of_job(started: Any) -> None:
    """Without torch: a download hangs before anything is imported. All of them wait at the same time."""
    script = HASTE + WAITS + "download()\n"
    directories = [started(mode, script, variables) for mode, variables in MODES.items()]
    for directory in directories:
        poll(lambda where=directory: notes(where), f"a note of {directory.name}")  # type: ignore[misc]
        (found,) = notes(directory)
        assert any(re.fullmatch(r"train\.py:7 in download", call) for call in found["stack"])
        assert found["trains"] is False


def test_what_waits_by_its_nature_leaves_no_note(started: Any) -> None:
    """A data loader's worker, and the process that only joins a fork that trains."""
    script = (
        HASTE
        + WAITS
        + (
            "import multiprocessing, os\n"
            "def worker():\n"
            "    idling.watch()\n"
            "    download()\n"
            "def train():\n"
            "    idling.trains(lambda: 3)\n"
            "    download()\n"
            "context = multiprocessing.get_context('fork')\n"
            "context.Process(target=worker, daemon=True).start()\n"
            "trains = context.Process(target=train)\n"
            "trains.start()\n"
            "trains.join()\n"
        )
    )
    directory = started("several", script, MODES["native"])
    poll(lambda: len(notes(directory)) == 2, "the notes of the script and of what trains")
    found = {one["trains"]: one for one in notes(directory)}
    assert any("in download" in call for call in found[True]["stack"])
    assert any("popen_fork.py" in call for call in found[False]["stack"])
