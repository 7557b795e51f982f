"""What counts in a worker, without torch: the clock of steps, places in a script, the file, names of debug files."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sagelet_runtime.collectives.counters import CollectiveFigures
from sagelet_runtime.reporting import stepping, steps, timeline
from sagelet_runtime.reporting.collectives import Exchanges
from sagelet_runtime.reporting.compiled import CompiledWorker
from sagelet_runtime.reporting.counters import Counters
from sagelet_runtime.reporting.places import MOST, Places
from sagelet_runtime.reporting.recorder import Recorder
from sagelet_runtime.reporting.writer import Writer
from sagelet_runtime.torch_xla import debugging

RUNTIME = Path(debugging.__file__).parents[2]


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
    times = {"p5": 1.0, "p50": 1.0, "p95": 2.0, "count": 3, "steps": 3, "clock": "script", "quarters": []}
    assert found["step_seconds"] == times
    assert found["steady_step_seconds"] == pytest.approx(4 / 3, abs=1e-6)
    assert (found["samples_per_second"], found["steady_input_wait_seconds"]) == (3.0, 0.25)


def test_the_first_step_begins_with_the_models_call_if_no_batch_came(clock: Clock) -> None:
    timed, of_batches = steps.Steps(), steps.Steps()
    of_batches.about_to_begin()
    for _ in range(2):  # The second call is that of a second model, or of another part of the batch.
        clock.now += 2
        timed.begins_at_latest()
        of_batches.begins_at_latest()
    clock.now += 1
    for one in (timed, of_batches):
        one.optimizer_steps += 1
        one.step_ended()
    assert (timed.first_seconds, of_batches.first_seconds) == (3.0, 5.0)


def test_a_forked_worker_knows_its_first_step(clock: Clock) -> None:
    recorder = Recorder(0)
    recorder.steps.about_to_begin()
    recorder.steps.optimizer_steps += 1
    recorder.steps.step_ended()
    clock.now += 10
    recorder.forked()
    recorder.steps.about_to_begin()
    clock.now += 2
    recorder.use()
    recorder.steps.optimizer_steps += 1
    recorder.steps.step_ended()
    found = recorder.document()
    assert (found["steps"], found["first_step_seconds"]) == (1, 2.0)


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


def test_the_share_of_collectives_is_of_the_steps_that_it_is_measured_in(clock: Clock) -> None:
    """The first step, the others that compile, and what comes after the last are in neither."""
    exchanged = [30.0]
    timed = steps.Steps(lambda: exchanged[0])
    for number, (seconds, within) in enumerate([(8.0, 2.0), (9.0, 4.0), (1.0, 0.25), (1.0, 0.25)]):
        clock.now += seconds
        exchanged[0] += within
        timed.optimizer_steps += 1
        timed.graph_ended(min(number, 1))
        assert timed.intervals.exchange_share() == (0.25 if number > 1 else 0.0)
    clock.now += 50
    exchanged[0] += 40
    assert timed.intervals.exchange_share() == 0.25


class Busy:
    """Seconds of compiling and of executing so far."""

    def __init__(self) -> None:
        self.compiling = self.executing = 0.0

    def __call__(self) -> tuple[float, float]:
        return self.compiling, self.executing


def take_steps(timed: steps.Steps, clock: Clock, *seconds: float) -> None:
    for took in seconds:
        clock.now += took
        timed.optimizer_steps += 1
        timed.graph_ended(0)


def test_what_the_time_of_the_steps_went_to(clock: Clock) -> None:
    busy = Busy()
    line = timeline.Timeline(busy)
    timed = steps.Steps(timeline=line)
    timed.about_to_begin()
    began = clock.now
    busy.compiling, busy.executing = 5.0, 0.5
    timed.waited += 0.25
    clock.now += 6.0
    timed.optimizer_steps += 1
    timed.graph_ended(1)
    # Steps of 30 ms are one span of at least a tenth of a second; the rest is open still.
    busy.executing = 0.7
    for _ in range(5):
        timed.waited += 0.01
        clock.now += 0.03
        timed.optimizer_steps += 1
        timed.graph_ended(1)
    found = line.document(round((steps.time.time() - (clock.now - began)) * 1000))
    shares = [(one["step"], one["steps"], one["seconds"], one["wait_seconds"]) for one in found]
    assert shares == [(0, 1, 6.0, 0.25), (1, 4, 0.12, 0.04), (5, 1, 0.03, 0.01)]
    assert [one["compile_seconds"] for one in found] == [5.0, 0.0, 0.0]
    assert [one["execute_seconds"] for one in found] == pytest.approx([0.5, 0.2, 0.0])
    assert [one["start_seconds"] for one in found] == pytest.approx([0.0, 6.0, 6.12], abs=0.1)


def test_what_came_before_the_first_step_is_in_no_step(clock: Clock) -> None:
    """The wait for the first batch, and the programs that a library compiled to prepare the model."""
    busy, held = Busy(), [0.5]
    line = timeline.Timeline(busy, lambda: held[0])
    timed = steps.Steps(timeline=line)
    busy.compiling, timed.waited = 1.2, 0.3
    timed.about_to_begin()
    busy.compiling += 0.25
    take_steps(timed, clock, 1.0)
    (span,) = line.document(0)
    assert (span["wait_seconds"], span["compile_seconds"], span["device_wait_seconds"]) == (0.0, 0.25, 0.0)


def test_what_a_loader_compiles_while_the_script_waits_is_waiting(clock: Clock) -> None:
    busy = Busy()
    line = timeline.Timeline(busy)
    timed = steps.Steps(timeline=line)
    timed.about_to_begin()
    busy.compiling, timed.waited = 0.75, 0.5
    take_steps(timed, clock, 1.0)
    (span,) = line.document(0)
    assert (span["wait_seconds"], span["compile_seconds"]) == (0.5, 0.5)


def test_what_waits_after_the_last_step_is_in_no_step(clock: Clock) -> None:
    held = [0.0]
    line = timeline.Timeline(held=lambda: held[0])
    timed = steps.Steps(timeline=line)
    timed.about_to_begin()
    held[0] += 0.02
    take_steps(timed, clock, 0.05)
    # Reading the last loss, and saving. Another step would begin where the last one ended, and have it.
    held[0] += 0.5
    clock.now += 0.5
    assert [one["device_wait_seconds"] for one in line.document(0)] == [0.02]
    take_steps(timed, clock, 0.05)
    assert [(one["seconds"], one["device_wait_seconds"]) for one in line.document(0)] == [(0.6, 0.52)]


def test_a_long_training_has_a_bounded_timeline_that_leaves_nothing_out(clock: Clock) -> None:
    busy = Busy()
    line = timeline.Timeline(busy)
    timed = steps.Steps(timeline=line)
    timed.about_to_begin()
    began = clock.now
    for _ in range(3_000):
        busy.executing += 0.125
        timed.waited += 0.0625
        take_steps(timed, clock, 0.25)
    found = line.document(0)
    assert len(found) <= timeline.MOST + 1
    assert [one["step"] for one in found[1:]] == [one["step"] + one["steps"] for one in found[:-1]]
    assert sum(one["steps"] for one in found) == 3_000
    assert sum(one["seconds"] for one in found) == pytest.approx(clock.now - began)
    assert sum(one["execute_seconds"] for one in found) == pytest.approx(375.0)
    assert sum(one["wait_seconds"] for one in found) == pytest.approx(187.5)


def test_counters_that_were_cleared_make_no_negative_time(clock: Clock) -> None:
    busy = Busy()
    line = timeline.Timeline(busy)
    timed = steps.Steps(timeline=line)
    busy.executing = 5.0
    take_steps(timed, clock, 1.0, 1.0)
    busy.executing = 0.0
    take_steps(timed, clock, 1.0)
    assert min(one["execute_seconds"] for one in line.document(0)) == 0.0


class Wire:
    """Stands for the world's counters."""

    def __init__(self) -> None:
        self.sent = 0

    def __call__(self) -> CollectiveFigures:
        return CollectiveFigures(1, self.sent, 0.5)


