"""What a script does with torch before its first XLA tensor changes nothing about its training on XLA."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.images.context import find_root
from support.training_host import TrainingHost
from support.xla_workers import TINY

pytestmark = pytest.mark.xla

PROGRAM = Path(__file__).parent / "programs" / "first_uses.py"
BROKEN = "device_ready_queues_"
#: Without the hook these break each later backward pass on XLA.
BACKWARD = {
    "backward", "optimizer", "autograd.grad", "second derivative", "func.grad", "jacobian", "checkpoint", "script",
    "thread", "compile, eager", "compile, aot_eager", "compiled autograd", "autocast, backward",
    "backward, also in a fork",
}  # fmt: skip
#: It trains on the CPU first. It imports torch_xla late, and starts its workers itself.
WORKERS = """
    import torch

    def train(index):
        import torch_xla.core.xla_model as xm

        torch.manual_seed(0)
        torch.nn.Linear(4, 4)(torch.ones(2, 4)).sum().backward()
        device = xm.xla_device()
        model = torch.nn.Linear(4, 1).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 4).to(device) * (xm.get_ordinal() + 1)).square().mean().backward()
            xm.optimizer_step(optimizer, barrier=True)
        print(f"rank {xm.get_ordinal()}: {model.bias.item():.6f}")

    if __name__ == "__main__":
        torch.nn.Linear(4, 4)(torch.ones(2, 4)).sum().backward()
        import torch_xla.distributed.xla_multiprocessing as xmp

        xmp.spawn(train, nprocs=2, start_method=METHOD)
    """


def run(*words: str) -> dict[str, Any]:
    environ = {**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": str(find_root() / "runtime"), **TINY}
    done = subprocess.run(
        [sys.executable, PROGRAM, *words], env=environ, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_script_may_use_torch_in_any_way_before_xla() -> None:
    found = run()
    losses = found["nothing"]
    assert [type(loss) for loss in losses] == [float] * 3, losses
    assert {name: one for name, one in found.items() if one != losses} == {}
    assert found.keys() > BACKWARD


def test_torch_xla_alone_fails_after_a_backward_pass_on_the_cpu() -> None:
    """If a torch_xla no longer fails, the hook can go."""
    found = run("--bare", "backward", "autograd.grad", "compile, eager")
    assert all(BROKEN in one for one in found.values()), found


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_start_after_a_backward_pass_on_the_cpu(tmp_path: Path, method: str) -> None:
    host = TrainingHost(tmp_path, dict(TINY))
    host.script(WORKERS.replace("METHOD", repr(method)))
    ended = host.run({"sagemaker_training_compiler_enabled": "true"})
    assert ended.code == 0, ended.log
    weights = {line.partition(": ")[2] for line in ended.log.splitlines() if line.startswith("rank ")}
    assert len(weights) == 1, ended.log
    assert "does not fit" not in ended.log
