"""Where a training hangs, natively and by each compiler: what the doctor's `idle` and `stall` name."""

import re
from pathlib import Path

import pytest

from sagelet_engine.telemetry.compiler.reading import idle_notes_of, workers_of
from support.training_host import KNOWN_PROCESSOR, TrainingHost, poll

pytestmark = pytest.mark.xla

COMPILED = {"sagemaker_training_compiler_enabled": "true"}
MODES = {
    "native": ({}, {}),
    "xla": (COMPILED, {"SAGELET_XLA_CLIENT": "builtin"}),
    "inductor": (COMPILED, {"SAGELET_COMPILER": "inductor", **KNOWN_PROCESSOR}),
}
SCRIPT = """
import os
import threading

import torch
from sagelet_runtime.reporting import idling

idling.EVERY, idling.LEAST = 0.2, 0.2  # Looks more often than a job does.

def lock():
    threading.Event().wait()

if os.environ.get("PJRT_DEVICE"):
    import torch_xla
    device, sync = torch_xla.device(), torch_xla.sync
else:
    device, sync = "cpu", lambda: None
model = torch.nn.Linear(8, 8).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    model(torch.ones(4, 8, device=device)).sum().backward()
    optimizer.step()
    sync()
lock()
"""


@pytest.mark.programs("g++")
@pytest.mark.parametrize("mode", MODES)
def test_a_training_that_hangs_says_where(tmp_path: Path, mode: str) -> None:
    hyperparameters, variables = MODES[mode]
    host = TrainingHost(tmp_path, dict(variables), forked=mode == "native")
    host.script(SCRIPT)
    process = host.start(hyperparameters)

    def hung() -> list[tuple[str, ...]]:
        assert process.poll() is None, host.log
        return [note.stack for note in idle_notes_of(tmp_path, "algo-1") if note.trains]

    try:
        poll(lambda: any("in lock" in call for stack in hung() for call in stack), "a note of the hanging call")
    finally:
        process.kill()
        process.wait(timeout=60)
    (note,) = [note for note in idle_notes_of(tmp_path, "algo-1") if note.trains]
    assert any(re.fullmatch(r"train\.py:\d+ in lock", call) for call in note.stack), note.stack
    (report,) = workers_of(tmp_path, "algo-1")
    assert report.optimizer_steps
    assert report.pid == note.pid
