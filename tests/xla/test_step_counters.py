"""What a step costs the host, by torch_xla's own counters. They are exact: a load of the machine changes nothing."""

import json
import re
import shutil
from pathlib import Path

import pytest

from sagelet_engine.telemetry.compiler.reading import workers_of
from sagelet_engine.telemetry.compiler.worker import Replayed, WorkerReport
from support import step_counters
from support.training_host import TrainingHost
from support.xla_workers import TINY

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


def steady(base: Path, script: str, tracing: str) -> tuple[Counts, list[float], WorkerReport]:
    """Returns a later step's counts, the losses, and the report."""
    # The later steps of `tiered` are those of a model that went up.
    environment = {**TINY, "SAGELET_XLA_TRACING": tracing, "SAGELET_XLA_TIERED_AFTER": "2"}
    host = TrainingHost(base, environment, forked=tracing != "auto")
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
    return lines[-1], losses, workers_of(base, "algo-1")[0]


#: Lazy operations, tensors, nodes of graphs, executions and their arguments of a step: all traced, optimizer and
#: clipping replayed, and models, too, from the first step on or from a later one.
EXPECTED = {
    "plain": {
        "lazy": (463, 301, 407, 2, 71), "auto": (164, 162, 118, 4, 89), "once": (46, 80, 12, 5, 91),
        "tiered": (46, 80, 12, 5, 91),
    },
    "Trainer": {
        "lazy": (1242, 938, 1285, 5, 163), "auto": (656, 690, 674, 8, 205), "once": (132, 235, 37, 14, 268),
        "tiered": (130, 232, 37, 11, 266),
    },
}  # fmt: skip
#: Steps, clippings and programs of eight steps. The Trainer's optimizer has two groups.
REPLAYED = {"plain": Replayed(8, 8, 2), "Trainer": Replayed(16, 8, 3)}
SCRIPTS = {"plain": PLAIN, "Trainer": TRAINER}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_step_makes_as_much_as_its_tracing_needs(tmp_path: Path, name: str) -> None:
    found = {tracing: steady(tmp_path / tracing, SCRIPTS[name], tracing) for tracing in EXPECTED[name]}
    _, lazy, _ = found["lazy"]
    assert {tracing: counts.pop("compiles") for tracing, (counts, *_) in found.items()} == dict.fromkeys(found, 0)
    assert {tracing: tuple(counts.values()) for tracing, (counts, *_) in found.items()} == EXPECTED[name]
    for _, losses, _ in found.values():
        assert losses == pytest.approx(lazy, rel=1e-5)
    reports = {tracing: report for tracing, (_, _, report) in found.items()}
    replayed = {tracing: report.replayed for tracing, report in reports.items()}
    assert replayed == {"lazy": Replayed(), **dict.fromkeys(("auto", "once", "tiered"), REPLAYED[name])}
    # The script has not asked for what the comparison of both ways reads and runs.
    assert (reports["tiered"].graph.tier.went_up_at, reports["tiered"].graph.tier.calls) == (3, 6)
    assert reports["tiered"].graph.breaks == reports["auto"].graph.breaks
    assert reads(reports["tiered"]) == reads(reports["auto"])


def reads(report: WorkerReport) -> list[tuple[str, int]]:
    return sorted((one.call, one.count) for one in report.evaluations)
