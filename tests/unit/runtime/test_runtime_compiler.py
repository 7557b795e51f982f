import logging
import re
from pathlib import Path

import pytest

from sagelet_runtime.base import installed
from sagelet_runtime.base.compiler import (
    CompilerConfig,
    CompilerConfigurationError,
    config_from_parameters,
    configure,
    parse_flag,
)
from sagelet_runtime.gpu.device import choose_device, thread_limit


@pytest.mark.parametrize("value", ["true", '"true"', True, "True", " TRUE "])
def test_true_in_every_form_that_clients_send(value: object) -> None:
    assert parse_flag("flag", value) is True


@pytest.mark.parametrize("value", ["false", '"false"', False, "False", None, ""])
def test_false_in_every_form_that_clients_send(value: object) -> None:
    assert parse_flag("flag", value) is False


def test_anything_else_is_refused_by_name() -> None:
    with pytest.raises(CompilerConfigurationError, match="sagemaker_x is 'on-ish'"):
        parse_flag("sagemaker_x", "on-ish")


def test_parameters_of_the_sdk() -> None:
    parameters = {
        "sagemaker_training_compiler_enabled": True,
        "sagemaker_training_compiler_debug_mode": "true",
        "sagemaker_pytorch_xla_multi_worker_enabled": "false",
        "sagemaker_estimator_class_name": "PyTorch",
    }
    assert config_from_parameters(parameters) == CompilerConfig(enabled=True, debug=True, multi_worker=False)
    assert config_from_parameters({}) == CompilerConfig()


def test_lines_in_aws_order_and_format(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    configure(CompilerConfig(enabled=True, debug=True), str(tmp_path), {}, logging.INFO)
    lines = capsys.readouterr().out.splitlines()
    head = r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} [\w.]+\.TrainingCompilerConfig "
    assert re.match(head + r"INFO\] Found configuration for Training Compiler$", lines[0])
    assert re.match(head + r"INFO\] Configuring SM Training Compiler\.\.\. $", lines[1])
    debug = (
        "Training Compiler set to debug mode. This may impact performance. "
        f"Debug artifacts will be saved in {tmp_path}/compiler. "
    )
    assert re.match(head + r"WARNING\] ", lines[2])
    assert lines[2].endswith(debug)
    assert len(lines) == 3


def test_what_the_user_set_stays_and_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    added = configure(CompilerConfig(enabled=True), str(tmp_path), {"GPU_NUM_DEVICES": "4"}, logging.INFO)
    assert added == {"SM_TRAINING_COMPILER_CONFIGURED": "1"}
    assert "WARNING] Found pre-existing configuration GPU_NUM_DEVICES=4." in capsys.readouterr().out


def test_debug_artifacts_lie_in_the_output_directory(tmp_path: Path) -> None:
    added = configure(CompilerConfig(enabled=True, debug=True), str(tmp_path), {}, logging.INFO)
    assert (tmp_path / "compiler").is_dir()
    assert added["XLA_METRICS_FILE"] == str(tmp_path / "compiler" / "XLA_METRICS_FILE.txt")


def test_device_and_its_reason() -> None:
    assert choose_device({"PJRT_DEVICE": "TPU"}, 0, "2.9.0").kind == "TPU"
    builtin = {"SAGELET_XLA_CLIENT": "builtin"}
    assert choose_device(builtin, 0, "2.9.0").kind == "CPU"
    gpus = choose_device(builtin, 2, "2.9.0")
    assert gpus.kind == "CPU"
    assert "2 GPU(s) stay unused" in gpus.reason


def test_thread_limit_follows_a_quota_below_the_affinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(8)))
    assert thread_limit(tmp_path) is None
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert thread_limit(tmp_path) is None
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert thread_limit(tmp_path) == 2
    (tmp_path / "cpu.max").write_text("1600000 100000\n")
    assert thread_limit(tmp_path) is None


def test_thread_limit_of_the_first_cgroup_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: set(range(8)))
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert thread_limit(tmp_path) is None
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("300000\n")
    assert thread_limit(tmp_path) == 3


def test_missing_or_unfit_torch_xla_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    versions: dict[str, str | None] = {"torch": "2.13.0", "torch_xla": None}
    monkeypatch.setattr(installed, "version", versions.get)
    monkeypatch.setattr(installed.util, "find_spec", lambda name: name)
    with pytest.raises(installed.TorchXlaUnavailable, match=r"torch_xla is not installed.*sagelet image build"):
        installed.require_torch_xla()
    versions["torch_xla"] = "2.9.0"
    with pytest.raises(installed.TorchXlaUnavailable, match=r"torch_xla 2\.9\.0 does not load with torch 2\.13\.0"):
        installed.require_torch_xla()
    versions["torch"] = "2.9.1"
    assert installed.require_torch_xla() == "2.9.0"
