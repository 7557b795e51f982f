"""Instance metrics: units, minutes, and that they never cost a job anything."""

import os
import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.base.volume import GIB, Taken, Volume
from sagelet_engine.instances import gpu_gauge
from sagelet_engine.instances.gpu_gauge import GpuGauge
from sagelet_engine.model.runtime import Handle, Usage
from sagelet_engine.runtimes.docker.engine import usage as docker_usage
from sagelet_engine.telemetry.usage import Gauges, HostMeter
from support.fakes import FakeRuntime
from support.world import World, key, until

START = 1_700_000_000_000


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path, 1)


@pytest.fixture
def meter(volume: Volume) -> HostMeter:
    return HostMeter(Gauges(Handle("algo-1", "ref", START), volume, GpuGauge(())))


def used(cpu_seconds: float, memory: int = 1) -> Usage:
    return Usage(cpu_seconds, memory, 1000)


def values(points: list[Any]) -> dict[str, float]:
    assert {point.host for point in points} <= {"algo-1"}
    return {point.name: point.value for point in points}


# --- units and minutes ----------------------------------------------------------------------------------------------


def test_cpu_is_the_sum_over_cores_and_memory_the_share_of_the_limit(meter: HostMeter) -> None:
    meter.look(START + 1000, used(3.0, 100))
    assert not meter.complete
    meter.look(START + 60_000, used(150.0, 250))
    assert meter.complete
    found = values(meter.points())
    assert found == {"CPUUtilization": 250.0, "MemoryUtilization": 25.0, "DiskUtilization": 0.0}


def test_a_minute_begins_where_the_last_one_ended(meter: HostMeter) -> None:
    meter.look(START + 1000, used(1.0))
    meter.look(START + 61_000, used(61.0))
    assert values(meter.points())["CPUUtilization"] == 100.0
    meter.look(START + 90_000, used(61.0))
    assert not meter.complete
    meter.look(START + 121_000, used(91.0))
    last = meter.points()
    assert values(last)["CPUUtilization"] == 50.0
    assert {point.time_ms for point in last} == {START + 121_000}


def test_a_job_of_seconds_gives_one_point_when_it_ends(meter: HostMeter) -> None:
    meter.look(START + 500, used(0.5))
    meter.look(START + 2000, used(4.0))
    assert values(meter.points())["CPUUtilization"] == 200.0
    assert meter.points() == []


def test_a_host_that_was_never_seen_gives_none(meter: HostMeter) -> None:
    assert meter.points() == []
    assert not meter.complete


def test_a_host_that_was_taken_over_is_counted_from_then_on(meter: HostMeter) -> None:
    hour = START + 3_600_000
    meter.look(hour, used(9000.0))
    assert not meter.complete
    meter.look(hour + 60_000, used(9030.0))
    assert values(meter.points())["CPUUtilization"] == 50.0


def test_time_that_stands_still_gives_no_point_and_time_that_goes_back_begins_anew(meter: HostMeter) -> None:
    meter.look(START, used(1.0))
    assert meter.points() == []
    meter.look(START - 3_600_000, used(2.0))
    assert meter.points() == []
    meter.look(START - 3_590_000, used(7.0))
    assert values(meter.points())["CPUUtilization"] == 50.0


def test_cpu_time_that_goes_back_is_none(meter: HostMeter) -> None:
    meter.look(START + 1000, used(5.0))
    assert values(meter.points())["CPUUtilization"] == 500.0
    meter.look(START + 2000, used(4.0))
    assert values(meter.points())["CPUUtilization"] == 0.0


def test_a_host_that_has_ended_shows_the_memory_that_it_had(meter: HostMeter) -> None:
    # Its zombies hold no memory, and a minute reports the last look.
    meter.look(START + 1000, used(1.0, 100))
    meter.look(START + 2000, used(4.0, 0))
    assert values(meter.points()) == {"CPUUtilization": 200.0, "MemoryUtilization": 10.0, "DiskUtilization": 0.0}


def test_a_host_without_processes_is_not_measured(meter: HostMeter) -> None:
    meter.look(START + 1000, used(0.0, 0))
    assert meter.points() == []


# --- the volume -----------------------------------------------------------------------------------------------------


