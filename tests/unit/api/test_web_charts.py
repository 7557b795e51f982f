"""Charts of a job's page: sections, names, units, hosts; and the timeline of its statuses."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.web.curves import SAMPLE, TIME, Curve, axes, charts, over
from sagelet_api.web.timeline import timeline
from sagelet_api.web.units import Unit, fitting, heading, smaller, unit_of
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.telemetry.compiler.points import FIGURES, PREFIX, points, values
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.worker import Collectives, Memory
from support.api_world import ApiWorld
from support.doctor_cases import worker
from support.world import request

JOB = "/_sagelet/ui/jobs/train"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("train_samples_per_second", "samples/s"),
        ("train:steps per sec", "steps/s"),
        ("train_runtime", "s"),
        ("epoch_seconds", "s"),
        ("step-time-ms", "ms"),
        ("step time (ms)", "ms"),
        ("gpu_memory_bytes", "B"),
        ("accuracy_percent", "%"),
        ("loss", ""),
        ("train:loss", ""),
        ("(", ""),
        ("", ""),
    ],
)
def test_a_name_says_its_unit_or_none_is_shown(name: str, unit: str) -> None:
    assert unit_of(name) == unit


def test_numbers_get_the_unit_in_which_they_are_short() -> None:
    assert fitting("B", 5.3e9) == Unit("GiB", 2.0**30)
    assert fitting("B", 0) == Unit("B")
    assert fitting("s", 0.04) == Unit("ms", 1e-3)
    assert fitting("s", 28.4) == Unit("s")
    assert fitting("s", 10_000) == Unit("h", 3600.0)
    assert fitting("share", 0.25) == Unit("%", 0.01)
    assert fitting("samples/s", 1e9) == Unit("samples/s")
    assert heading("step time (ms)", "ms") == "step time (ms)"
    assert heading("Compiling so far", "s") == "Compiling so far (s)"
    assert heading("loss", "") == "loss"


def test_every_metric_of_the_compiler_has_a_name_and_a_unit_for_people() -> None:
    full = worker(compile_seconds=6.0, memory=Memory(1000, "rss"), collectives=Collectives(share=0.5))
    report = CompilerReport.of("job", [full])
    assert set(values(report)) == set(FIGURES)
    measures = [figure.measure for figure in FIGURES.values()]
    assert all(measure.title and measure.unit in ("", "s", "B", "samples/s", "share") for measure in measures)
    for name, figure in FIGURES.items():
        assert figure.measure.unit == "s" or not name.endswith("_seconds")
        assert figure.measure.unit == "B" or not name.endswith("_bytes")
    assert {point.name for point in points(report, 1)} <= {f"{PREFIX}{name}" for name in FIGURES}


def charted(world: ApiWorld) -> dict[str, list[dict[str, Any]]]:
    answer = world.page(f"{JOB}/curves", Accept="application/json")
    assert answer.status == 200
    found: dict[str, list[dict[str, Any]]] = json.loads(answer.data)
    return found


def test_the_jobs_own_metrics_come_first_and_only_instances_are_in_percent(world: ApiWorld) -> None:
    definitions = [{"Name": name, "Regex": f"{name}=([0-9.]+)"} for name in ("z_loss", "train_runtime")]
    algorithm = {**request("x")["AlgorithmSpecification"], "MetricDefinitions": definitions}
    world.create("train", AlgorithmSpecification=algorithm)
    host = world.host("train")
    host.say("train_runtime=10", "z_loss=2")
    host.end(0)
    job = world.ended("train")
    sampled = [
        MetricPoint("sagelet:compiles", 3.0, job.created_ms),
        MetricPoint("sagelet:peak_memory_bytes", 2.0**31, job.created_ms),
        MetricPoint("sagelet:collective_share", 0.25, job.created_ms),
        MetricPoint("CPUUtilization", 50.0, job.created_ms, "algo-1"),
    ]
    world.engine._store.points.put_host(job.id, sampled)
    found = charted(world)
    assert set(found) == {"metrics", "compiler", "instances"}
    assert [(one["title"], one["unit"]) for one in found["metrics"]] == [("z_loss", ""), ("train_runtime (s)", "s")]
    assert [(one["title"], one["name"], one["unit"]) for one in found["compiler"]] == [
        ("Compilations so far", "sagelet:compiles", ""),
        ("Peak memory (GiB)", "sagelet:peak_memory_bytes", "GiB"),
        ("Collectives' share of the steps' time (%)", "sagelet:collective_share", "%"),
    ]
    assert [one["series"][0]["y"][0] for one in found["compiler"]] == [3.0, 2.0, 25.0]
    assert ("CPUUtilization (%)", "%") in [(one["title"], one["unit"]) for one in found["instances"]]
    assert {one["name"] for one in found["instances"]} <= {"CPUUtilization", "DiskUtilization", "MemoryUtilization"}
    every = [chart for charts in found.values() for chart in charts]
    assert {one["x"]["label"] for one in every} == {"seconds since the training began"}
    assert len({tuple(one["x"]["range"]) for one in every}) == 1


def test_the_same_metric_of_two_hosts_is_two_curves(world: ApiWorld) -> None:
    algorithm = {
        **request("x")["AlgorithmSpecification"],
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    }
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 10}
    world.create("train", AlgorithmSpecification=algorithm, ResourceConfig=resources)
    for number, host in enumerate(world.all_hosts("train"), 1):
        host.say(f"loss={number}.5", f"loss={number}.25")
        host.end(0)
    world.ended("train")
    (chart,) = charted(world)["metrics"]
    assert {(one["label"], tuple(one["y"])) for one in chart["series"]} == {
        ("algo-1", (1.5, 1.25)),
        ("algo-2", (2.5, 2.25)),
    }
    assert [one["colour"] for one in chart["series"]] == [0, 1]


def curve(name: str, xs: tuple[float, ...], ys: tuple[float, ...], job: str, rank: int = 0) -> Curve:
    return Curve("metrics", name, name, "", xs, ys, job=job, rank=rank)


def test_metrics_are_drawn_over_the_progress_that_all_jobs_report() -> None:
    found = [
        curve("loss", (1, 2, 3), (9, 8, 7), "a"),
        curve("epoch", (1.5, 2.5), (0.5, 1.0), "a"),
        curve("loss", (10, 20), (6, 5), "b", 1),
        curve("epoch", (10, 20), (0.5, 1.0), "b", 1),
        curve("step", (10, 20), (1, 2), "b", 1),
    ]
    assert axes(found) == [TIME, SAMPLE, "epoch"]
    drawn = {one.job: one for one in over(found, "epoch") if one.name == "loss"}
    assert (drawn["a"].xs, drawn["a"].ys) == ((0.5, 1.0), (8, 7))
    assert (drawn["b"].xs, drawn["b"].ys) == ((0.5, 1.0), (6, 5))
    chart, _ = charts(over(found, "epoch"), "epoch")["metrics"]
    assert chart["x"]["label"] == "epoch"
    assert [(one["label"], one["colour"]) for one in chart["series"]] == [("a", 0), ("b", 1)]
    samples = {one.name: one.xs for one in over(found, SAMPLE) if one.job == "a"}
    assert samples["loss"] == (0.0, 1.0, 2.0)


def test_long_trainings_are_drawn_over_minutes_and_hours() -> None:
    (chart,) = charts([curve("loss", (0.0, 5400.0), (2, 1), "")])["metrics"]
    assert (chart["x"]["label"], chart["series"][0]["x"]) == ("minutes since the training began", [0.0, 90.0])
    (chart,) = charts([curve("loss", (0.0, 7200.0), (2, float("nan")), "")])["metrics"]
    assert (chart["x"]["label"], chart["series"][0]["x"]) == ("hours since the training began", [0.0, 2.0])
    assert chart["series"][0]["y"] == [2, None]


# --- the timeline -----------------------------------------------------------------------------------------------------


def test_the_bars_of_the_timeline_are_as_wide_as_the_times(world: ApiWorld) -> None:
    world.create("train")
    host = world.host("train")
    job = world.job("train")
    world.clock.turn(30)
    running = timeline(job, world.engine.now_ms())
    assert running.running
    assert running.seconds == pytest.approx((world.engine.now_ms() - job.created_ms) / 1000)
    last = running.steps[-1]
    # What lasts still reaches to now.
    assert last.left + last.width == pytest.approx(100, abs=0.01)
    assert last.width > 90
    host.end(0)
    ended = timeline(world.ended("train"), 10**15)
    for step in ended.steps:
        took = 0 if step.entry.end_ms is None else step.entry.end_ms - step.entry.start_ms
        assert step.width == pytest.approx(took / (ended.seconds * 1000) * 100, abs=0.01)
    assert sum(step.width for step in ended.steps) == pytest.approx(100, abs=0.02)
    text = world.page(JOB).data.decode()
    widths = [float(width) for width in re.findall(r'class="bar \w+" x="[\d.]+%" width="([\d.]+)%"', text)]
    assert widths == [step.width for step in ended.steps if step.width]


def test_a_chart_has_the_smaller_units_of_its_unit() -> None:
    curve = Curve("compiler", "sagelet:from_device_bytes", "From the device so far", "B", (0.0, 1.0), (4.0, 5e6))
    (chart,) = charts([curve])["compiler"]
    assert (chart["unit"], chart["smaller"]) == ("MiB", [("KiB", 1024.0), ("B", 2.0**20)])
    assert smaller("B", Unit("B")) == smaller("samples/s", Unit("samples/s")) == []
