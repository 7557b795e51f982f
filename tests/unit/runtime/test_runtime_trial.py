"""A plugin is tried once: the verdict counts until anything that it depends on changes."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sagelet_runtime.base import installed
from sagelet_runtime.gpu import plugin as gpu
from sagelet_runtime.gpu import probe, trial
from support.cache_jobs import build_plugin

A, B = "GPU-00000000-0000-0000-0000-00000000000a", "GPU-00000000-0000-0000-0000-00000000000b"


class Host:
    """A host with GPUs; `verdicts` is what the engine gives to its jobs."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._tmp_path = tmp_path
        self.verdicts = tmp_path / "verdicts"
        self.verdicts.mkdir()
        library = tmp_path / "plugin.so"
        library.write_bytes(b"a plugin")
        self.plugin = gpu.Plugin(gpu.Route("CUDA"), str(library), "jax-cuda12-pjrt")
        self.gpus(f"{A}, NVIDIA H100, 570.86.15, 81559 MiB")
        self.environ = {
            "PATH": f"{tmp_path}/bin:/usr/bin:/bin", "SAGELET_COMPILE_CACHE": str(self.verdicts), "PJRT_DEVICE": "CUDA",
            "SAGELET_COMPILE_KEY": "torch 2.9.0", "CUDA_VISIBLE_DEVICES": A,
        }  # fmt: skip
        self.result = probe.Result(None, "0.116")
        self.trials = 0
        monkeypatch.setattr(probe, "probe", self._probe)
        monkeypatch.setattr(installed, "recorded_digest", lambda _distribution, _path: "sha256=a")

    def gpus(self, *rows: str) -> None:
        tool = self._tmp_path / "bin" / "nvidia-smi"
        tool.parent.mkdir(exist_ok=True)
        tool.write_text("#!/bin/sh\n" + "".join(f"echo '{row}'\n" for row in rows))
        tool.chmod(0o755)

    def _probe(self, _environ: object) -> probe.Result:
        self.trials += 1
        return self.result

    def tried(self, **variables: str) -> trial.Verdict:
        return trial.tried(self.plugin, {**self.environ, **variables})


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(tmp_path, monkeypatch)


def test_a_plugin_that_works_is_tried_once(host: Host) -> None:
    first = host.tried()
    assert (first.works, first.api, first.kept, first.when) == (True, "0.116", False, "")
    (file,) = host.verdicts.iterdir()
    os.utime(file, (1, 1))
    again = host.tried()
    assert (again.works, again.api, again.kept, host.trials) == (True, "0.116", True, 1)
    assert again.when.endswith(" UTC")
    assert file.stat().st_mtime != 1, "the engine sees that it was used"
    host.tried(SAGELET_GPU_TRIAL="always")
    assert host.trials == 2


def _library_changes(host: Host, _monkeypatch: pytest.MonkeyPatch) -> None:
    Path(host.plugin.path).write_bytes(b"b plugin")


def _recorded_digest_changes(_host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "recorded_digest", lambda _distribution, _path: "sha256=b")


def _driver_changes(host: Host, _monkeypatch: pytest.MonkeyPatch) -> None:
    host.gpus(f"{A}, NVIDIA H100, 580.65.06, 81559 MiB")


def _model_changes(host: Host, _monkeypatch: pytest.MonkeyPatch) -> None:
    host.gpus(f"{A}, NVIDIA T4, 570.86.15, 15360 MiB")


def _versions_change(host: Host, _monkeypatch: pytest.MonkeyPatch) -> None:
    host.environ["SAGELET_COMPILE_KEY"] = "torch 2.8.0"


def _flags_change(host: Host, _monkeypatch: pytest.MonkeyPatch) -> None:
    host.environ["XLA_FLAGS"] = "--xla_gpu_autotune_level=0"


def _patience_changes(host: Host, _monkeypatch: pytest.MonkeyPatch) -> None:
    host.environ[probe.SECONDS] = "600"