def gradient_exchanges(*sent: int, gradient_bytes: int = 1000) -> int:
    """`sent`: bytes before the first step, before each other one, and after the last."""
    wire = Wire()
    exchanges = Exchanges(wire)
    exchanges.size(gradient_bytes)
    for size in sent[:-1]:
        wire.sent += size
        exchanges.stepped()
    wire.sent += sent[-1]
    found = exchanges.document(0.125)
    assert (found["bytes"], found["share"], found["gradient_bytes"]) == (sum(sent), 0.125, gradient_bytes)
    return int(found["gradient_exchanges"])


def test_exchanges_of_gradients_are_told_from_others() -> None:
    assert gradient_exchanges(1000, 1000, 1000, 0) == 2
    assert gradient_exchanges(500, 500, 500, 4) == 2  # In half of their precision.
    assert gradient_exchanges(4, 4, 4, 4) == 0  # The mean of a loss.
    assert gradient_exchanges(1000, 4, 4, 4) == 0  # Weights that are sent to all workers first.
    assert gradient_exchanges(0, 0, 1000, 0) == 1  # Now and then.
    assert gradient_exchanges(0, 0, 0, 1000) == 1
    assert gradient_exchanges(0, 0, 0, 0, gradient_bytes=0) == 0
    assert Exchanges(lambda: None).document(0.0) == {}