def test_the_volume_is_what_the_job_directory_takes_of_its_size(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "data").write_bytes(os.urandom(GIB // 64))
    os.link(tmp_path / "a" / "b" / "data", tmp_path / "again")
    (tmp_path / "outside").symlink_to("/usr")
    (tmp_path / "sparse").touch()
    os.truncate(tmp_path / "sparse", GIB)
    assert Volume(tmp_path, 1).percent() == pytest.approx(100 / 64, abs=0.1)
    assert Volume(tmp_path, 4).percent() == pytest.approx(100 / 256, abs=0.1)
    assert Volume(tmp_path, 1, ("a/b",)).percent() == pytest.approx(100 / 64, abs=0.1), "the other link counts"
    (tmp_path / "again").unlink()
    assert Volume(tmp_path, 1, ("a/b",)).percent() == pytest.approx(0, abs=0.1)


def test_a_request_without_a_size_is_held_against_the_file_system(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x" * 1_000_000)
    assert 0 < Volume(tmp_path, 0).percent() < 100


def test_a_directory_that_is_gone_takes_nothing(tmp_path: Path) -> None:
    assert Volume(tmp_path / "gone", 1).percent() == 0


def test_a_walk_that_took_long_is_not_repeated_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def slow_walk(*_: object) -> Taken:
        now[0] += 1.0
        return Taken(0, GIB // 2, 1)

    monkeypatch.setattr("sagelet_engine.base.volume.time.monotonic", lambda: now[0])
    monkeypatch.setattr("sagelet_engine.base.volume.measured", slow_walk)
    volume = Volume(tmp_path, 1)
    for _ in range(100):
        assert volume.percent() == 50.0
    assert now[0] == 1.0
    now[0] += 200
    volume.percent()
    assert now[0] == 202.0


# --- GPUs -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """NVIDIA's library with two GPUs: 30 % and 90 % busy, a half and a quarter of their memory in use."""
    gpus = {"GPU-a": (30, 50, 100), "GPU-b": (90, 25, 100)}
    calls: list[str] = []
    library = SimpleNamespace(
        calls=calls,
        nvmlInit=lambda: calls.append("init"),
        nvmlDeviceGetHandleByUUID=lambda uuid: gpus[uuid],
        nvmlDeviceGetUtilizationRates=lambda gpu: SimpleNamespace(gpu=gpu[0]),
        nvmlDeviceGetMemoryInfo=lambda gpu: SimpleNamespace(used=gpu[1], total=gpu[2]),
    )
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr(gpu_gauge, "_nvml", [])
    return library


def test_gpu_values_are_sums_over_the_gpus_of_the_host(nvml: SimpleNamespace) -> None:
    gauge = GpuGauge(("GPU-a", "GPU-b"))
    assert gauge.read() == gauge.read() == (120.0, 75.0)
    assert GpuGauge(("GPU-b",)).read() == (90.0, 25.0)
    assert nvml.calls == ["init"]


def test_without_a_gpu_the_library_is_not_loaded(nvml: SimpleNamespace) -> None:
    assert GpuGauge(()).read() is None
    assert nvml.calls == []


def test_a_gpu_that_is_lost_is_left_out_and_asked_no_more(nvml: SimpleNamespace, caplog: Any) -> None:
    gauge = GpuGauge(("GPU-gone",))
    assert gauge.read() is None
    assert gauge.read() is None
    assert len([record for record in caplog.records if "GPU metrics" in record.message]) == 1
    assert gauge.fault == "KeyError: 'GPU-gone'"


def test_gpu_metrics_are_the_mean_of_the_looks(nvml: SimpleNamespace, volume: Volume) -> None:
    meter = HostMeter(Gauges(Handle("algo-1", "ref", START), volume, GpuGauge(("GPU-a",))))
    meter.look(START + 1000, used(0))
    nvml.nvmlDeviceGetUtilizationRates = lambda gpu: SimpleNamespace(gpu=70)
    meter.look(START + 60_000, used(0))
    found = values(meter.points())
    assert (found["GPUUtilization"], found["GPUMemoryUtilization"]) == (50.0, 50.0)
    page = (Path(__file__).parents[3] / "docs/reference/logs-and-metrics.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| ((?:\w+Utilization(?:, )?)+) \|", page, re.MULTILINE)
    assert set(", ".join(documented).split(", ")) == set(found)


# --- what Docker says -----------------------------------------------------------------------------------------------


def stats(memory: dict[str, Any]) -> dict[str, Any]:
    return {"cpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000}}, "memory_stats": memory}


@pytest.mark.parametrize("cache", ["inactive_file", "total_inactive_file"])
def test_page_cache_does_not_count(cache: str) -> None:
    found = docker_usage(stats({"usage": 700, "limit": 1000, "stats": {cache: 200}}))
    assert found == Usage(2.5, 500, 1000)


def test_a_container_that_does_not_run_has_no_usage() -> None:
    assert docker_usage(stats({})) is None


# --- in a job -------------------------------------------------------------------------------------------------------


def host_points(world: World, name: str) -> list[Any]:
    return world.engine._store.points.of_hosts(world.job(name).id)


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagelet_engine.telemetry.usage.LOOKS", (0.005,))


@pytest.mark.usefixtures("quick_looks")
def test_a_job_has_points_of_each_minute_and_they_come_back_at_a_restart(world: World) -> None:
    world.create("one")
    host = world.host("one")
    host.usage = Usage(0.0, 100, 1000)
    world.clock.turn(1)
    host.usage = Usage(2.0, 100, 1000)
    until(lambda: (world.clock.turn(10), host_points(world, "one"))[1])
    host.end(0)
    world.ended("one")
    stored = host_points(world, "one")
    assert {point.host for point in stored} == {"algo-1"}
    assert {point.name for point in stored} == {"CPUUtilization", "MemoryUtilization", "DiskUtilization"}
    seen = [point for job, point in world.metrics.points if job == "one"]
    assert sorted(seen, key=str) == sorted(stored, key=str)
    world.metrics.points.clear()
    world.restart()
    until(lambda: len(world.metrics.points) == len(stored))
    assert [point for _, point in world.metrics.points] == stored
    world.engine.jobs.delete(key("one"))
    assert world.engine._store._rows("SELECT count(*) FROM host_points") == [(0,)]


@pytest.mark.usefixtures("quick_looks")
def test_what_cannot_be_read_fails_no_job_and_is_said_once(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = threading.Semaphore(0)

    def broken(_self: FakeRuntime, _handle: Handle) -> Usage:
        looks.release()
        raise ZeroDivisionError

    monkeypatch.setattr(FakeRuntime, "usage", broken)
    world.create("one")
    for _ in range(3):
        assert looks.acquire(timeout=120)
    world.host("one").end(0)
    assert world.ended("one").status.value == "Completed"
    assert len([record for record in caplog.records if "instance metrics" in record.message]) == 1


@pytest.mark.usefixtures("quick_looks")
def test_an_engine_that_does_not_answer_costs_the_looks_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter([RuntimeUnavailable("down"), None, Usage(1.0, 1, 10)])
    last = Usage(1.0, 1, 10)

    def sometimes(_self: FakeRuntime, _handle: Handle) -> Usage | None:
        found = next(calls, last)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(FakeRuntime, "usage", sometimes)
    world.create("one")
    world.host("one")
    until(lambda: (world.clock.turn(10), host_points(world, "one"))[1])
    world.host("one").end(0)
    assert world.ended("one").status.value == "Completed"


def test_a_look_that_hangs_holds_no_job_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagelet_engine.telemetry.usage.LOOKS", (0.001,))
    looking, answer = threading.Event(), threading.Event()

    def hanging(_self: FakeRuntime, _handle: Handle) -> Usage:
        looking.set()
        assert answer.wait(120)
        return Usage(1.0, 100, 1000)

    monkeypatch.setattr(FakeRuntime, "usage", hanging)
    world.create("one")
    assert looking.wait(120)
    world.host("one").end(0)
    assert world.ended("one").status.value == "Completed"
    answer.set()
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "usage"])
    assert host_points(world, "one") == []


def test_no_look_is_written_once_the_server_goes_down(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagelet_engine.telemetry.usage.LOOKS", (0.001,))
    world.create("one")
    host = world.host("one")
    host.usage = Usage(1.0, 100, 1000)
    store = world.engine._store
    world.engine.close()
    monkeypatch.setattr(type(store.points), "put_host", lambda *_: pytest.fail("written after the end"))
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "usage"])
    world.engine = world.boot()
