"""smdebug's names where smdebug is not."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_runtime import stand_ins


@pytest.fixture(autouse=True)
def _activated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    stand_ins.activate()
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "smdebug"]:
        del sys.modules[name]


def test_a_script_registers_its_model_and_nothing_happens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    smd: Any = importlib.import_module("smdebug.pytorch")
    said = capsys.readouterr().out
    assert said.startswith("sagelet: smdebug is a stand-in here")
    assert len(said.splitlines()) == 1
    assert smd.get_hook(create_if_not_exists=True) is None, "as on AWS without DebuggerHookConfig"
    config = smd.SaveConfig(save_interval=10, mode_save_configs={smd.modes.TRAIN: smd.SaveConfigMode(save_interval=5)})
    hook = smd.Hook(
        out_dir=str(tmp_path / "x"), export_tensorboard=True, save_config=config, include_collections=["losses"]
    )
    model = object()
    hook.register_module(model)
    hook.register_loss(model)
    hook.set_mode(smd.modes.TRAIN)
    hook.get_collection("losses").include("loss")
    hook.add_collection(smd.Collection("mine", include_regex="relu"))
    hook.save_scalar("accuracy", 0.5, sm_metric=True)
    hook.record_tensor_value("loss", model)
    hook.close()
    assert sorted(hook.get_collections()) == ["losses", "mine"]
    assert isinstance(smd.Hook.create_from_json_file(), smd.Hook)
    assert capsys.readouterr().out == ""
    assert list(tmp_path.iterdir()) == []


def test_what_the_job_installed_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "smdebug").mkdir()
    (tmp_path / "smdebug/__init__.py").write_text("REAL = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("smdebug").REAL