class Optimizer:
    def __init__(self) -> None:
        self.param_groups = [{"params": [], "lr": 0.5}]


def test_an_optimizer_at_the_address_of_one_that_is_gone_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stepping, "id", lambda _: 7, raising=False)
    recorder = Recorder(0)
    stepped = stepping.observer(recorder, lambda: None)
    for _ in range(2):
        optimizer = Optimizer()
        for _ in range(3):
            stepped(optimizer, (), {})
    assert [one["name"] for one in recorder.optimizers] == ["Optimizer", "Optimizer"]
    assert recorder.steps.optimizer_steps == 6


class _Counters:
    """Stands for torch_xla's counters."""

    compiling = False

    def __init__(self, executed: int) -> None:
        self._executed = executed

    def executed(self) -> int:
        return self._executed

    def dispatched(self) -> int:
        return self._executed

    def platform(self) -> str:
        return "CPU"

    def client(self) -> str:
        return ""

    def document(self, _breaks: int, _breaks_per_step: float) -> dict[str, int]:
        return {"compiles": 1}


@pytest.mark.parametrize(
    ("opened", "executed", "parameters", "steps", "compiled"),
    [
        (False, 0, {}, 0, None),
        (True, 0, {}, 0, True),
        (True, 20, {"xla": 4}, 20, True),
        (True, 20, {}, 20, True),
        (False, 0, {"cpu": 4}, 20, False),
        (True, 1, {"cpu": 4}, 20, False),
        (True, 1, {"other": 4}, 20, False),
    ],
    ids=["a tool", "a device", "a training", "an optimizer of its own", "never opened", "opened to look", "on a GPU"],
)
def test_a_worker_is_compiled_if_its_steps_were(
    opened: bool, executed: int, parameters: dict[str, int], steps: int, compiled: bool | None
) -> None:
    """That a library has imported torch_xla, or has opened its device, compiles nothing."""
    recorder = Recorder(0)
    recorder.steps.optimizer_steps = steps
    recorder.parameters |= parameters
    torch_xla = SimpleNamespace(__version__="2.9.0", _XLAC=SimpleNamespace(_xla_runtime_is_initialized=lambda: opened))
    cuda = SimpleNamespace(is_available=lambda: False)
    torch: Any = SimpleNamespace(__version__="2.9.0", cuda=cuda)
    counters: Any = _Counters(executed)
    document = CompiledWorker(torch_xla, torch, counters, recorder).document()
    assert (document and document["compiled"]) == compiled
    assert bool(document and document.get("not_compiled")) is (compiled is False)
    assert ("compiles" in (document or {})) is bool(compiled)


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


def test_calls_of_an_evaluation_are_those_of_one_step() -> None:
    """A generation reads a value for each token, between two steps or after the last one."""
    step = [0]
    places = Places(lambda: step[0])

    def reads(count: int) -> None:
        for _ in range(count):
            places.add("item", sys._getframe())

    for _ in range(3):
        reads(2)
        step[0] += 1
    reads(43)
    step[0] += 1
    reads(43)
    (found,) = places.listed()
    assert found["count"] - found["repeats"] == 4, "three steps, and the one that began with an evaluation"
    (others,) = (plain.add("item", sys._getframe()) or plain.listed() for plain in (Places(),))
    assert others[0]["repeats"] == 0


def test_breaks_of_an_evaluation_are_not_divided_by_steps() -> None:
    counted = steps.Steps()

    def step(breaks: int, batches: int = 0) -> None:
        counted.interruptions += batches
        counted.broken(counted.graphs + breaks)
        counted.graphs += 1
        counted.optimizer_steps += 1
        counted.graph_ended(1)

    for number in range(10):
        step(43 if number == 5 else 1, batches=8 if number == 5 else 0)
    assert counted.breaks == 52
    assert counted.breaks_per_step(counted.breaks) == 1.0
    assert steps.Steps().breaks_per_step(0) == 0.0


