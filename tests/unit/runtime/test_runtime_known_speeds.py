"""SAGELET_COMPILER=auto: what is taken, by which figures; and the key of a training."""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.data import compilation
from sagelet_engine.reports import known_speeds as kept
from sagelet_engine.reports.known_speeds import LENGTHS
from sagelet_runtime.base import training_key
from sagelet_runtime.inductor import choice
from sagelet_runtime.launch import known_speeds
from sagelet_runtime.launch.known_speeds import NATIVE, Run, choose

XLA, INDUCTOR = "xla", "inductor"


def test_server_and_container_mean_the_same() -> None:
    """The container's package is a distribution of its own, so each has the constants."""
    assert (kept.SUFFIX, kept.NATIVE, compilation.AUTO) == (known_speeds.SUFFIX, NATIVE, choice.AUTO)
    fields = {field.name for field in dataclasses.fields(kept.Speed)}
    assert {field.name for field in dataclasses.fields(Run)} <= fields


def ran(step: float, other: float, steps: int = 100, epochs: float = 1.0, ended_ms: int = 1) -> Run:
    return Run(step, other, steps, {"epochs": epochs}, ended_ms)


SLOW_START = {NATIVE: ran(1.0, 5.0), XLA: ran(0.5, 60.0), INDUCTOR: ran(0.4, 90.0)}


@pytest.mark.parametrize(
    ("runs", "gpus", "epochs", "expected"),
    [
        ({}, 0, 1, XLA),
        ({}, 1, 1, INDUCTOR),
        ({NATIVE: ran(1.0, 0.0), INDUCTOR: ran(0.1, 0.0)}, 0, 1, XLA),
        ({NATIVE: ran(1.0, 0.0), XLA: ran(0.1, 0.0)}, 1, 1, INDUCTOR),
        (SLOW_START, 0, 1, NATIVE),
        (SLOW_START, 0, 2, XLA),
        (SLOW_START, 0, 10, INDUCTOR),
        (SLOW_START, 1, 10, INDUCTOR),
        ({XLA: ran(0.5, 60.0)}, 0, 1, XLA),
    ],
    ids=[
        "nothing-known-cpu", "nothing-known-gpu", "start-unknown-cpu", "start-unknown-gpu", "short", "longer", "long",
        "long-gpu", "start-only",
    ],
)  # fmt: skip
def test_what_ends_sooner_is_taken(runs: dict[str, Run], gpus: int, epochs: int, expected: str) -> None:
    assert choose(runs, {"epochs": str(epochs)}, [], gpus).compiler == expected


def test_the_reason_names_all_that_is_known() -> None:
    reason = choose(SLOW_START, {"epochs": 2}, [], 0).reason
    assert reason == "200 steps take, by its earlier runs: by XLA 160 s, by Inductor 170 s, natively 205 s"


@pytest.mark.parametrize("value", ["x", "", "-1", "nan", None, "1e999"])
def test_a_length_that_is_no_number_is_as_long_as_the_last_run(value: object) -> None:
    assert choose(SLOW_START, {"epochs": value}, [], 0).reason.startswith("100 steps")


@pytest.mark.parametrize("text", [b"xs.mark_sharding(x, mesh, (0,))", b"xm.all_to_all(x, 0, 0, 2)"])
def test_scripts_that_only_xla_can_run_keep_it(text: bytes) -> None:
    assert choose(SLOW_START, {}, [b"import torch", text], 1).compiler == XLA


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{", '{"xla": 1}', '{"xla": {"step_seconds": "x"}}', '{"xla": {"step_seconds": 1}}', "\x00",
        '{"xla": {"step_seconds": 1, "other_seconds": 1, "steps": 1, "ended_ms": 1, "lengths": [1]}}',
        '{"xla": {"step_seconds": NaN, "other_seconds": 1, "steps": 1, "ended_ms": 1, "lengths": {}}}',
        '{"xla": {"step_seconds": 1e999, "other_seconds": 1, "steps": 1, "ended_ms": 1, "lengths": {}}}',
    ],
)  # fmt: skip
def test_a_table_that_cannot_be_read_tells_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "k.speeds").write_text(content)
    assert known_speeds.read(tmp_path, "k", {}) == {}
    assert known_speeds.read(tmp_path / "none", "k", {}) == {}


