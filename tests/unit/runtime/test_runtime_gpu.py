"""The GPU plugin without a GPU: which one fits, what its processes get, and what a failed trial says."""

import textwrap
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from sagelet_runtime.base import installed
from sagelet_runtime.gpu import device, pjrt_front, probe, trial
from sagelet_runtime.gpu import plugin as gpu
from sagelet_runtime.gpu.device import choose_device
from sagelet_runtime.torch_xla import uncompiled

ONE_GPU = {"CUDA_VISIBLE_DEVICES": "GPU-00000000-0000-0000-0000-000000000000"}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of packages that comes first: a plugin without code."""
    library = tmp_path / "jax_plugins/xla_cuda12/xla_cuda_plugin.so"
    library.parent.mkdir(parents=True)
    library.touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def plugin_version(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    have = {"jax-cuda12-pjrt": version, "torch": "2.8.0", "torch_xla": "2.8.1"}
    monkeypatch.setattr(installed, "version", have.get)


@pytest.mark.parametrize(("torch_xla", "kind"), [("2.8.1", "CUDA"), ("2.9.0", "XLAGPU")])
@pytest.mark.parametrize(("plugin", "folder"), gpu.CUDA_PLUGINS.items())
def test_any_installed_plugin_is_used(
    site: Path, monkeypatch: pytest.MonkeyPatch, torch_xla: str, kind: str, plugin: str, folder: str
) -> None:
    have = {plugin: "99.0", "torch": "2.9.0"}
    monkeypatch.setattr(installed, "version", have.get)
    (site / "jax_plugins" / folder).mkdir(exist_ok=True)
    (site / "jax_plugins" / folder / "xla_cuda_plugin.so").touch()
    found = gpu.find_plugin(torch_xla)
    assert (found.route.device, found.name) == (kind, f"{plugin} 99.0")
    assert found.path == str(site / "jax_plugins" / folder / "xla_cuda_plugin.so")


@pytest.mark.parametrize(
    ("torch_xla", "why"),
    [
        ("2.9.0", "neither jax-cuda13-pjrt nor jax-cuda12-pjrt is installed"),
        ("2.10.0", "no plugin is known to fit torch_xla 2.10.0"),
    ],
)
def test_without_a_plugin_the_job_is_on_the_cpu(
    site: Path, monkeypatch: pytest.MonkeyPatch, torch_xla: str, why: str
) -> None:
    plugin_version(monkeypatch, None)
    choice = choose_device(ONE_GPU, 1, torch_xla)
    assert (choice.kind, choice.compiled) == ("CPU", True)
    assert why in choice.reason


def test_processes_of_the_plugin_find_it_and_ptxas(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin_version(monkeypatch, "0.6.2")
    found = gpu.find_plugin("2.8.1")
    added = found.environment({})
    assert (added["PJRT_DEVICE"], added["SAGELET_PJRT_PLUGIN"], added["SAGELET_PJRT_NAME"]) == ("CUDA", found.path, "")
    nvcc = site / "nvidia/cuda_nvcc"
    # What the wheel of CUDA 12 has (nvidia-cuda-nvcc-cu12 12.9).
    for name in ("bin/ptxas", "nvvm/libdevice/libdevice.10.bc"):
        (nvcc / name).parent.mkdir(parents=True, exist_ok=True)
        (nvcc / name).touch()
    assert found.environment({"XLA_FLAGS": "--a=1"})["XLA_FLAGS"] == f"--a=1 --xla_gpu_cuda_data_dir={nvcc}"
    assert "XLA_FLAGS" not in found.environment({"XLA_FLAGS": "--xla_gpu_cuda_data_dir=/mine"})


def test_a_directory_of_cuda_packages_without_ptxas_is_not_named(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Seen on a machine with CUDA in /usr/local: nvidia/cu13 had include and lib only.
    plugin_version(monkeypatch, "0.6.2")
    (site / "nvidia/cuda_nvcc/lib").mkdir(parents=True)
    assert "XLA_FLAGS" not in gpu.find_plugin("2.8.1").environment({})


def test_a_plugin_needs_its_front(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin_version(monkeypatch, "0.7.1")
    monkeypatch.setattr(pjrt_front, "BUILT_IN", site / "jax_plugins/xla_cuda12/xla_cuda_plugin.so")
    added = gpu.find_plugin("2.9.0").environment({})
    assert (added["PJRT_DEVICE"], added["SAGELET_PJRT_NAME"]) == ("XLAGPU", "xlagpu")
    assert added["SAGELET_PJRT_FRONT"] == str(pjrt_front.BUILT_IN)
    monkeypatch.setattr(pjrt_front, "BUILT_IN", site / "gone.so")
    monkeypatch.setattr(pjrt_front, "COMPILERS", ())
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(site))
    choice = choose_device(ONE_GPU, 1, "2.9.0")
    assert choice.kind == "CPU"
    assert "there is no C compiler" in choice.reason


def test_the_cpu_s_client_is_the_job_s_choice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "version", {}.get)
    assert choose_device({}, 0, "2.9.0").kind == "CPU"
    missing = choose_device({"SAGELET_XLA_CLIENT": "plugin"}, 0, "2.9.0")
    assert missing.kind == "CPU"
    assert "the built-in one, since lammps-jax-pjrt-cpu is not installed" in missing.reason
    monkeypatch.setattr(installed, "version", {gpu.CPU_PLUGIN: "0.11.2"}.get)
    library = tmp_path / gpu.CPU_MODULE / "pjrt_c_api_cpu_plugin.so"
    library.parent.mkdir()
    library.touch()
    (library.parent / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(probe, "probe", lambda _environ: probe.Result(None, "0.115"))
    for asked in ({}, {"PJRT_DEVICE": "CPU"}, {"PJRT_DEVICE": "CPU_PLUGIN"}):
        found = choose_device({"SAGELET_XLA_CLIENT": "plugin", **asked}, 0, "2.9.0")
        assert (found.kind, found.environment["SAGELET_PJRT_PLUGIN"]) == ("CPU_PLUGIN", str(library))
        assert "lammps-jax-pjrt-cpu 0.11.2 (PJRT C API 0.115), which passed its trial" in found.reason
    builtin = choose_device({"SAGELET_XLA_CLIENT": "builtin", "PJRT_DEVICE": "CPU_PLUGIN"}, 0, "2.9.0")
    assert (builtin.kind, dict(builtin.environment)) == ("CPU", {})
    several = choose_device({"CPU_NUM_DEVICES": "4"}, 0, "2.9.0")
    assert several.kind == "CPU"
    assert "the built-in one, since CPU_NUM_DEVICES asks for 4 devices" in several.reason
    for one in ({"CPU_NUM_DEVICES": "1"}, {"CPU_NUM_DEVICES": "4", "SAGELET_XLA_CLIENT": "plugin"}):
        assert choose_device(one, 0, "2.9.0").kind == "CPU_PLUGIN"
    monkeypatch.setattr(probe, "probe", lambda _environ: probe.Result("it failed when the client is made"))
    broken = choose_device({"SAGELET_XLA_CLIENT": "plugin"}, 0, "2.9.0")
    assert (broken.kind, broken.compiled, dict(broken.environment)) == ("CPU", True, {})
    assert "the built-in one, since lammps-jax-pjrt-cpu 0.11.2 does not work here: it failed when" in broken.reason
    with pytest.raises(device.UnknownClient, match="'best'; use plugin or builtin"):
        choose_device({"SAGELET_XLA_CLIENT": "best"}, 0, "2.9.0")
    with pytest.raises(trial.UnknownSetting, match="'never'; use kept or always"):
        choose_device({"SAGELET_XLA_CLIENT": "plugin", "SAGELET_GPU_TRIAL": "never"}, 0, "2.9.0")


def test_a_worker_takes_the_gpu_of_its_local_rank() -> None:
    alone = gpu.client_options({})
    assert alone == {
        "platform_name": "cuda", "allocator": "default", "visible_devices": [0], "node_id": 0, "num_nodes": 1,
    }  # fmt: skip
    torchrun = {"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}
    memory = {"PJRT_ALLOCATOR_FRACTION": "0.5", "PJRT_ALLOCATOR_PREALLOCATE": "false", "PJRT_ALLOCATOR_CUDA_ASYNC": "1"}
    assert gpu.client_options({**torchrun, **memory}) == {
        "platform_name": "cuda", "allocator": "cuda_async", "visible_devices": [1], "node_id": 5, "num_nodes": 8,
        "memory_fraction": 0.5, "preallocate": False,
    }  # fmt: skip
    spawned = {"PJRT_LOCAL_PROCESS_RANK": "2", "PJRT_LOCAL_PROCESS_COUNT": "4"}
    assert gpu.client_options(spawned)["visible_devices"] == [2]
    assert gpu.client_options(spawned)["num_nodes"] == 4


@pytest.mark.parametrize(("visible", "count"), [(None, 8), ("", 0), ("-1", 0), ("GPU-a,GPU-b", 2)])
def test_a_process_counts_the_gpus_that_it_was_leased(visible: str | None, count: int) -> None:
    environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert gpu.gpu_count(environ, listed=8) == count


@pytest.mark.parametrize(
    "problem", [None, "the trial failed while it created the plugin's client: No visible GPU devices."]
)
def test_the_trial_decides(site: Path, monkeypatch: pytest.MonkeyPatch, problem: str | None) -> None:
    plugin_version(monkeypatch, "0.6.2")
    tried: list[str] = []

    def probed(environ: Mapping[str, str]) -> probe.Result:
        tried.append(environ["PJRT_DEVICE"])
        return probe.Result(problem, "0.70")

    monkeypatch.setattr(probe, "probe", probed)
    choice = choose_device(ONE_GPU, 1, "2.8.1")
    assert tried == ["CUDA"]
    assert (choice.kind, choice.compiled) == ("CUDA", problem is None)
    assert ("passed its trial" if problem is None else f"does not work here: {problem}") in choice.reason
    assert "jax-cuda12-pjrt 0.6.2 (PJRT C API 0.70)" in choice.reason


def test_the_user_s_own_device_is_not_tried(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin_version(monkeypatch, "0.6.2")
    assert choose_device({**ONE_GPU, "PJRT_DEVICE": "CPU"}, 1, "2.8.1").kind == "CPU"


#: torch_xla, as a module that behaves so.
FAKE = {
    "fails": """
        import sys
        sys.stderr.write("E0000 failed call to cuInit\\n")
        def device():
            raise RuntimeError("No visible GPU devices.")
        """,
    "aborts": """
        import os, signal
        def device():
            os.kill(os.getpid(), signal.SIGKILL)
        """,
    "hangs": """
        import time
        time.sleep(600)
        """,
    "is a CPU": """
        class _XLAC:
            _xla_real_devices = staticmethod(lambda names: ["CPU:0"])
        def device():
            return "xla:0"
        """,
    "is asked for its world": """
        import os
        def device():
            raise RuntimeError(str({"RANK", "WORLD_SIZE"} & set(os.environ)))
        """,
}


def fake(directory: Path, how: str) -> dict[str, str]:
    """Variables of a process whose torch_xla behaves so."""
    (directory / "torch.py").touch()
    (directory / "torch_xla.py").write_text(textwrap.dedent(FAKE[how]))
    return {"PYTHONPATH": str(directory)}


@pytest.mark.parametrize(
    ("how", "patience", "said"),
    [
        ("fails", "60", "the trial failed while it created the plugin's client: RuntimeError: No visible GPU devices."),
        ("aborts", "60", "the trial failed while it created the plugin's client: the process ended with signal 9"),
        ("hangs", "1", "the trial did not end within 1 s, while it imported torch_xla and the plugin"),
        (
            "is a CPU",
            "60",
            "the trial failed while it created the plugin's client: error: the device is CPU:0, not a GPU",
        ),
    ],
)
def test_what_a_trial_says(tmp_path: Path, how: str, patience: str, said: str) -> None:
    found = probe.probe({**fake(tmp_path, how), probe.SECONDS: patience})
    assert (found.problem, found.killed) == (said, how == "aborts")


#: XLA's output about a flag's value, without most of its 100 lines.
WRONG_VALUE = """WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
E0000 00:00:1.560030 2674 command_line_flags.cc:63] Couldn't interpret value abc for flag xla_cpu_prefer_vector_width.
F0000 00:00:1.560044    2674 parse_flags_from_env.cc:220] Check failed: tsl::Flags::Parse(&a, b, c) Flag parsing failed.
usage: --xla_cpu_prefer_vector_width=abc --xla_cpu_enable_fast_math=false
	--xla_gpu_nccl_terminate_on_error=false	bool	If set, then NCCL errors will terminate the process.
