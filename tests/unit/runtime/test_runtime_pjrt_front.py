"""The library before a PJRT plugin, driven as torch_xla would, with a plugin of our own behind it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sagelet_runtime.gpu import compile_cache, pjrt_front
from support.cache_jobs import SUPPORT, build_plugin


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Our front and the fake plugin."""
    directory = tmp_path_factory.mktemp("pjrt")
    front, plugin = directory / "front.so", directory / "plugin.so"
    pjrt_front.build(front)
    build_plugin(plugin)
    return front, plugin


class Machine:
    """Processes that compile through the front; they share a cache."""

    def __init__(self, libraries: tuple[Path, Path], cache: Path) -> None:
        self._front, self._plugin = libraries
        self.cache = cache
        self._errors = cache.with_name("stderr.txt")
        cache.mkdir()

    def start(self, *programs: str, **variables: str) -> "subprocess.Popen[str]":
        environ = {"SAGELET_PJRT_PLUGIN": str(self._plugin), "SAGELET_COMPILE_CACHE": str(self.cache), **variables}
        command = [sys.executable, str(SUPPORT / "pjrt_driver.py"), str(self._front), *programs]
        with self._errors.open("w") as errors:
            return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=errors, text=True)

    def said(self) -> str:
        """Returns what the last process wrote to stderr."""
        return self._errors.read_text()

    def compile(self, *programs: str, **variables: str) -> dict[str, Any]:
        out, _ = self.start(*programs, **variables).communicate(timeout=60)
        found: dict[str, Any] = json.loads(out)
        return found

    def entries(self) -> list[Path]:
        return sorted(path for path in self.cache.iterdir() if len(path.name) == 64)

    def broken(self) -> list[str]:
        return [path.stem for path in self.cache.glob("*.broken")]


@pytest.fixture
def machine(libraries: tuple[Path, Path], tmp_path: Path) -> Machine:
    return Machine(libraries, tmp_path / "cache")


def test_what_one_process_compiled_the_next_one_reads(machine: Machine) -> None:
    cold = machine.compile("step", "eval")
    assert (cold["made"], cold["compilations"]) == (["compiled step", "compiled eval"], 2)
    assert (cold["hits"], cold["misses"], cold["written"]) == (0, 2, 2)
    assert cold["alive"] == 2, "the trial of the first entry and the inner executables are let go"
    warm = machine.compile("step", "eval", "new")
    assert warm["made"] == ["loaded step", "loaded eval", "compiled new"]
    assert (warm["hits"], warm["misses"], warm["compilations"]) == (2, 1, 1)
    assert warm["enabled"] == 1
    assert len(machine.entries()) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"XLA_FLAGS": "--xla_gpu_enable_fast_math=true"},
        {"SAGELET_COMPILE_KEY": "torch_xla 2.9.0"},
        {"PJRT_NPROC": "1"},
        {"FAKE_VERSION": "cuda 12090"},
        {"FAKE_KIND": "NVIDIA A100"},
        {"OPTIONS": "num_replicas: 2"},
    ],
)
def test_flags_versions_platform_device_and_options_are_in_the_key(machine: Machine, change: dict[str, str]) -> None:
    machine.compile("step")
    assert machine.compile("step", **change)["made"] == ["compiled step"]
    assert machine.compile("step")["made"] == ["loaded step"]
    assert len(machine.entries()) == 2


@pytest.mark.parametrize("how", ["cut", "changed", "empty"])
def test_an_entry_that_is_not_whole_is_compiled_again(machine: Machine, how: str) -> None:
    machine.compile("step")
    (entry,) = machine.entries()
    data = entry.read_bytes()
    entry.write_bytes({"cut": data[:-1], "changed": data[:-1] + b"?", "empty": b""}[how])
    again = machine.compile("step")
    assert (again["made"], again["hits"], again["misses"]) == (["compiled step"], 0, 1)
    assert entry.read_bytes() == data
    assert machine.broken() == [entry.name], "the engine drops its own"
    assert machine.compile("step")["hits"] == 1


def test_reading_an_entry_leaves_its_mark_and_nothing_else_does(machine: Machine) -> None:
    machine.compile("step", "eval")
    for entry in machine.entries():
        os.utime(entry, (1, 1))
    machine.compile("step")
    assert sorted(entry.stat().st_mtime == 1 for entry in machine.entries()) == [False, True]