def test_a_table_is_read(tmp_path: Path) -> None:
    entry: dict[str, Any] = {
        "step_seconds": 0.5, "other_seconds": 60, "steps": 100, "ended_ms": 7, "lengths": {"epochs": 2}, "job": "j",
    }  # fmt: skip
    (tmp_path / "k.speeds").write_text(json.dumps({"xla": entry, "other": entry, "inductor SAGELET_XLA_CUT=0": entry}))
    assert known_speeds.read(tmp_path, "k", {}) == {XLA: Run(0.5, 60.0, 100, {"epochs": 2.0}, 7)}


def test_runs_of_xla_with_other_settings_are_other_runs(tmp_path: Path) -> None:
    entry = {"step_seconds": 0.5, "other_seconds": 60, "steps": 100, "ended_ms": 7, "lengths": {}}
    once = {"SAGELET_XLA_TRACING": "once", "SAGELET_XLA_CUT": "0", "SAGELET_COMPILER": "auto", "EPOCHS": "2"}
    name = known_speeds.entry_name(XLA, once)
    assert name == kept.entry_name(XLA, once) == "xla SAGELET_XLA_CUT=0 SAGELET_XLA_TRACING=once"
    assert known_speeds.entry_name(NATIVE, once) == kept.entry_name(NATIVE, once) == NATIVE
    (tmp_path / "k.speeds").write_text(json.dumps({name: entry | {"step_seconds": 0.3}, "xla": entry, NATIVE: entry}))
    runs = known_speeds.read(tmp_path, "k", once)
    assert {compiler: run.step_seconds for compiler, run in runs.items()} == {XLA: 0.3, NATIVE: 0.5}
    assert known_speeds.read(tmp_path, "k", {})[XLA].step_seconds == 0.5


def test_a_key_tells_scripts_and_shapes_apart(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("1")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.py").write_text("2")
    batch = training_key.shape({"batch_size": 8, "epochs": 1, "sagemaker_program": "train.py"}, "host")
    assert batch == training_key.shape({"batch_size": "8", "epochs": 2, "learning_rate": 1}, "host")
    assert batch != training_key.shape({"batch_size": 9}, "host") != training_key.shape({"batch_size": 9}, "other")
    environ = {training_key.VARIABLE: f"{batch}:{tmp_path}"}
    before = training_key.of_process(environ)
    assert len(before) == 64
    (tmp_path / "output.txt").write_text("data")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/x.py").write_text("cache")
    assert training_key.of_process(environ) == before
    (tmp_path / "sub/a.py").write_text("3")
    assert training_key.of_process(environ) not in ("", before)


def test_scripts_that_cannot_be_read_have_no_key(tmp_path: Path) -> None:
    environ = {training_key.VARIABLE: f"0:{tmp_path}"}
    assert training_key.of_process(environ) == training_key.of_process({}) == ""
    (tmp_path / "train.py").symlink_to("nowhere.py")
    assert training_key.of_process(environ) == ""


def test_what_is_no_file_is_no_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("1")
    alone = list(training_key.scripts(tmp_path))
    assert len(alone) == 1
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "zero.py").symlink_to("/dev/zero")
    (tmp_path / "terminal.py").symlink_to("/dev/tty")
    (tmp_path / "nowhere.py").symlink_to("nowhere")
    (tmp_path / "loop.py").symlink_to("loop.py")
    (tmp_path / "directory.py").mkdir()
    assert list(training_key.scripts(tmp_path)) == alone


@pytest.mark.parametrize("name", ["output_size", "num_outputs", "num_steps", "catalog", "alrm"])
def test_what_may_change_a_step_is_part_of_the_key(name: str) -> None:
    assert training_key.shape({name: 1}, "host") != training_key.shape({name: 2}, "host")


@pytest.mark.parametrize(
    "name", [*LENGTHS, "lr", "base-lr", "learning_rate", "seed", "warmup_steps", "output_dir", "logging_steps", "save"]
)
def test_what_changes_no_step_is_not_part_of_the_key(name: str) -> None:
    assert training_key.shape({name: 1}, "host") == training_key.shape({name: 2}, "host")


def test_a_directory_without_end_is_read_in_part(tmp_path: Path) -> None:
    for index in range(training_key.MOST + 10):
        (tmp_path / f"{index:04}.py").touch()
    assert len(list(training_key.scripts(tmp_path))) == training_key.MOST
