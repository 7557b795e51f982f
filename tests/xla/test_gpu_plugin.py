"""A job with a GPU whose plugin does not work: the trial, the log, and the script that trains without XLA."""

import json
import os
import re
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.telemetry.compiler.reading import workers_of
from support.training_host import KNOWN_PROCESSOR, RUNTIME, Ended, TrainingHost

pytestmark = pytest.mark.xla

SCRIPT = """
    import os
    import torch
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.parallel_loader as pl
    from torch_xla.amp import GradScaler, autocast

    torch.manual_seed(7)
    device = xm.xla_device()
    model = torch.nn.Linear(20, 3).to(device)
    x = torch.randn(256, 20)
    data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
    loader = pl.ParallelLoader(torch.utils.data.DataLoader(data, batch_size=32), [device]).per_device_loader(device)
    optimizer, scaler, losses = torch.optim.SGD(model.parameters(), lr=0.5), GradScaler(), []
    for inputs, labels in loader:
        optimizer.zero_grad()
        with autocast(device):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        scaler.scale(loss).backward()
        xm.all_reduce("sum", xm._fetch_gradients(optimizer), scale=1.0 / xm.xrt_world_size())
        scaler.step(optimizer)
        scaler.update()
        xm.mark_step()
        losses.append(loss.item())
    print("losses=" + str(losses))
    print("world=" + str([xm.xrt_world_size(), xm.get_ordinal()]))
    xm.save(model.state_dict(), os.environ["SM_MODEL_DIR"] + "/model.pt")
    """

#: Other names of the old API, with what they give natively.
MORE = """
    import torch
    import torch_xla
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.xla_multiprocessing as xmp
    from torch_xla.amp import syncfree

    def _mp_fn(index):
        device = torch_xla.device()
        weight = torch.nn.Parameter(torch.ones(3, device=device))
        optimizer = syncfree.AdamW([weight], lr=0.1)
        weight.sum().backward()
        xm.optimizer_step(optimizer)
        said = []
        xm.add_step_closure(said.append, args=(weight[0].item(),))
        xm.mark_step()
        print("device=" + repr(str(weight.device)).replace("'", '"'))
        print("reduced=" + str([xm.all_reduce("sum", torch.ones(2), scale=0.5).tolist(), xm.mesh_reduce("t", 3, max)]))
        print("rendezvous=" + str(len(xm.rendezvous("here"))) )
        print("closures=" + str(len(said)))

    xmp.spawn(_mp_fn, nprocs=1)
    """


def run(host: TrainingHost, script: str) -> Ended:
    host.script(script)
    ended = host.run({"sagemaker_training_compiler_enabled": "true"})
    assert ended.code == 0, ended.log
    return ended


def value(ended: Ended, name: str) -> Any:
    """What the script printed as `name=JSON`."""
    (found,) = re.findall(rf"^{name}=(.+)$", ended.log, re.MULTILINE)
    return json.loads(found)