@pytest.mark.parametrize(
    ("cannot", "reason"),
    [
        ("load", "the plugin cannot read back what it serialized"),
        ("serialize", "the plugin cannot serialize executables"),
    ],
)
def test_a_plugin_that_cannot_read_back_has_no_cache_and_says_so(machine: Machine, cannot: str, reason: str) -> None:
    found = machine.compile("step", "eval", FAKE_PLUGIN=cannot)
    assert found["made"] == ["compiled step", "compiled eval"]
    assert (found["enabled"], found["reason"], found["errors"]) == (0, reason, 0)
    assert machine.entries() == []


def test_an_entry_that_the_plugin_refuses_is_replaced(machine: Machine) -> None:
    machine.compile("step")
    (entry,) = machine.entries()
    found = machine.compile("step", FAKE_PLUGIN="load")
    assert (found["made"], found["errors"]) == (["compiled step"], 0)
    assert (machine.entries(), machine.broken()) == ([], [entry.name])


def test_an_error_of_the_compiler_is_the_caller_s(machine: Machine) -> None:
    found = machine.compile("step", FAKE_PLUGIN="compile")
    assert (found["made"], found["written"], found["errors"]) == (["error"], 0, 1)


@pytest.mark.parametrize(("cache", "reason"), [("", "no cache was given"), ("/nowhere/at/all", "cannot be used")])
def test_without_a_directory_nothing_is_kept(machine: Machine, cache: str, reason: str) -> None:
    found = machine.compile("step", "step", SAGELET_COMPILE_CACHE=cache)
    assert found["made"] == ["compiled step", "compiled step"]
    assert (found["enabled"], found["hits"], found["misses"]) == (0, 0, 0)
    assert reason in found["reason"]


def test_workers_that_compile_at_once_leave_whole_entries(machine: Machine) -> None:
    programs = [f"program {number} " + "x" * 100_000 for number in range(20)]
    workers = [machine.start(*programs) for _ in range(4)]
    for worker in workers:
        out, _ = worker.communicate(timeout=60)
        assert len(json.loads(out)["made"]) == 20
    assert machine.compile(*programs)["hits"] == 20
    assert {path.name for path in machine.cache.iterdir()} == {path.name for path in machine.entries()}


def test_the_platform_has_another_name_where_one_is_asked_for(machine: Machine) -> None:
    assert machine.compile()["name"] == "cuda"
    assert machine.compile(SAGELET_PJRT_NAME="xlagpu")["name"] == "xlagpu"


def test_a_plugin_of_an_older_api_is_refused_with_both_versions(machine: Machine) -> None:
    old = {"FAKE_API": "70", "SAGELET_PJRT_OLDEST": "75", "SAGELET_PJRT_LABEL": "jax-cuda12-pjrt 0.6.2"}
    process = machine.start("step", **old)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out) == {"api": None}
    assert machine.said() == (
        "sagelet: the PJRT plugin jax-cuda12-pjrt 0.6.2 has PJRT C API 0.70, and torch_xla needs 0.75 or newer: "
        "install a newer plugin\n"
    )
    assert machine.compile("step", **{**old, "FAKE_API": "75"})["api"] == 75


@pytest.mark.parametrize("api", ["70", "75", "116"])
def test_a_plugin_of_a_later_api_gets_structs_of_its_size(machine: Machine, api: str) -> None:
    """As XLA's plugins, which refuse a shorter struct: `Unexpected PJRT_ExecuteOptions size: expected 112, got 80`."""
    cold = machine.compile("step", FAKE_API=api)
    assert (cold["made"], cold["executed"], cold["errors"], cold["api"]) == (["compiled step"], True, 0, int(api))
    assert machine.compile("step", FAKE_API=api)["made"] == ["loaded step"]
    assert machine.compile("step", FAKE_API="117")["made"] == ["compiled step"]


def test_a_plugin_that_is_none_is_refused(machine: Machine, libraries: tuple[Path, Path]) -> None:
    assert machine.compile("step", FAKE_PLUGIN="grow") == {"api": None}


def test_the_built_library_does_not_hide_its_module(tmp_path: Path, libraries: tuple[Path, Path]) -> None:
    package = tmp_path / "sagelet_runtime"
    shutil.copytree(pjrt_front.SOURCE.parents[1], package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(libraries[0], package / "gpu" / pjrt_front.BUILT_IN.name)
    code = "from sagelet_runtime.gpu import compile_cache, pjrt_front; print(pjrt_front.library())"
    asked = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert asked.stdout.strip() == str(package / "gpu" / pjrt_front.BUILT_IN.name)


def test_it_is_made_for_a_user_who_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pjrt_front, "BUILT_IN", tmp_path / "none.so")
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    made = pjrt_front.library()
    assert made.is_file()
    first = made.stat().st_ino
    assert pjrt_front.library().stat().st_ino == first
    made.parent.chmod(0o777)
    with pytest.raises(pjrt_front.FrontUnavailable, match="belongs to another user"):
        pjrt_front.library()


