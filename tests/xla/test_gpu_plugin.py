"""A job with a GPU whose plugin does not work: the trial, the log, and the script that trains natively all the same."""

import json
import os
import re
import socket
import subprocess
import sys
import textwrap
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from support.training_host import RUNTIME, Ended, TrainingHost

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
    """A host that was leased a GPU, with a plugin of the version that fits, which is no library."""
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


def test_a_plugin_that_does_not_work_leaves_the_job_native_and_loudly_so(broken_plugin: TrainingHost) -> None:
    ended = run(broken_plugin, SCRIPT)
    said = "NOT COMPILED: jax-cuda12-pjrt"
    assert [line for line in ended.log.splitlines() if line.startswith(f"sagelet: {said}")]
    assert "does not work here: it " in ended.log
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
    assert "it was not done after 0.01 s" in ended.log
    assert value(ended, "device") in ("cpu", "cuda:0")
    assert value(ended, "reduced") == [[0.5, 0.5], 3]
    assert value(ended, "rendezvous") == 1
    assert value(ended, "closures") == 1


WORKERS = """
    import torch
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.parallel_loader as pl

    torch.manual_seed(3)
    x = torch.randn(16, 4)
    rank, size = xm.get_ordinal(), xm.xrt_world_size()
    device = xm.xla_device()
    model = torch.nn.Linear(4, 1).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs in pl.MpDeviceLoader([x[rank::size]] * 3, device):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        xm.optimizer_step(optimizer)
    whole = xm.all_gather(torch.tensor([[float(rank)]])).flatten().tolist()
    print([model.weight.tolist()[0], whole, xm.mesh_reduce("sum", rank, sum), xm.is_master_ordinal()])
    """


def quiet_port() -> int:
    """A free port below those that the kernel gives to any connection."""
    for port in range(12_000 + os.getpid() % 5_000, 20_000):
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError("no free port")


def test_native_workers_train_as_one_process_would(tmp_path: Path) -> None:
    """Two workers on half a batch each, over gloo; NCCL takes its place where there are GPUs."""
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(WORKERS))
    port = str(quiet_port())
    common = {
        "PATH": os.environ["PATH"], "PYTHONPATH": f"{RUNTIME}/sagelet_runtime/startup:{RUNTIME}", "PJRT_DEVICE": "CPU",
        "SAGELET_NOT_COMPILED": "a test", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1",
    }  # fmt: skip

    def start(rank: int, size: int) -> "subprocess.Popen[str]":
        world = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_WORLD_SIZE": str(size)}
        command = [sys.executable, str(script)]
        return subprocess.Popen(command, env=common | world, stdout=subprocess.PIPE, text=True)

    def result(process: "subprocess.Popen[str]") -> Any:
        out, _ = process.communicate(timeout=300)
        assert process.returncode == 0, out
        assert "NOT COMPILED: a test" in out
        return json.loads(out.splitlines()[-1].replace("True", "true").replace("False", "false"))

    workers = [start(rank, 2) for rank in range(2)]
    weights, gathered, reduced, master = zip(*map(result, workers), strict=True)
    alone = result(start(0, 1))
    assert weights[0] == pytest.approx(alone[0], abs=1e-6)
    assert weights[1] == pytest.approx(alone[0], abs=1e-6)
    assert gathered == ([0.0, 1.0], [0.0, 1.0])
    assert (reduced, master) == ((1, 1), (True, False))
