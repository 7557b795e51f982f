"""The compile report: from what workers write, live, to what the engine keeps."""

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.model.training import Compilation
from sagelet_engine.telemetry.compiler import reading, text
from sagelet_engine.telemetry.compiler.decoding import decode
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.rows import rows
from sagelet_engine.telemetry.compiler.worker import (
    Figures,
    Graph,
    Replayed,
    StepSeconds,
    Tier,
    Transfer,
    WorkerReport,
)
from support.world import World, key, request, until

TWO_HOSTS = {"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 10}}


def worker(**changes: Any) -> dict[str, Any]:
    return {
        "version": 1, "compiled": True, "host": "claimed", "rank": 7, "platform": "CPU", "torch_xla": "2.9.0",
        "steps": 40, "optimizer_steps": 40, "compiles": 3, "compile_seconds": 12.1, "compiling_steps": [0, 1, 57],
        "compiling_step_count": 3, "executions": 80, "first_step_seconds": 8.25, "steady_step_seconds": 0.113,
        "step_seconds": {"p5": 0.101, "p50": 0.113, "p95": 0.15, "count": 37, "steps": 37},
        "samples": 320, "samples_per_second": 70.8,
        "fallbacks": {"aten::_unique2": 10}, "graph": {"nodes_max": 39, "breaks": 4, "breaks_per_step": 0.1},
        "evaluations": [{"call": "item", "file": "train.py", "line": 5, "function": "main", "count": 40}],
        "memory": {"peak_bytes": 1 << 30, "kind": "rss"}, "finished": True, **changes,
    }  # fmt: skip


def reports(world: World, name: str, host: str = "algo-1") -> Path:
    """Where the host's workers write."""
    directories = JobDirectories.of(world.settings.data, world.job(name))
    directory = directories.host(host).opt_ml.joinpath(*reading.DIRECTORY)
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def write(directory: Path, rank: int = 0, **changes: Any) -> None:
    (directory / f"worker-{rank}.json").write_text(json.dumps(worker(**changes)))


def of(world: World, name: str) -> CompilerReport:
    found = world.engine.reports.compiler(key(name))
    assert found is not None
    return found


def members(world: World, name: str) -> list[str]:
    archive = world.settings.data.parent / "s3" / "out" / "models" / name / "output" / "output.tar.gz"
    if not archive.exists():
        return []
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as opened:
        return opened.getnames()


def test_live_while_the_job_runs_and_final_when_it_has_ended(world: World) -> None:
    world.create("one")
    host = world.host("one")
    assert world.engine.reports.compiler(key("one")) is None
    write(reports(world, "one"), steps=3, finished=False)
    assert (of(world, "one").total.steps, of(world, "one").final) == (3, False)
    write(reports(world, "one"))
    assert of(world, "one").total.steps == 40
    host.end(0)
    world.ended("one")
    found = of(world, "one")
    assert (found.job, found.compiled, found.platform, found.final) == ("one", True, "CPU", True)
    assert [(one.host, one.rank) for one in found.workers] == [("algo-1", 0)]
    assert found.total.evaluations[0].line == 5


def test_survives_a_restart_and_goes_with_the_job(world: World) -> None:
    world.create("one")
    host = world.host("one")
    write(reports(world, "one"))
    host.end(1)
    world.ended("one")
    world.restart()
    assert of(world, "one").total.compiles == 3
    world.engine.jobs.delete(key("one"))
    world.create("one")
    world.host("one")
    assert world.engine.reports.compiler(key("one")) is None


def test_workers_that_end_while_no_server_runs(world: World) -> None:
    world.create("one")
    host = world.host("one")
    world.engine.close()
    write(reports(world, "one"), steps=41)
    host.end(0)
    world.engine = world.boot()
    world.ended("one")
    assert of(world, "one").total.steps == 41
    assert of(world, "one").final


def test_workers_of_all_hosts_as_one(world: World) -> None:
    world.create("two", **TWO_HOSTS)
    hosts = world.all_hosts("two")
    moved = {"from_device": {"count": 2, "bytes": 8, "seconds": 0.5}}
    write(
        reports(world, "two"), 0, compiles=2, compiling_steps=[0, 1], execute_seconds=3.0, tracing_seconds=0.5,
        transfers=moved, collectives={"count": 9, "bytes": 100, "seconds": 2.0, "gradient_exchanges": 8},
    )  # fmt: skip
    write(
        reports(world, "two", "algo-2"), 1, compile_seconds=14.0, steady_step_seconds=0.2, compiling_steps=[0, 9],
        execute_seconds=2.0, tracing_seconds=0.75, transfers=moved,
        collectives={"count": 9, "bytes": 100, "seconds": 3.0, "gradient_exchanges": 8},
    )  # fmt: skip
    for host in hosts:
        host.end(0)
    world.ended("two")
    found = of(world, "two")
    assert [(one.host, one.rank, one.compiles) for one in found.workers] == [("algo-1", 0, 2), ("algo-2", 1, 3)]
    total = found.total
    assert (total.steps, total.compiles, total.compile_seconds, total.steady_step_seconds) == (40, 3, 14.0, 0.2)
    assert total.compiling_steps == (0, 1, 9)
    assert (total.execute_seconds, total.tracing_seconds) == (3.0, 0.75)
    exchanged = total.collectives
    assert (exchanged.count, exchanged.bytes, exchanged.seconds, exchanged.gradient_exchanges) == (9, 200, 3.0, 8)
    assert (total.samples, total.samples_per_second, total.executions) == (640, 141.6, 160)
    assert total.transfers.from_device == Transfer(4, 16, 1.0)
    assert total.fallbacks == {"aten::_unique2": 20}
    assert [(place.call, place.count) for place in total.evaluations] == [("item", 80)]


def test_replayed_steps_of_two_workers(world: World) -> None:
    world.create("replayed")
    host = world.host("replayed")
    counts = {"steps": 40, "clips": 39, "programs": 2}
    write(reports(world, "replayed"), 0, replayed={**counts, "traced": {"SGD: capturable": 1, "b": "x"}})
    write(reports(world, "replayed"), 1, replayed={**counts, "steps": 41, "traced": {"SGD: capturable": 2}})
    host.end(0)
    world.ended("replayed")
    assert of(world, "replayed").total.replayed == Replayed(41, 39, 2, {"SGD: capturable": 3})


def test_a_compiled_jobs_report_is_in_its_output(world: World) -> None:
    world.create("one")
    host = world.host("one")
    write(reports(world, "one"))
    (reports(world, "one").parent / "data" / "compiler").mkdir(parents=True)
    host.end(0)
    world.ended("one")
    assert members(world, "one") == ["compiler", "compiler-report.json"]


def test_a_file_of_that_name_that_the_script_wrote_stays(world: World) -> None:
    world.create("one")
    host = world.host("one")
    write(reports(world, "one"))
    (reports(world, "one").parent / "data" / "compiler-report.json").write_text("mine")
    host.end(0)
    world.ended("one")
    archive = world.settings.data.parent / "s3" / "out" / "models" / "one" / "output" / "output.tar.gz"
    with tarfile.open(archive) as opened:
        member = opened.extractfile("compiler-report.json")
        assert member is not None
        assert member.read() == b"mine"


def test_a_native_job_has_a_report_and_the_output_of_aws(world: World) -> None:
    world.create("one")
    host = world.host("one")
    write(reports(world, "one"), compiled=False, platform="", compiles=0)
    host.say("done")
    host.end(0)
    world.ended("one")
    assert not of(world, "one").compiled
    assert members(world, "one") == []
    assert world.log("one") == ["done"]


def test_a_report_says_why_a_job_was_not_compiled(world: World) -> None:
    world.create("one", HyperParameters={"sagemaker_training_compiler_enabled": "true"})
    host = world.host("one")
    said = {"compiled": False, "platform": "CUDA", "reason": "the plugin does not load"}
    (reports(world, "one") / "compilation.json").write_text(json.dumps(said))
    write(reports(world, "one"), compiled=False, platform="", compiles=0)
    until(lambda: world.job("one").compilation)
    assert (of(world, "one").compiled, of(world, "one").reason) == (False, "the plugin does not load")
    host.end(0)
    world.ended("one")
    assert of(world, "one").to_json()["reason"] == "the plugin does not load"


ASKS = {"HyperParameters": {"sagemaker_training_compiler_enabled": "true"}}
CPU = {"compiled": True, "platform": "CPU", "reason": "this host has no GPU"}


@pytest.mark.parametrize(
    "why", ["the script did not import torch_xla", "the script's parameters were not on the XLA device"]
)
def test_a_training_that_torch_xla_had_no_part_in_is_not_called_compiled(world: World, why: str) -> None:
    world.create("one", **ASKS)
    host = world.host("one")
    (reports(world, "one") / "compilation.json").write_text(json.dumps(CPU))
    write(reports(world, "one"), compiled=False, not_compiled=why, platform="", compiles=0, optimizer_steps=20)
    until(lambda: world.job("one").compilation)
    reason = f"{why}; 20 optimizer steps ran natively"
    assert of(world, "one").reason == reason, "while it runs, too"
    host.end(0)
    job = world.ended("one")
    assert job.compilation == Compilation(False, "CPU", reason)
    assert [
        one.status.value for one in job.transitions if f"(NOT COMPILED, training natively: {reason})" in one.message
    ]
    lines = world.log("one")
    assert f"sagelet: NOT COMPILED: {reason}" in lines
    assert not any(line.startswith("sagelet: compiled") for line in lines)
    assert any("20 optimizer steps ran and no program was compiled" in line for line in lines)
    assert text.heading(of(world, "one")) == f"trained natively (NOT COMPILED: {reason})"


def test_a_job_that_never_imported_torch_xla_is_told_so(world: World) -> None:
    world.create("one", **ASKS)
    host = world.host("one")
    (reports(world, "one") / "compilation.json").write_text(json.dumps(CPU))
    for number, loaded in enumerate([False, False]):
        note = {"started_ms": number, "files": ["train.py"], "compiler": "torch_xla", "loaded": loaded}
        (reports(world, "one") / f"ran-{number}.json").write_text(json.dumps(note))
    until(lambda: world.job("one").compilation)
    host.end(0)
    job = world.ended("one")
    assert job.compilation == Compilation(False, "CPU", "no process of the job imported torch_xla")
    assert any("no process of the job imported torch_xla, so nothing was" in line for line in world.log("one"))


@pytest.mark.parametrize("compiler", ["torch_xla", ""])
def test_one_process_that_imported_it_is_enough(world: World, compiler: str) -> None:
    world.create("one", **ASKS)
    host = world.host("one")
    (reports(world, "one") / "compilation.json").write_text(json.dumps(CPU))
    for number in (0, 1):
        note = {"files": [f"{number}.py"], "compiler": compiler, "loaded": number == 1}
        (reports(world, "one") / f"ran-{number}.json").write_text(json.dumps(note))
    until(lambda: world.job("one").compilation)
    host.end(0)
    job = world.ended("one")
    assert job.compilation == Compilation(True, "CPU", CPU["reason"])


def test_the_last_line_of_the_log_counts_one_in_the_singular(world: World) -> None:
    world.create("one")
    host = world.host("one")
    write(reports(world, "one"), steps=1, graph={"breaks": 1, "recompiles": 1})
    host.end(0)
    world.ended("one")
    line = next(line for line in world.log("one") if line.startswith("sagelet: compiled"))
    assert "; 1 step, " in line
    assert "; 1 graph break; 1 recompilation; " in line


def test_the_last_line_of_the_log_sums_it_up_once(world: World) -> None:
    definitions = [{"Name": "steady", "Regex": "steady ([0-9.]+)"}]
    specification = {**request("x")["AlgorithmSpecification"], "MetricDefinitions": definitions}
    world.create("one", AlgorithmSpecification=specification)
    host = world.host("one")
    write(reports(world, "one"))
    host.say("epoch 1")
    host.end(0)
    job = world.ended("one")
    assert [line for line in world.log("one") if not line.startswith("sagelet doctor: ")] == [
        "epoch 1",
        "sagelet: compiled 3 times in 12.1 s (steps 0, 1, 57); 40 steps, the first 8.2 s, steady 113 ms; "
        "70.8 samples/s; 4 graph breaks; on the CPU instead: aten::_unique2; at most 1 GiB (sagelet report one)",
    ]
    assert world.engine.metrics.final(job) == []


@pytest.mark.parametrize(
    ("rate", "peak_mib", "seconds", "expected"),
    [
        (70.8, 573, 0.113, ("70.8 samples/s", "573 MiB", "113 ms")),
        (2443.4, 1010, 0.9996, ("2,443 samples/s", "1,010 MiB", "1,000 ms")),
        (999.6, 1023, 1.04, ("1,000 samples/s", "1,023 MiB", "1.0 s")),
    ],
)
def test_no_figure_is_a_power_of_ten(
    world: World, rate: float, peak_mib: int, seconds: float, expected: tuple[str, str, str]
) -> None:
    world.create("one")
    host = world.host("one")
    memory = {"peak_bytes": peak_mib << 20, "kind": "rss"}
    write(reports(world, "one"), samples_per_second=rate, memory=memory, first_step_seconds=seconds)
    host.end(0)
    world.ended("one")
    found = of(world, "one")
    shown = dict(rows(found.total, compiled=True))
    assert (shown["Steady throughput"], shown["Peak memory (rss)"], shown["First step"]) == expected
    assert all(figure in text.summary(found) for figure in expected)


def test_a_first_step_whose_start_nobody_saw_took_no_known_time(world: World) -> None:
    """A native loop without a DataLoader: its first step has begun before the optimizer's, which ends it."""
    world.create("one")
    host = world.host("one")
    write(reports(world, "one"), first_step_seconds=0.0)
    host.end(0)
    world.ended("one")
    (line,) = [line for line in world.log("one") if line.startswith("sagelet: compiled")]
    assert "; 40 steps, steady 113 ms; " in line
    shown = dict(rows(of(world, "one").total, compiled=True))
    assert (shown["First step"], shown["Steady step"]) == (
        "not known",
        "113 ms (101 ms to 150 ms in nine of ten intervals)",
    )
    assert dict(rows(Figures(steps=1), compiled=False))["Steady step"] == "not known"


@pytest.mark.parametrize(
    ("compiles", "hits", "misses", "expected"),
    [
        (3, 0, 3, "compiled 3 times in 12.1 s (steps 0, 1, 57)"),
        (3, 1, 2, "compiled 3 times, 1 of 3 programs from the cache, in 12.1 s (steps 0, 1, 57)"),
        (3, 3, 0, "read all programs from the cache in 12.1 s (steps 0, 1, 57)"),
    ],
)
def test_a_program_of_the_cache_was_not_compiled(compiles: int, hits: int, misses: int, expected: str) -> None:
    cache = {"enabled": True, "hits": hits, "misses": misses}
    found = decode(WorkerReport, worker(compiles=compiles, cache=cache))
    assert text.summary(CompilerReport.of("one", [found])).startswith(f"{expected}; 40 steps")


def test_hits_are_those_of_all_workers() -> None:
    cache = {"enabled": True, "hits": 2, "misses": 1}
    workers = [decode(WorkerReport, worker(rank=rank, cache=cache)) for rank in (0, 1)]
    line = text.summary(CompilerReport.of("one", workers))
    expected = "2 workers, the slowest of them compiled 3 times, 4 of all workers' 6 programs from the cache, in 12.1 s"
    assert line.startswith(expected)


def test_a_line_that_is_there_is_not_said_again(world: World) -> None:
    """As when the server is killed between the line and the status that follows it."""
    from sagelet_engine.execution.log_recorder import Recorder
    from sagelet_engine.model.runtime import Handle

    world.create("one")
    handle = world.host("one").handle
    assert isinstance(handle, Handle)
    until(lambda: world.engine.logs.streams("123456789012", "us-east-1", "one/"))
    for _ in range(2):
        Recorder(world.engine._store, world.metrics, world.clock, world.job("one"), handle, print).note(
            ["sagelet: that is all"]
        )
    assert world.log("one") == ["sagelet: that is all"]


def test_cloudwatch_gets_what_is_known_under_a_prefix(world: World) -> None:
    world.create("one")
    host = world.host("one")
    write(reports(world, "one"))
    host.end(0)
    world.ended("one")
    published = {point.name: point.value for _, point in world.metrics.points if point.name.startswith("sagelet:")}
    assert {point.host for _, point in world.metrics.points if point.name.startswith("sagelet:")} == {""}
    assert published["sagelet:compiles"] == 3
    assert published["sagelet:steady_step_seconds"] == pytest.approx(0.113)
    assert published["sagelet:samples_per_second"] == pytest.approx(70.8)
    assert published["sagelet:cpu_fallbacks"] == 10
    assert "sagelet:cache_hits" not in published


def test_an_interrupted_jobs_report_is_of_its_last_attempt(world: World) -> None:
    spot = {
        "EnableManagedSpotTraining": True,
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 3600},
    }
    world.create("one", **spot)
    host = world.host("one")
    until(lambda: world.job("one").launched)
    write(reports(world, "one"), steps=9)
    world.engine.jobs.interrupt(key("one"))
    until(lambda: host.signals)
    host.end(0)
    until(lambda: world.job("one").attempt == 2)
    second = until(lambda: world.runtime.hosts.get(f"{world.job('one').id}-2/algo-1"))
    write(reports(world, "one"), steps=5)
    second.end(0)
    world.ended("one")
    assert (of(world, "one").attempt, of(world, "one").total.steps) == (2, 5)