def test_a_worker_reports_what_the_cache_did(
    machine: Machine, libraries: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import json, sys, pjrt_driver; from sagelet_runtime.gpu import compile_cache; "
        "pjrt_driver.compile_all(sys.argv[1], sys.argv[2:]); "
        "print(json.dumps([compile_cache.figures(), compile_cache.client()]))"
    )
    environ = {
        "PYTHONPATH": f"{SUPPORT}:{pjrt_front.SOURCE.parents[2]}",
        "SAGELET_PJRT_PLUGIN": str(libraries[1]),
        "SAGELET_PJRT_FRONT": str(libraries[0]),
        "SAGELET_COMPILE_CACHE": str(machine.cache),
        "SAGELET_PJRT_LABEL": "jax-cuda12-pjrt 0.6.2",
        "PJRT_DEVICE": "CUDA",
    }
    machine.compile("step")
    command = [sys.executable, "-c", code, str(libraries[0]), "step", "new"]
    out = subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout
    told = json.loads(out.splitlines()[-1])
    assert told == [{"enabled": True, "reason": "", "hits": 1, "misses": 1}, "jax-cuda12-pjrt 0.6.2 (PJRT C API 0.70)"]
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    off = {"enabled": False, "reason": compile_cache.CPU_REASON, "hits": 0, "misses": 0}
    assert (compile_cache.figures(), compile_cache.client()) == (off, "")


def executions(machine: Machine, scenario: str, **variables: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "support.pjrt_executions", str(machine._front), scenario]
    environ = {"SAGELET_PJRT_PLUGIN": str(machine._plugin), "PYTHONPATH": f"{SUPPORT.parent}", **variables}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_program_is_done_when_the_device_says_so_and_not_when_its_call_returns(machine: Machine) -> None:
    seen = executions(machine, "main")
    assert seen["before"] == [2, None, None]
    assert seen["arguments"] == 3 + 4
    assert seen["half"] is None  # It runs on two devices, and has ended on one.
    assert all(late >= 0 for late in seen["late"])
    programs = {one["name"]: one["count"] for one in seen["document"]["programs"]}
    assert programs == {"compiled step": 2, "compiled rest": 1}
    # torch_xla destroys its own events; the front destroyed the one that nobody had asked for.
    assert seen["events"] == [2, 3]
    assert seen["document"]["deepest_queue"] == 2


def test_busy_and_idle_time_of_the_device_do_not_overlap(machine: Machine) -> None:
    seen = executions(machine, "main")
    # Each of the four ends comes 10 ms after what was before it. The two queued programs overlap, and count once.
    assert 0.04 <= seen["busy"] <= seen["wall"] - 0.02
    assert seen["document"]["idle_seconds"] >= 0.02
    assert seen["refused"] == 1


def test_an_execution_that_the_plugin_refuses_is_not_waited_for(machine: Machine) -> None:
    assert executions(machine, "failing", FAKE_PLUGIN="execute") == {"ran": False, "dispatched": 1, "done": True}


def test_the_plugin_is_never_asked_with_the_lock_that_its_callbacks_need(machine: Machine) -> None:
    seen = executions(machine, "ending")
    assert seen["done"]
    assert sorted((one["name"], one["count"]) for one in seen["programs"]) == [
        ("compiled first", 1),
        ("compiled second", 1),
    ]


def test_ends_of_long_ago_are_forgotten(machine: Machine) -> None:
    seen = executions(machine, "flooding")
    assert (seen["old"], seen["new"]) == (0.0, True)
    assert [one["count"] for one in seen["count"]] == [5000]


def test_without_memory_an_execution_goes_on_unwatched(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of the six had none. It crashed in the script's process."""
    source = tmp_path / "short_of_memory.c"
    source.write_text(
        "#define _GNU_SOURCE\n#include <stdlib.h>\nint no_memory;\n"
        f'#define malloc(size) (no_memory ? NULL : malloc(size))\n#include "{pjrt_front.SOURCE}"\n'
    )
    monkeypatch.setattr(pjrt_front, "SOURCE", source)
    machine._front = tmp_path / "front.so"
    pjrt_front.build(machine._front)
    seen = executions(machine, "starving")
    assert seen == {"table": None, "ran": [[True, True]] * 3, "lost": 2, "dispatched": 4}
