"""Tiny real scripts through `python -m sagelet_runtime.train` with torch_xla on its CPU client."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.training_host import Ended, TrainingHost

pytestmark = pytest.mark.xla

COMPILED = {"sagemaker_training_compiler_enabled": "true", "sagemaker_training_compiler_debug_mode": "false"}
REPORT = "sagelet compiler report: "


def run_compiled(host: TrainingHost, script: str, **hyperparameters: str) -> Ended:
    host.script(script)
    ended = host.run({**COMPILED, **hyperparameters})
    assert ended.code == 0, ended.log
    return ended


def report_of(ended: Ended) -> dict[str, Any]:
    (line,) = [line for line in ended.log.splitlines() if line.startswith(REPORT)]
    report: dict[str, Any] = json.loads(line.removeprefix(REPORT))
    return report


def value(ended: Ended, name: str) -> Any:
    """What the script printed as `name=JSON`."""
    (found,) = re.findall(rf"^{name}=(.+)$", ended.log, re.MULTILINE)
    return json.loads(found)


OLD_API = """
    import os
    import torch
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.parallel_loader as pl
    from torch_xla.amp import GradScaler, autocast

    torch.manual_seed(7)
    device = xm.xla_device()
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3)).to(device)
    x = torch.randn(256, 20)
    data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
    sampler = None
    if xm.xrt_world_size() > 1:
        sampler = torch.utils.data.distributed.DistributedSampler(data, xm.xrt_world_size(), xm.get_ordinal())
    loader = pl.MpDeviceLoader(torch.utils.data.DataLoader(data, batch_size=32, sampler=sampler), device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scaler = GradScaler()
    losses = []
    for epoch in range(3):
        for inputs, labels in loader:
            optimizer.zero_grad()
            with autocast(device):
                loss = torch.nn.functional.cross_entropy(model(inputs), labels)
            scaler.scale(loss).backward()
            gradients = xm._fetch_gradients(optimizer)
            xm.all_reduce("sum", gradients, scale=1.0 / xm.xrt_world_size())
            scaler.step(optimizer)
            scaler.update()
            xm.mark_step()
        losses.append(loss.item())
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), labels).backward()
    xm.optimizer_step(optimizer, barrier=True)
    print("losses=" + str(losses))
    print("world=" + str([xm.xrt_world_size(), xm.get_ordinal()]))
    xm.save(model.state_dict(), os.environ["SM_MODEL_DIR"] + "/model.pt")
    """


def test_script_of_torch_xla_1(host: TrainingHost) -> None:
    ended = run_compiled(host, OLD_API)
    losses = value(ended, "losses")
    assert losses[-1] < losses[0]
    assert value(ended, "world") == [1, 0]
    torch = pytest.importorskip("torch")
    weights = torch.load(host.model / "model.pt")
    assert {tensor.device.type for tensor in weights.values()} == {"cpu"}


def test_log_of_a_compiled_job(host: TrainingHost) -> None:
    log = run_compiled(host, OLD_API).log
    lines = [
        "Found configuration for Training Compiler",
        "Configuring SM Training Compiler...",
        "sagelet: compiled training on PJRT_DEVICE=CPU: ",
        "device: xla:0 (PJRT CPU:0",
        REPORT,
    ]
    positions = [log.find(line) for line in lines]
    assert -1 not in positions, log
    assert positions == sorted(positions)
    assert log.count("device: xla") == 1
    assert "debug mode" not in log


def test_report_holds_torch_xlas_counters(host: TrainingHost) -> None:
    report = report_of(run_compiled(host, OLD_API))
    assert report["device"] == ["CPU:0"]
    assert report["optimizer_steps"] == 25
    assert report["CompileTime"]["count"] >= 1
    assert report["CompileTime"]["seconds"] > 0
    assert report["UncachedCompile"] >= 1
    assert report["ExecuteTime"]["count"] >= 24
    assert report["step_p50_ms"] > 0
    off = {
        "enabled": False,
        "reason": "XLA's CPU client writes executables that it cannot read back",
        "hits": 0,
        "misses": 0,
    }
    assert report["cache"] == off


def test_debug_leaves_torch_xlas_own_artifacts(host: TrainingHost) -> None:
    ended = run_compiled(host, OLD_API, sagemaker_training_compiler_debug_mode="true")
    directory = host.base / "output" / "data" / "compiler"
    assert f"Debug artifacts will be saved in {directory}" in ended.log
    assert "Metric: CompileTime" in (directory / "XLA_METRICS_FILE.txt").read_text()
    assert "Compilation Cause" in (directory / "PT_XLA_DEBUG.txt").read_text()
    (graphs,) = directory.glob("XLA_SAVE_TENSORS_FILE.hlo*")
    assert "HloModule" in graphs.read_text()


def test_debug_of_a_script_without_a_step_marker(host: TrainingHost) -> None:
    script = """
        import torch, torch_xla
        print((torch.ones(2, device=torch_xla.device()) * 3).sum().item())
        """
    run_compiled(host, script, sagemaker_training_compiler_debug_mode="true")
    metrics = (host.base / "output" / "data" / "compiler" / "XLA_METRICS_FILE.txt").read_text()
    assert "Metric: ExecuteTime" in metrics


TIED = """
    import torch, torch_xla

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Embedding(11, 8)
            self.head = torch.nn.Linear(8, 11, bias=False)
            self.head.weight = self.inner.weight

        def forward(self, x):
            return self.head(self.inner(x))

    def train(device):
        torch.manual_seed(3)
        model = Net().to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, fused=True)
        losses = []
        for step in range(10):
            x = (torch.arange(22) * (step + 1) % 11).to(device)
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), (x + 1) % 11)
            loss.backward()
            optimizer.step()
            torch_xla.sync()
            losses.append(loss.item())
        return model, losses

    device = torch_xla.device()
    model, compiled = train(device)
    _, native = train("cpu")
    print("tied=" + str(int(model.head.weight is model.inner.weight)))
    print("places=" + str(len(list(model.parameters()))))
    print("compiled=" + str(compiled))
    print("native=" + str(native))
    """


def test_tied_weights_stay_one_and_fused_adamw_trains_as_natively(host: TrainingHost) -> None:
    ended = run_compiled(host, TIED)
    assert value(ended, "tied") == 1
    assert value(ended, "places") == 1
    assert value(ended, "compiled") == pytest.approx(value(ended, "native"), rel=1e-5)
    assert ended.log.count("sagelet: AdamW(fused=True) has no kernel for XLA tensors") == 1


def test_a_shared_submodule_stays_shared(host: TrainingHost) -> None:
    script = """
        import torch, torch_xla
        layer = torch.nn.Linear(3, 3)
        net = torch.nn.Sequential(layer, torch.nn.Tanh(), layer).to(torch_xla.device())
        print("shared=" + str(int(net[0].weight is net[2].weight and net[0].weight.device.type == "xla")))
        print("count=" + str(len(list(net.parameters()))))
        """
    ended = run_compiled(host, script)
    assert [value(ended, "shared"), value(ended, "count")] == [1, 2]


def test_float16_autocast_computes_in_bfloat16(host: TrainingHost) -> None:
    script = """
        import torch, torch_xla
        import torch_xla.amp
        device = torch_xla.device()
        a = torch.randn(64, 64, device=device)
        half = torch.float16
        for context in (torch.autocast("xla", dtype=half), torch_xla.amp.autocast(device, dtype=half)):
            with context:
                print("type", (a @ a).dtype)
        with torch.autocast("xla", dtype=torch.float16, enabled=False):
            print("type", (a @ a).dtype)
        """
    log = run_compiled(host, script).log
    assert re.findall(r"^type (.+)$", log, re.MULTILINE) == ["torch.bfloat16", "torch.bfloat16", "torch.float32"]
    assert log.count("sagelet: autocast to float16 computes in bfloat16") == 1


def test_a_sitecustomize_of_the_script_still_runs(host: TrainingHost) -> None:
    host.script("print('hidden one ran')", "sitecustomize.py")
    log = run_compiled(host, "import torch_xla; print('device', torch_xla.device())").log
    assert "hidden one ran\n" in log
    assert "device xla:0\n" in log


def test_a_process_that_never_imports_torch_xla_pays_nothing(host: TrainingHost) -> None:
    log = run_compiled(host, "import sys; print('torch' in sys.modules)").log
    assert "False\n" in log
    assert REPORT not in log


def test_user_error_below_a_compiled_job(host: TrainingHost) -> None:
    host.script("import torch_xla\ntorch_xla.device()\nraise ValueError('bad data')")
    ended = host.run(COMPILED)
    assert ended.code == 1
    assert ended.failure is not None
    assert "line 3, in <module>" in ended.failure
    assert "ValueError: bad data" in ended.failure
    assert "SMTrainingCompiler" not in ended.failure


TRAINER = Path(__file__).with_name("trainer_script.py")


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_hf_trainer_natively_and_compiled(host: TrainingHost, tmp_path: Path, precision: str) -> None:
    host.script(TRAINER.read_text())
    flags = {"fp16": "1"} if precision == "float16" else {}
    compiled = host.run({**COMPILED, **flags, "steps": "8"})
    assert compiled.code == 0, compiled.log
    native_host = TrainingHost(tmp_path / "native")
    native_host.script(TRAINER.read_text())
    native = native_host.run({"steps": "8"})
    assert native.code == 0, native.log
    assert (value(native, "device"), value(compiled, "device")) == ("cpu", "xla:0")
    assert REPORT not in native.log
    assert report_of(compiled)["optimizer_steps"] == 8
    # Measured over 40 steps: 2.9e-7 and 7.9e-5 (Transformers 4 logs four decimals).
    tolerance = 1e-5 if precision == "float32" else 1e-3
    assert value(compiled, "losses") == pytest.approx(value(native, "losses"), rel=tolerance)
    assert (host.model / "model.safetensors").exists()