def _link_to_a_file(directory: Path) -> None:
    secret = directory.parents[4] / "secret.json"
    secret.write_text(json.dumps(worker()))
    (directory / "worker-0.json").symlink_to(secret)


def _link_to_a_directory(directory: Path) -> None:
    elsewhere = directory.parents[4] / "elsewhere"
    elsewhere.mkdir()
    write(elsewhere)
    directory.rmdir()
    directory.symlink_to(elsewhere)


HOSTILE: dict[str, Callable[[Path], Any]] = {
    "a link to a file": _link_to_a_file,
    "a link to a directory": _link_to_a_directory,
    "a pipe": lambda directory: os.mkfifo(directory / "worker-0.json"),
    "a directory": lambda directory: (directory / "worker-0.json").mkdir(),
    "no JSON": lambda directory: (directory / "worker-0.json").write_bytes(b"\xff\x00{"),
    "another JSON": lambda directory: (directory / "worker-0.json").write_text("[1]"),
    "nested beyond measure": lambda directory: (directory / "worker-0.json").write_text("[" * 500_000),
    "too large": lambda directory: (directory / "worker-0.json").write_bytes(b" " * (reading.MOST_BYTES + 1)),
    "a number of too many digits": lambda directory: (directory / "worker-0.json").write_text(
        '{"steps": ' + "9" * 10_000 + "}"  # Python reads 4,300.
    ),
    "other names": lambda directory: write(directory, -1),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_report_is_left_out(tmp_path: Path, what: str) -> None:
    directory = tmp_path.joinpath("a", "b", "opt-ml", *reading.DIRECTORY)
    directory.mkdir(parents=True)
    HOSTILE[what](directory)
    assert reading.workers_of(tmp_path / "a" / "b" / "opt-ml", "algo-1") == []


def test_values_that_do_not_fit_are_left_at_their_default(tmp_path: Path) -> None:
    directory = tmp_path.joinpath(*reading.DIRECTORY)
    directory.mkdir(parents=True)
    content = worker(
        steps="many", compiles=-3, compile_seconds=1e400, samples=True, executions=10**400, compiled=1,
        fallbacks={"a\x1b[31m": 1, "b": "x"}, compiling_steps=[0, "1", None, 2], evaluations=[7, {"line": 3}],
        memory=[], step_seconds={"p50": None, "p95": 2}, torch="x" * 10_000,
    )  # fmt: skip
    (directory / "worker-3.json").write_text(json.dumps(content))
    (found,) = reading.workers_of(tmp_path, "algo-1")
    assert (found.rank, found.host, found.steps, found.compiles, found.compile_seconds) == (3, "algo-1", 0, 0, 0.0)
    assert (found.samples, found.executions, found.compiled) == (0, 2**53, True)
    assert found.fallbacks == {"a\ufffd[31m": 1}
    assert found.compiling_steps == (0, 2)
    assert [place.line for place in found.evaluations] == [0, 3]
    assert found.step_seconds == StepSeconds(p95=2.0)
    assert len(found.torch) < 1000
    report = CompilerReport.of("one", [found])
    assert CompilerReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_the_summary_of_several_workers_and_of_a_script_that_ends_no_graph() -> None:
    workers = CompilerReport.from_json({"workers": [{}, {}]}).workers
    two = CompilerReport("j", workers=workers, total=Figures(compiles=1))
    assert text.summary(two).startswith("2 workers, the slowest of them compiled once in ")
    unmarked = CompilerReport("j", total=Figures(compiles=1, compile_seconds=0.4, optimizer_steps=40))
    expected = "compiled once in 400 ms; 40 optimizer steps, but no graph was ended (torch_xla.sync)"
    assert text.summary(unmarked) == f"{expected} (sagelet report j)"


def test_rows_say_when_a_model_was_traced_once_and_why_others_were_not() -> None:
    def shown(**tier: Any) -> str | None:
        return dict(rows(Figures(graph=Graph(tier=Tier(**tier))), compiled=True)).get("Models are traced")

    assert shown() is None
    assert shown(stayed={"Net: a hook of first": 1}) == "at each step: Net: a hook of first"
    up = {"went_up_at": 1201, "seconds": 12.4, "calls": 5000, "breaks": {"Net: another shape": 9}}
    assert shown(**up) == "once from call 1,201 on, which took 12.4 s; 5,000 calls; 9 at that step: Net: another shape"