def test_operations_on_the_cpu_by_the_steps_that_they_ran_in() -> None:
    counts = {"aten::nonzero": 0, "aten::_unique2": 0}
    xlac = SimpleNamespace(
        _xla_counter_value=lambda name: counts.get(name, 0),
        _get_executed_fallback_ops=lambda: [name for name, count in counts.items() if count],
        _xla_metric_data=lambda _name: None,
        _xla_get_devices=lambda: ["CPU:0"],
    )
    counters = Counters(SimpleNamespace(_XLAC=xlac))
    for number in range(10):
        counts["aten::_unique2"] += 2
        counts["aten::nonzero"] += 43 if number == 4 else 0
        counters.step_ended()
    counts["aten::nonzero"] += 43
    document = counters.document(0, 0.0)
    assert document["fallbacks"] == {"aten::_unique2": 20, "aten::nonzero": 86}
    assert document["fallback_repeats"] == {"aten::_unique2": 10, "aten::nonzero": 85}


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
    found = run(script, tmp_path, code)
    assert (found["steps"], found["finished"]) == (7, True)


def run(script: str, directory: Path, code: int = 0) -> dict[str, object]:
    """A worker's process, to its end; its report."""
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(directory)],
        env={**os.environ, "PYTHONPATH": str(RUNTIME), "RANK": "0"}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert ended.returncode == code, ended.stderr
    found: dict[str, object] = json.loads((directory / "worker-0.json").read_text())
    return found


def test_a_handler_that_ends_a_process_while_it_writes_ends_it(tmp_path: Path) -> None:
    script = """
        import os, signal, sys
        from pathlib import Path
        from sagelet_runtime.reporting.recorder import Recorder
        from sagelet_runtime.reporting.writer import Writer

        signal.signal(signal.SIGTERM, lambda *_: os._exit(3))

        def document():
            if not asked:
                asked.append(True)
                os.kill(os.getpid(), signal.SIGTERM)
            return {"steps": 7}

        asked = []
        writer = Writer(Path(sys.argv[1]), Recorder(0), document)
        writer.install()
        writer.write()
        """
    found = run(script, tmp_path, 3)
    assert (found["steps"], found["finished"]) == (7, True)


def test_what_is_written_late_does_not_take_the_last_word_back(tmp_path: Path) -> None:
    figures = {"steps": 1}
    writer = Writer(tmp_path, Recorder(0), lambda: figures)
    writer.write(finished=True)
    figures["steps"] = 2
    writer.write()
    found = json.loads((tmp_path / "worker-0.json").read_text())
    assert (found["steps"], found["finished"]) == (1, True)


#: `trained(steps, reads)`: opens a device, then trains; `reads`: steps of the report that is there in between.
TRAINING = textwrap.dedent("""
    import json, os, subprocess, sys
    from pathlib import Path
    from sagelet_runtime.reporting.recorder import Recorder
    from sagelet_runtime.reporting.writer import Writer

    def trained(steps, reads):
        recorder = Recorder(0)
        writer = Writer(Path(sys.argv[1]), recorder, lambda: {"optimizer_steps": recorder.steps.optimizer_steps})
        writer.install()
        recorder.use()
        writer.write()
        assert reported() == reads
        recorder.steps.optimizer_steps = steps
        writer.write()
        return writer, recorder

    def reported():
        return json.loads(Path(sys.argv[1], "worker-0.json").read_text())["optimizer_steps"]

    """)


def test_a_training_that_a_worker_starts_is_not_the_workers(tmp_path: Path) -> None:
    """Its children, forks or not, have its RANK; when it has ended, the next that trains has a report."""
    script = f"""
        writer, recorder = trained(7, 0)
        subprocess.run([sys.executable, "-c", {TRAINING + "trained(90, 7)"!r}, sys.argv[1]], check=True)
        child = os.fork()
        if not child:
            recorder.use()
            recorder.steps.optimizer_steps = 80
            writer.write(finished=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert reported() == 7
        """
    assert run(TRAINING + textwrap.dedent(script), tmp_path)["optimizer_steps"] == 7
    assert run(TRAINING + "trained(60, 7)", tmp_path)["optimizer_steps"] == 60


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
