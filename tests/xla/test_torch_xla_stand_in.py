"""torch_xla's names in a Python that has no torch_xla: what they accept, and what training by them gives."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.telemetry.compiler.reading import workers_of
from support.training_host import KNOWN_PROCESSOR, RUNTIME, Ended, TrainingHost

pytestmark = [pytest.mark.xla, pytest.mark.programs("g++")]

ASKED = {"sagemaker_training_compiler_enabled": "true"}
#: A sitecustomize that hides the installed torch_xla from the import system.
HIDING = """
import sys
from importlib.machinery import PathFinder

class WithoutTorchXla(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "torch_xla" else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTorchXla
"""
#: Prints the parameters of the public functions and classes of each module, by name.
SIGNATURES = """
import importlib, inspect, json, sys

def parameters(one):
    try:
        found = inspect.signature(one).parameters.values()
    except ValueError:
        return None
    return [[each.name, each.kind.value, each.default is not each.empty] for each in found]

print(json.dumps({
    name: {
        key: parameters(one)
        for key, one in vars(importlib.import_module(name)).items()
        if callable(one) and not key.startswith("_")
        and getattr(one, "__module__", "").startswith(("torch_xla", "sagelet_runtime"))
    }
    for name in sys.argv[1:]
}))
"""
MODULES = (
    "torch_xla",
    "torch_xla.amp",
    "torch_xla.core.xla_model",
    "torch_xla.debug.metrics",
    "torch_xla.debug.profiler",
    "torch_xla.distributed.parallel_loader",
    "torch_xla.distributed.xla_backend",
    "torch_xla.distributed.xla_multiprocessing",
    "torch_xla.runtime",
    "torch_xla.utils.serialization",
    "torch_xla.utils.utils",
)
#: The stand-in's own functions, names of torch_xla 1.x, and a class of torch's that torch_xla hands on.
NOT_IN_2_9 = {"missing", "own_devices", "say_once", "xrt_world_size", "get_ordinal", "GradScaler"}
#: What training scripts call: torch_xla's documentation, AWS's examples and the scripts of `tests/period`.
CALLED = {
    "torch_xla": "compile device device_count devices launch manual_seed step sync",
    "torch_xla.amp": "autocast",
    "torch_xla.core.xla_model": "add_step_closure all_gather all_reduce all_reduce_bucketized_gradients "
    "broadcast_master_param collective_broadcast do_on_ordinals fork_rng get_local_ordinal get_memory_info "
    "get_rng_state get_xla_supported_devices is_master_ordinal is_xla_tensor mark_step master_print mesh_reduce "
    "optimization_barrier_ optimizer_step RateTracker reduce_gradients reduce_scatter rendezvous save "
    "send_cpu_data_to_device set_replication set_rng_state unlazy wait_device_ops xla_device xla_device_hw "
    "xla_device_kind xla_real_devices",
    "torch_xla.debug.metrics": "clear_all counter_names counter_value executed_fallback_ops metric_data metric_names "
    "metrics_report short_metrics_report",
    "torch_xla.debug.profiler": "StepTrace Trace start_server start_trace stop_trace trace trace_detached trace_me",
    "torch_xla.distributed.parallel_loader": "MpDeviceLoader ParallelLoader",
    "torch_xla.distributed.xla_multiprocessing": "MpModelWrapper MpSerialExecutor spawn",
    "torch_xla.runtime": "addressable_device_count device_type global_device_count global_ordinal initialize_cache "
    "is_bf16_supported is_spmd local_device_count local_ordinal local_process_count process_count process_index "
    "set_device_type use_spmd world_size",
    "torch_xla.utils.serialization": "load save",
    "torch_xla.utils.utils": "SampleGenerator check_env_flag eprint getenv_as timed",
}
Parameters = list[tuple[str, int, bool]]


def signatures(**variables: str) -> dict[str, dict[str, Parameters | None]]:
    done = subprocess.run(
        [sys.executable, "-c", SIGNATURES, *MODULES],
        env={**os.environ, "PJRT_DEVICE": "CPU", **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Parameters | None]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def without(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A directory for PYTHONPATH that hides torch_xla."""
    directory = tmp_path_factory.mktemp("hiding")
    (directory / "sitecustomize.py").write_text(HIDING)
    return str(directory)


def test_the_names_accept_what_those_of_torch_xla_accept(without: str) -> None:
    startup = RUNTIME / "sagelet_runtime/startup"
    path = os.pathsep.join((str(startup), str(RUNTIME), without))
    ours, theirs = signatures(PYTHONPATH=path, SAGELET_INDUCTOR="asked", USE_TORCH_XLA="0"), signatures()
    for module, names in CALLED.items():
        assert set(names.split()) <= ours[module].keys(), module
        assert ours[module].keys() <= theirs[module].keys() | NOT_IN_2_9, module
    unlike = [
        f"{module}.{name}"
        for module, found in ours.items()
        for name, own in found.items()
        if name not in NOT_IN_2_9 and not accepts(own, theirs[module][name])
    ]
    assert not unlike, " ".join(unlike)


def accepts(own: Parameters | None, real: Parameters | None) -> bool:
    """True if each call that fits `real` fits `own`: in order, by name, and with as few arguments as possible."""
    if own is None or real is None:
        return own is real
    kinds = inspect.Parameter
    made = inspect.Signature(
        [
            kinds(name, inspect._ParameterKind(kind), default=None if has_default else kinds.empty)
            for name, kind, has_default in own
        ]
    )
    places = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
    plain = [(name, has_default) for name, kind, has_default in real if kind in places]
    needed = [name for name, has_default in plain if not has_default]
    calls: list[tuple[list[None], dict[str, None]]] = [
        ([None] * len(plain), {}),
        ([], {name: None for name, kind, _ in real if kind in (*places[1:], kinds.KEYWORD_ONLY)}),
        ([None] * len(needed), {}),
    ]
    try:
        for values, named in calls:
            made.bind(*values, **named)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize(
    ("own", "fits"),
    [([("a", 1, False)], True), ([("b", 1, False)], False), ([], False), ([("a", 1, False), ("b", 1, False)], False)],
)
def test_the_comparison_finds_what_differs(own: Parameters, fits: bool) -> None:
    assert accepts(own, [("a", 1, False)]) is fits


#: The names of a script of the Training Compiler: loaders, amp, closures, metrics, saving, and workers.
SCRIPT = """
    import json
    import os
    import torch
    import torch_xla
    import torch_xla.amp
    import torch_xla.core.xla_model as xm
    import torch_xla.debug.metrics as met
    import torch_xla.debug.profiler as xp
    import torch_xla.distributed.parallel_loader as pl
    import torch_xla.distributed.xla_backend
    import torch_xla.distributed.xla_multiprocessing as xmp
    import torch_xla.runtime as xr
    import torch_xla.utils.serialization as xser
    import torch_xla.utils.utils as xu

    def _mp_fn(index, wrapped, serial):
        torch.manual_seed(7)
        device = xm.xla_device()
        model = wrapped.to(device)
        xm.broadcast_master_param(model)
        x = serial.run(lambda: torch.randn(64, 20))
        data = torch.utils.data.TensorDataset(x[xm.get_ordinal()::xr.world_size()])
        optimizer = torch_xla.amp.syncfree.SGD(model.parameters(), lr=0.1)
        losses, tracker = [], xm.RateTracker()
        for epoch in range(4):
            loader = pl.MpDeviceLoader(torch.utils.data.DataLoader(data, batch_size=len(data)), device)
            for (inputs,) in loader:
                with xp.StepTrace("step", step_num=epoch):
                    optimizer.zero_grad()
                    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
                    loss.backward()
                    xm.optimizer_step(optimizer)
                tracker.add(len(inputs))
                xm.add_step_closure(lambda value: losses.append(value.item()), args=(loss,))
                xm.mark_step()
        found = xm.mesh_reduce("losses", losses, lambda all: [sum(one) / len(all) for one in zip(*all)])
        xm.save(model.state_dict(), os.environ["SM_MODEL_DIR"] + "/model.pt")
        xser.save({"last": losses[-1]}, os.environ["SM_MODEL_DIR"] + "/last.pt")
        xm.rendezvous("saved")
        assert xser.load(os.environ["SM_MODEL_DIR"] + "/last.pt").keys() == {"last"}
        assert tracker.global_rate() > 0 and isinstance(met.metrics_report(), str)
        xm.master_print("version=" + torch_xla.__version__)
        xm.master_print("losses=" + json.dumps(found))

    if __name__ == "__main__":
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        xmp.spawn(_mp_fn, args=(xmp.MpModelWrapper(model), xmp.MpSerialExecutor()), start_method="fork")
    """


def run(host: TrainingHost, text: str, **variables: str) -> Ended:
    host.environment |= {"OMP_NUM_THREADS": "1", **KNOWN_PROCESSOR, **variables}
    host.script(text)
    ended = host.run(ASKED)
    assert ended.code == 0, ended.log
    return ended


def losses_in(log: str) -> list[float]:
    (found,) = re.findall(r"^losses=(.+)$", log, re.MULTILINE)
    losses: list[float] = json.loads(found)
    return losses


def test_a_script_trains_without_torch_xla_as_with_it(tmp_path: Path, without: str) -> None:
    path = os.pathsep.join((str(RUNTIME), without))
    found: dict[str, list[float]] = {}
    # The first two have the same graphs, which are compiled once.
    shared = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    for name, workers, variables in (
        ("with", "1", shared),
        ("without", "1", {"PYTHONPATH": path, **shared}),
        ("two", "2", {"PYTHONPATH": path}),
    ):
        host = TrainingHost(tmp_path / name)
        ended = run(host, SCRIPT, SAGELET_COMPILER="inductor", GPU_NUM_DEVICES=workers, **variables)
        assert ("version=2.9.0+sagelet" in ended.log) is (name != "with"), ended.log
        assert "Inductor compiles: torch_xla's names stand for plain PyTorch on cpu" in ended.log
        assert sorted(file.name for file in host.model.glob("*.pt")) == ["last.pt", "model.pt"]
        reports: list[Any] = workers_of(host.base, "algo-1")
        assert [(one.compiler, one.graph.unique) for one in reports] == [("inductor", 1)] * int(workers)
        found[name] = losses_in(ended.log)
    assert found["without"] == pytest.approx(found["with"], rel=1e-6)
    assert found["two"] == pytest.approx(found["with"], rel=1e-4)


def test_workers_of_a_distribution_need_no_torch_xla_for_inductor(monkeypatch: pytest.MonkeyPatch) -> None:
    from sagelet_runtime.workers import runners

    monkeypatch.setattr(runners.installed, "version", lambda name: None if name == "torch_xla" else "2.14.1")
    runner = runners.XlaRunner.__new__(runners.XlaRunner)
    runner._env_vars = {}
    with pytest.raises(runners.errors.SMTrainingCompilerConfigurationError, match="torch_xla is not installed"):
        runner._check_for_torch_xla()
    runner._env_vars = {"SAGELET_INDUCTOR": "asked"}
    runner._check_for_torch_xla()


def test_a_name_that_is_missing_says_why_and_a_native_job_has_no_stand_in(host: TrainingHost, without: str) -> None:
    host.environment["PYTHONPATH"] = os.pathsep.join((str(RUNTIME), without))
    text = """
        import torch_xla.core.xla_model as xm
        try:
            xm.all_to_all
        except AttributeError as error:
            print(error)
        """
    said = "module 'torch_xla.core.xla_model' has no attribute 'all_to_all': it is sagelet's stand-in"
    assert said in run(host, text, SAGELET_COMPILER="inductor").log
    native = TrainingHost(host.base.parent / "native", host.environment)
    native.script("import torch_xla")
    ended = native.run()
    assert ended.code == 1
    assert "No module named 'torch_xla'" in (ended.failure or "")
