"""What a step costs the host, by torch_xla's own counters. They are exact: a load of the machine changes nothing."""

import json
import re
import shutil
from pathlib import Path

import pytest

from sagelet_engine.telemetry.compiler.reading import workers_of
from sagelet_engine.telemetry.compiler.worker import Replayed
from support import step_counters
from support.training_host import TrainingHost

pytestmark = pytest.mark.xla

ASKED = {"sagemaker_training_compiler_enabled": "true"}
LAYERS = 6
#: Eight steps of AdamW with clipping.
PLAIN = f"""
    import torch
    import torch_xla.core.xla_model as xm
    from torch.nn.utils import clip_grad_norm_

    torch.manual_seed(0)
    device = xm.xla_device()
    model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range({LAYERS})]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
    x = torch.ones(4, 8).to(device)
    for step in range(8):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        xm.mark_step()
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    print("losses=" + str([weights.double().sum().item()]))
    """
TRAINER = (Path(__file__).parent / "trainer_script.py").read_text()
Counts = dict[str, int]


def steady(base: Path, script: str, tracing: str) -> tuple[Counts, list[float], Replayed]:
    """Returns a later step's counts, the losses, and what the report says of replayed steps."""
    environment = {"OMP_NUM_THREADS": "1", "PJRT_NPROC": "1", "SAGELET_XLA_TRACING": tracing}
    host = TrainingHost(base, environment)
    host.script(script, "script.py")
    shutil.copy(step_counters.__file__, base / "code" / "step_counters.py")
    host.script(
        "import runpy, sys, step_counters\nstep_counters.count()\nrunpy.run_path('script.py', run_name='__main__')\n"
    )
    ended = host.run(ASKED)
    assert ended.code == 0, ended.log
    lines = [json.loads(line) for line in re.findall(r"counted=(\{.*\})", ended.log)]
    assert lines[-1] == lines[-2], "the steps still change"
    losses = json.loads(re.findall(r"losses=(\[.*\])", ended.log)[-1])
    return lines[-1], losses, workers_of(base, "algo-1")[0].replayed


#: Lazy operations, tensors, nodes of graphs and executions of a step: all traced, and optimizer and clipping replayed.
EXPECTED = {
    "plain": ((463, 301, 407, 2), (308, 162, 118, 4)),
    "Trainer": ((1242, 938, 1285, 5), (992, 690, 674, 8)),
}
#: Steps, clippings and programs of eight steps. The Trainer's optimizer has two groups.
REPLAYED = {"plain": Replayed(8, 8, 2), "Trainer": Replayed(16, 8, 3)}


@pytest.mark.parametrize(("name", "script"), [("plain", PLAIN), ("Trainer", TRAINER)], ids=["plain", "Trainer"])
def test_a_replayed_step_calls_fewer_operations(tmp_path: Path, name: str, script: str) -> None:
    lazy, losses, nothing = steady(tmp_path / "lazy", script, "lazy")
    auto, replayed_losses, replayed = steady(tmp_path / "auto", script, "auto")
    assert replayed_losses == pytest.approx(losses, rel=1e-5)
    assert (nothing, replayed) == (Replayed(), REPLAYED[name])
    assert lazy.pop("compiles") == auto.pop("compiles") == 0
    assert (tuple(lazy.values()), tuple(auto.values())) == EXPECTED[name]
