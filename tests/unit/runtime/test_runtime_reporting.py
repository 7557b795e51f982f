"""What counts in a worker, without torch: the clock of steps, places in a script, the file, names of debug files."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from sagelet_runtime import debugging
from sagelet_runtime.reporting import steps
from sagelet_runtime.reporting.places import MOST, Places
from sagelet_runtime.reporting.recorder import Recorder
from sagelet_runtime.reporting.writer import Writer


class Clock:
    """Stands for time.perf_counter."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(steps.time, "perf_counter", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_steps_that_compile_are_no_measure_of_the_others(clock: Clock) -> None:
    timed = steps.Steps()
    timed.about_to_begin()
    compiles = 0
    for number, seconds in enumerate([8.0, 1.0, 1.0, 5.0, 2.0]):
        clock.now += seconds
        compiles += number in (0, 3)
        timed.optimizer_steps += 1
        timed.samples += 4
        timed.waited += 0.25
        timed.graph_ended(compiles)
    found = timed.document()
    assert (found["steps"], found["markers"], found["first_step_seconds"]) == (5, 5, 8.0)
    assert (found["compiling_steps"], found["compiling_step_count"]) == ([0, 3], 2)
    assert (found["steady_step_seconds"], found["step_seconds"]) == (1.0, {"p50": 1.0, "p95": 2.0, "count": 3})
    assert (found["samples_per_second"], found["steady_input_wait_seconds"]) == (4.0, 0.25)


def test_graphs_between_two_optimizer_steps_are_one_step(clock: Clock) -> None:
    """Gradient accumulation; and graphs before the training began."""
    timed = steps.Steps()
    for _ in range(3):
        clock.now += 10
        timed.graph_ended(0)
    for _ in range(2):
        clock.now += 1
        timed.graph_ended(0)
        clock.now += 1
        timed.optimizer_steps += 1
        timed.graph_ended(0)
    found = timed.document()
    assert (found["steps"], found["markers"]) == (2, 7)
    assert (found["first_step_seconds"], found["steady_step_seconds"]) == (1.0, 2.0)


def test_a_script_that_recompiles_for_ever_fills_no_memory(clock: Clock) -> None:
    timed = steps.Steps()
    for number in range(steps.MOST_COMPILING + 5):
        timed.optimizer_steps += 1
        timed.graph_ended(number + 1)
    found = timed.document()
    assert (len(found["compiling_steps"]), found["compiling_step_count"]) == (steps.MOST_COMPILING, number + 1)


def test_graphs_that_values_were_read_for() -> None:
    timed = steps.Steps()
    timed.broken(2)
    timed.graphs = 3
    timed.broken(4)
    timed.graphs = 5
    timed.broken(1)  # torch_xla's counters were cleared.
    assert timed.breaks == 3


def test_calls_from_one_line_are_one_place() -> None:
    places = Places()
    for _ in range(3):
        places.add("item", sys._getframe(), 0.5)
    places.add("item", sys._getframe(), 0.5)
    first, second = places.listed()
    assert (first["call"], first["function"], first["count"], first["seconds"]) == (
        "item", "test_calls_from_one_line_are_one_place", 3, 1.5
    )  # fmt: skip
    assert (Path(first["file"]).name, first["via"]) == (Path(__file__).name, "")
    assert second["line"] == first["line"] + 1


def test_a_script_that_makes_up_code_fills_no_memory() -> None:
    places = Places()
    for number in range(MOST + 10):
        exec(
            compile("\n" * number + "places.add('item', frame())", "/made/up.py", "exec"),
            {"places": places, "frame": sys._getframe},
        )
    listed = places.listed()
    assert len(listed) == MOST + 1
    assert sum(place["count"] for place in listed) == MOST + 10


def test_the_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "many")
    figures = {"steps": 1}
    writer = Writer(tmp_path, Recorder(5), lambda: figures)
    writer.write()
    figures["steps"] = 2
    writer.write(finished=True)
    assert os.listdir(tmp_path) == ["worker-3.json"]
    found = json.loads((tmp_path / "worker-3.json").read_text())
    assert (found["rank"], found["world_size"], found["steps"], found["finished"]) == (3, 1, 2, True)
    assert (found["started_ms"], found["pid"]) == (5, os.getpid())


def test_a_report_that_cannot_be_written_harms_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Writer(tmp_path / "absent", Recorder(0), lambda: {}).write()
    assert "sagelet: the compile report could not be written" in capsys.readouterr().out


@pytest.mark.parametrize(("end", "code"), [("os._exit(3)", 3), ("raise SystemExit(4)", 4), ("1 / 0", 1)])
def test_every_end_of_a_process_writes_but_a_forks(tmp_path: Path, end: str, code: int) -> None:
    script = f"""
        import os, sys
        from pathlib import Path
        from sagelet_runtime.reporting.recorder import Recorder
        from sagelet_runtime.reporting.writer import Writer
        recorder = Recorder(0)
        Writer(Path(sys.argv[1]), recorder, lambda: {{"steps": recorder.steps.steps}}).install()
        recorder.steps.steps = 7
        child = os.fork()
        if not child:
            recorder.steps.steps = 8
            os._exit(0)
        os.waitpid(child, 0)
        assert not os.listdir(sys.argv[1])
        {end}
        """
    runtime = Path(debugging.__file__).parents[1]
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(runtime), "RANK": "0"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ended.returncode == code, ended.stderr
    found = json.loads((tmp_path / "worker-0.json").read_text())
    assert (found["steps"], found["finished"]) == (7, True)


def test_debug_files_of_all_workers_have_names_of_their_own() -> None:
    first = {"RANK": "0", "XLA_METRICS_FILE": "/out/compiler/XLA_METRICS_FILE.txt"}
    debugging.name_files(first)
    assert first["XLA_METRICS_FILE"] == "/out/compiler/XLA_METRICS_FILE.txt"
    second = {
        "RANK": "12",
        "XLA_METRICS_FILE": "/out/compiler/XLA_METRICS_FILE.txt",
        "PT_XLA_DEBUG_FILE": "/out/compiler/PT_XLA_DEBUG.txt",
        "XLA_SAVE_TENSORS_FILE": "/mine/graphs",
    }
    for _ in range(2):
        debugging.name_files(second)
    assert second == {
        "RANK": "12",
        "XLA_METRICS_FILE": "/out/compiler/XLA_METRICS_FILE.12.txt",
        "PT_XLA_DEBUG_FILE": "/out/compiler/PT_XLA_DEBUG.12.txt",
        "XLA_SAVE_TENSORS_FILE": "/mine/graphs",
    }