def _own_code_changes(_host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_own_code", lambda: "another")


@pytest.mark.parametrize(
    "change",
    [
        _library_changes, _recorded_digest_changes, _driver_changes, _model_changes, _versions_change, _flags_change,
        _patience_changes, _own_code_changes,
    ],
)  # fmt: skip
def test_a_verdict_is_of_what_it_was_tried_with(
    host: Host, monkeypatch: pytest.MonkeyPatch, change: Callable[[Host, pytest.MonkeyPatch], None]
) -> None:
    host.tried()
    change(host, monkeypatch)
    host.result = probe.Result("it does not work")
    assert host.tried().reason == "it does not work"
    assert host.trials == 2


def test_what_differs_from_job_to_job_is_not_in_the_key(host: Host) -> None:
    host.gpus(f"{A}, NVIDIA H100, 570.86.15, 81559 MiB", f"{B}, NVIDIA H100, 570.86.15, 81559 MiB")
    for job, gpu_uuid in (("1", A), ("2", B)):
        own = {"SAGEMAKER_BASE_DIR": f"/jobs/{job}/ml", "PYTHONUSERBASE": f"/jobs/{job}/run/packages"}
        path = f"/jobs/{job}/ml/code:/jobs/{job}/run/packages/lib"
        host.tried(**own, PYTHONPATH=path, CUDA_VISIBLE_DEVICES=gpu_uuid, SAGELET_MASTER_PORT=job)
    assert host.trials == 1


def test_gpus_of_several_models_are_told_apart_by_their_uuids(host: Host) -> None:
    host.gpus(f"{A}, NVIDIA H100, 570.86.15, 81559 MiB", f"{B}, NVIDIA T4, 570.86.15, 15360 MiB")
    host.tried()
    host.tried(CUDA_VISIBLE_DEVICES=B)
    assert (host.trials, len(list(host.verdicts.iterdir()))) == (2, 2)
    for _ in range(2):
        host.tried(CUDA_VISIBLE_DEVICES="0")
    assert (host.trials, len(list(host.verdicts.iterdir()))) == (4, 2), "a number does not say which model"


def test_without_the_driver_s_tool_each_job_tries(host: Host) -> None:
    for _ in range(2):
        host.tried(PATH="/nowhere")
    assert (host.trials, list(host.verdicts.iterdir())) == (2, [])


@pytest.mark.parametrize("directory", ["", "/nowhere/at/all"])
def test_without_a_cache_each_job_tries(host: Host, directory: str) -> None:
    for _ in range(2):
        assert host.tried(SAGELET_COMPILE_CACHE=directory).works
    assert host.trials == 2


def test_a_failed_trial_counts_for_an_hour(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.result = probe.Result("No visible GPU devices.", "0.116")
    assert host.tried().reason == "No visible GPU devices."
    again = host.tried()
    assert (again.works, again.reason, again.kept, host.trials) == (False, "No visible GPU devices.", True, 1)
    monkeypatch.setattr(trial.time, "time", lambda: again.tried_s + trial.FAILED_FOR)
    host.result = probe.Result(None, "0.116")
    assert host.tried().works
    monkeypatch.undo()
    (file,) = host.verdicts.iterdir()
    assert json.loads(file.read_text())["works"] is True


def test_a_trial_that_something_else_ended_is_no_verdict(host: Host) -> None:
    host.result = probe.Result("the process ended with signal 9", killed=True)
    assert not host.tried().works
    host.result = probe.Result(None, "0.116")
    assert (host.tried().works, host.trials) == (True, 2)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"works": true}', '{"works": 1, "reason": 1, "api": "", "tried_s": "x"}']
)
def test_a_verdict_that_is_none_is_not_counted(host: Host, content: str) -> None:
    host.tried()
    (file,) = host.verdicts.iterdir()
    file.write_text(content)
    assert (host.tried().kept, host.trials) == (False, 2)


def test_a_failed_trial_of_the_future_does_not_count(host: Host) -> None:
    host.result = probe.Result("it fails")
    host.tried()
    (file,) = host.verdicts.iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "tried_s": 2**40}))
    assert (host.tried().kept, host.trials) == (False, 2)


def test_a_disk_that_takes_no_verdict_fails_no_job(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert host.tried().works


#: torch and a torch_xla without a client.
FAKES = {
    "torch.py": "",
    "torch_xla/__init__.py": "def device(): raise RuntimeError('no client')",
    "torch_xla/experimental/plugins.py": "DevicePlugin = object\nuse_dynamic_plugins = register_plugin = print",
    "torch_xla-2.9.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch_xla\nVersion: 2.9.0\n",
}
TOO_OLD = (
    "it loaded the plugin: error: jax-cuda12-pjrt 0.6.2 has PJRT C API 0.70, and torch_xla 2.9.0 needs 0.75 or newer: "
    "install a newer one (pip install --upgrade jax-cuda12-pjrt)"
)
NO_CLIENT = "it created the plugin's client: RuntimeError: no client"


@pytest.mark.parametrize(
    ("minor", "oldest", "where"),
    [("70", "75", TOO_OLD), ("75", "75", NO_CLIENT), ("70", "70", NO_CLIENT), ("116", "75", NO_CLIENT)],
)
def test_the_trial_refuses_a_plugin_that_is_too_old(tmp_path: Path, minor: str, oldest: str, where: str) -> None:
    build_plugin(tmp_path / "plugin.so")
    for name, text in FAKES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    plugin = {gpu.PLUGIN: str(tmp_path / "plugin.so"), gpu.OLDEST: oldest, gpu.LABEL: "jax-cuda12-pjrt 0.6.2"}
    found = probe.probe({"PYTHONPATH": str(tmp_path), "PJRT_DEVICE": "CUDA", "FAKE_API": minor, **plugin})
    assert (found.api, found.problem) == (f"0.{minor}", f"the trial failed while {where}")


def test_pip_s_own_digest_is_read() -> None:
    (file,) = (one for one in Path(pytest.__file__).parent.iterdir() if one.name == "py.typed")
    assert installed.recorded_digest("pytest", str(file)).startswith("sha256=")
    assert installed.recorded_digest("pytest", "/no/such/library.so") == ""
    assert installed.recorded_digest("no-such-distribution", str(file)) == ""