@pytest.fixture
def broken_plugin(host: TrainingHost) -> TrainingHost:
    """A host that was leased a GPU, with a plugin of the right version whose file is not a library."""
    site = host.base / "site"
    library = site / "jax_plugins/xla_cuda12/xla_cuda_plugin.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"no library")
    version = "0.6.2" if metadata.version("torch_xla").startswith("2.8") else "0.7.1"
    facts = site / f"jax_cuda12_pjrt-{version}.dist-info/METADATA"
    facts.parent.mkdir()
    facts.write_text(f"Metadata-Version: 2.1\nName: jax-cuda12-pjrt\nVersion: {version}\n")
    host.environment = {"PYTHONPATH": f"{RUNTIME}:{site}", "CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "1"}
    host.environment |= {"SAGELET_GPU_PROBE_SECONDS": "60"}
    return host


@pytest.mark.programs("g++")
def test_where_a_plugin_does_not_work_inductor_compiles(broken_plugin: TrainingHost) -> None:
    broken_plugin.environment |= {"SAGELET_GPU_PROBE_SECONDS": "0.01", **KNOWN_PROCESSOR}
    ended = run(broken_plugin, SCRIPT)
    assert "sagelet: NOT COMPILED BY XLA: jax-cuda12-pjrt" in ended.log
    assert "Inductor compiles the job instead; SAGELET_COMPILER=xla in the job's Environment trains it" in ended.log
    told = json.loads((broken_plugin.base / "output/sagelet/compilation.json").read_text())
    assert told["compiled"] is True
    assert re.match("Inductor in place of XLA: jax-cuda12-pjrt .* does not work here", told["reason"])
    losses = value(ended, "losses")
    assert losses[-1] < losses[0]
    (report,) = workers_of(broken_plugin.base, "algo-1")
    assert (report.compiler, report.compiles >= 1) == ("inductor", True)


def test_a_plugin_that_does_not_work_leaves_the_job_native_and_loudly_so(broken_plugin: TrainingHost) -> None:
    broken_plugin.environment |= {"SAGELET_COMPILER": "xla"}
    ended = run(broken_plugin, SCRIPT)
    said = "NOT COMPILED: jax-cuda12-pjrt"
    assert [line for line in ended.log.splitlines() if line.startswith(f"sagelet: {said}")]
    assert "does not work here: the trial " in ended.log
    assert "sagelet compiler report: " not in ended.log
    told = json.loads((broken_plugin.base / "output/sagelet/compilation.json").read_text())
    assert told["compiled"] is False
    assert told["platform"] in ("CUDA", "XLAGPU")
    assert "does not work here" in told["reason"]
    losses = value(ended, "losses")
    assert losses[-1] < losses[0]
    assert value(ended, "world") == [1, 0]
    torch = pytest.importorskip("torch")
    weights = torch.load(broken_plugin.model / "model.pt")
    assert {tensor.device.type for tensor in weights.values()} == {"cpu"}


def test_torch_xla_s_names_train_natively(broken_plugin: TrainingHost) -> None:
    # The trial is the other test's.
    broken_plugin.environment |= {"SAGELET_GPU_PROBE_SECONDS": "0.01"}
    ended = run(broken_plugin, MORE)
    assert "the trial did not end within 0.01 s" in ended.log
    assert value(ended, "device") in ("cpu", "cuda:0")
    assert value(ended, "reduced") == [[0.5, 0.5], 3]
    assert value(ended, "rendezvous") == 1
    assert value(ended, "closures") == 1


WORKERS = """
    import json, os
    import numpy
    import torch
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.parallel_loader as pl
    import torch_xla.distributed.xla_multiprocessing as xmp

    def note(name, value):
        with open(name + "-" + str(xm.get_ordinal()) + "-of-" + str(xm.xrt_world_size()) + ".json", "w") as file:
            json.dump(value, file)

    def train(index):
        torch.manual_seed(3)
        x = torch.randn(16, 4)
        rank, size = xm.get_ordinal(), xm.xrt_world_size()
        assert index == rank
        device = xm.xla_device()
        model = torch.nn.Linear(4, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for inputs in pl.MpDeviceLoader([x[rank::size]] * 3, device):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            xm.optimizer_step(optimizer)
        note("weights", model.weight.tolist()[0])

    def collect(index):
        rank = xm.get_ordinal()
        own = lambda *values: torch.tensor([float(rank + value) for value in values])
        each, pair = [[0], [1]], [own(1), own(2)]
        model = torch.nn.Linear(1, 1, bias=False)
        model.weight.grad = own(1).reshape(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        xm.optimizer_step(optimizer, groups=each)
        broadcast = own(5)
        xm.collective_broadcast([broadcast], 1)
        try:
            xm.all_reduce("sum", own(0), groups=[[0]])
        except ValueError as error:
            refused = str(error)
        # Nobody waits for the others here, in jobs of today's images.
        if rank == 0:
            xm.save({"rank": rank}, "saved.pt")
        note("calls", {
            "gathered": xm.all_gather(own(0)).tolist(),
            "gathered in groups": xm.all_gather(own(0), groups=each).tolist(),
            "reduced in groups": xm.all_reduce("sum", own(0), groups=each).tolist(),
            "reduced list": [xm.all_reduce("sum", pair) is pair, [one.tolist() for one in pair]],
            "scattered": xm.reduce_scatter("sum", own(0, 1, 2, 3), 0.5, 0, 2).tolist(),
            "gradient of a group": model.weight.grad.item(),
            "broadcast": broadcast.tolist(),
            "mesh": float(xm.mesh_reduce("mean", numpy.float64(rank), numpy.mean)),
            "master": xm.is_master_ordinal(),
            "refused": refused,
        })

    def both(index):
        train(index)
        collect(index)

    if __name__ == "__main__":
        xmp.spawn(train)
        xmp.spawn(both, nprocs=2)
    """


def test_native_workers_train_as_one_process_would(tmp_path: Path) -> None:
    """Two workers on half a batch each, over gloo; NCCL takes its place where there are GPUs."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(WORKERS))
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": f"{RUNTIME}/sagelet_runtime/startup:{RUNTIME}", "PJRT_DEVICE": "CPU",
        "SAGELET_NOT_COMPILED": "a test", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    command = [sys.executable, str(script)]
    ended = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "NOT COMPILED: a test" in ended.stdout

    def noted(name: str, size: int) -> list[Any]:
        return [json.loads((tmp_path / f"{name}-{rank}-of-{size}.json").read_text()) for rank in range(size)]

    (alone,) = noted("weights", 1)
    for weights in noted("weights", 2):
        assert weights == pytest.approx(alone, abs=1e-6)
    first, second = noted("calls", 2)
    for found in (first, second):
        assert found["gathered"] == [0.0, 1.0]
        assert found["reduced list"] == [True, [[3.0], [5.0]]]
        assert (found["broadcast"], found["mesh"]) == ([6.0], 0.5)
        assert "groups=[[0]] must hold each of the 2 ordinals exactly once" in found["refused"]
    assert (first["gathered in groups"], second["gathered in groups"]) == ([0.0], [1.0])
    assert (first["reduced in groups"], second["reduced in groups"]) == ([0.0], [1.0])
    assert (first["scattered"], second["scattered"]) == ([0.5, 1.5], [2.5, 3.5])
    # As torch_xla: the sum over the group, divided by all workers.
    assert (first["gradient of a group"], second["gradient of a group"]) == (0.5, 1.0)
    assert (first["master"], second["master"]) == (True, False)
    assert (tmp_path / "saved.pt").exists()