"""


def test_the_line_that_tells_most() -> None:
    said = """2026-01-01 E external/xla/cuda_platform.cc:51] failed call to cuInit: INTERNAL
Traceback (most recent call last):
  File "probe.py", line 1, in <module>
RuntimeError: Bad StatusOr access: FAILED_PRECONDITION: No visible GPU devices.
F1121 16:11:30 runtime.cpp:21] Check failed: !g_computation_client_initialized
*** Check failure stack trace: ***
"""
    assert probe.telling_line(said) == "RuntimeError: Bad StatusOr access: FAILED_PRECONDITION: No visible GPU devices."
    assert probe.telling_line("F0101 a.cc:1] Check failed: x\n    @ 0x1 main\n") == "Check failed: x"
    assert probe.telling_line(WRONG_VALUE) == "Couldn't interpret value abc for flag xla_cpu_prefer_vector_width."
    assert probe.telling_line("") == ""


def test_the_trial_is_of_one_process(tmp_path: Path) -> None:
    environ = {**fake(tmp_path, "is asked for its world"), "RANK": "3", "WORLD_SIZE": "8"}
    assert (probe.probe(environ).problem or "").endswith("RuntimeError: set()")


class Tensor:
    """As far as `moved` knows one."""

    def __init__(self, place: str) -> None:
        self.place = place

    def to(self, place: str) -> "Tensor":
        return Tensor(place)


class Module(Tensor):
    def parameters(self) -> list[Tensor]:
        return [self]


class Batch(NamedTuple):
    inputs: Tensor
    label: int


def test_what_native_training_moves() -> None:
    module = Module("cuda")
    counts: defaultdict[str, Tensor] = defaultdict(lambda: Tensor("cuda"))
    counts["a"]
    nest = {
        "batch": Batch(Tensor("cuda"), 3),
        "list": [Tensor("cuda"), (Tensor("cuda"),)],
        "counts": counts,
        "module": module,
    }
    found = uncompiled.moved(nest, "cpu")
    assert (found["batch"].inputs.place, found["batch"].label) == ("cpu", 3)
    assert (found["list"][0].place, found["list"][1][0].place, found["counts"]["a"].place) == ("cpu", "cpu", "cpu")
    assert found["module"] is module, "xm.save of a model leaves it where it trains"
    assert nest["list"][0].place == "cuda"  # type: ignore[index]
