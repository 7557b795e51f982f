"""Tiny real scripts compiled by Inductor through `python -m sagelet_runtime.train`."""

from pathlib import Path

import pytest

from sagelet_engine.telemetry.compiler.reading import workers_of
from support.training_host import Ended, TrainingHost

pytestmark = pytest.mark.xla

COMPILED = {"sagemaker_training_compiler_enabled": "true"}
#: A loop of the Training Compiler with a ragged last batch and an evaluation.
LOOP = """
    import json
    import torch
    import torch_xla.core.xla_model as xm

    torch.manual_seed(7)
    device = xm.xla_device()
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3)).to(device)
    x = torch.randn(72, 20)
    data = torch.utils.data.TensorDataset(x, (x.sum(1) > 0).long())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    criterion = torch.nn.CrossEntropyLoss()
    losses = []
    for epoch in range(3):
        for inputs, labels in torch.utils.data.DataLoader(data, batch_size=32):
            optimizer.zero_grad()
            loss = criterion(model(inputs.to(device)), labels.to(device))
            loss.backward()
            xm.optimizer_step(optimizer, barrier=True)
            losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        losses.append(criterion(model(x.to(device)), data.tensors[1].to(device)).item())
    print("losses=" + json.dumps(losses))
    print("names=" + json.dumps(list(model.state_dict())))
    torch.save(model, "/dev/null")
    """


def losses_of(ended: Ended) -> list[float]:
    assert ended.code == 0, ended.log
    (line,) = [line for line in ended.log.splitlines() if line.startswith("losses=")]
    return [float(one) for one in line.removeprefix("losses=").strip("[]").split(",")]


@pytest.mark.parametrize("script", ["loop", "trainer"])
def test_losses_agree_with_xlas(host: TrainingHost, tmp_path: Path, script: str) -> None:
    text = LOOP if script == "loop" else Path(__file__).with_name("trainer_script.py").read_text()
    host.environment |= {"SAGELET_COMPILER": "inductor", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    host.script(text)
    ended = host.run(COMPILED)
    other = TrainingHost(tmp_path / "xla")
    other.script(text)
    assert losses_of(ended) == pytest.approx(losses_of(other.run(COMPILED)), rel=1e-4)
    (report,) = workers_of(host.base, "algo-1")
    assert (report.compiled, report.compiler, report.platform) == (True, "inductor", "CPU")
    assert report.compiles >= 1
    assert report.compile_seconds > 0
    assert report.compiling_steps[0] == 0
    assert report.executions >= 2 * report.steps
    assert not report.fallbacks


def test_a_model_that_inductor_cannot_compile_trains_natively(host: TrainingHost) -> None:
    broken = "import torch._inductor.graph as g\ndef fail(*a, **k): raise RuntimeError('no code')\n"
    host.environment |= {"SAGELET_COMPILER": "inductor"}
    host.script(broken + "g.GraphLowering.run = fail\nimport loop\n")
    host.script(LOOP, "loop.py")
    host.environment |= {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
    ended = host.run(COMPILED)
    assert len(losses_of(ended)) == 10
    assert "sagelet: Inductor cannot compile a part of the model, which runs natively: " in ended.log


def test_without_a_compiler_of_cpp_the_job_trains_natively(host: TrainingHost) -> None:
    host.environment |= {"SAGELET_COMPILER": "inductor", "CXX": "no-such-compiler"}
    host.script(LOOP)
    ended = host.run(COMPILED)
    assert len(losses_of(ended)) == 10
    assert "NOT COMPILED: Inductor needs a C++ compiler, and this host has no no-such-compiler" in ended.log


def test_an_unknown_compiler_is_refused(host: TrainingHost) -> None:
    host.environment |= {"SAGELET_COMPILER": "gcc"}
    host.script("print('never')")
    ended = host.run(COMPILED)
    assert ended.code == 1
    assert "SAGELET_COMPILER is 'gcc' in the job's Environment; use 'inductor' or 'xla'" in (ended.failure or "")
