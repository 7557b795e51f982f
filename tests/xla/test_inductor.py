"""Tiny real scripts compiled by Inductor: jobs of a server, and hosts through `python -m sagelet_runtime.train`."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from sagelet_engine.telemetry.compiler.reading import workers_of
from support.jobs import Jobs
from support.server import ACCOUNT, COMPILED, SageletProcess
from support.training_host import KNOWN_PROCESSOR, Ended, TrainingHost

pytestmark = [pytest.mark.xla, pytest.mark.programs("g++", "openssl")]

#: Seconds for a job. A cold one runs a C++ compiler for half a minute of CPU time.
DEADLINE = 1800
ASKED = {"sagemaker_training_compiler_enabled": "true"}
#: A loop of the Training Compiler with a ragged last batch, a branch on data in the model, and an evaluation.
LOOP = """
    import json
    import torch
    import torch_xla.core.xla_model as xm

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = torch.nn.Linear(20, 64), torch.nn.Linear(64, 3)

        def forward(self, x):
            hidden = torch.tanh(self.first(x))
            if (hidden > 2).any():
                print("never")
            return self.last(hidden)

    torch.manual_seed(7)
    device = xm.xla_device()
    model = Model().to(device)
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
    torch.save(model.state_dict(), "/dev/null")
    """


#: The same, which counts the programs that Inductor has another Python load, and the headers that this job compiled.
LOOP_AND_TRIALS = f"""
    import os
    import subprocess
    from pathlib import Path
    from types import SimpleNamespace
    import torch._inductor.cpu_vec_isa as vector_units

    trials = []
    check_call = lambda *given, **options: (trials.append(1), subprocess.check_call(*given, **options))
    vector_units.subprocess = SimpleNamespace(check_call=check_call, DEVNULL=subprocess.DEVNULL)
{LOOP}
    print(f"trials={{len(trials)}}")
    print(f"headers={{len(list(Path(os.environ['TORCHINDUCTOR_CACHE_DIR']).rglob('*.gch')))}}")
    """


def losses_in(log: str) -> list[float]:
    (found,) = re.findall(r"^losses=(.+)$", log, re.MULTILINE)
    losses: list[float] = json.loads(found)
    return losses


def run(host: TrainingHost, text: str, **variables: str) -> Ended:
    host.environment |= {"SAGELET_COMPILER": "inductor", **KNOWN_PROCESSOR, **variables}
    host.script(text)
    ended = host.run(ASKED)
    assert ended.code == 0, ended.log
    return ended


@pytest.fixture(scope="session")
def prepared() -> None:
    """Inductor's header and trials, as `make setup` makes them where there is a C++ compiler then."""
    subprocess.run([sys.executable, "-m", "sagelet_runtime.inductor.prepared"], check=True)


@pytest.fixture(scope="module")
def jobs(prepared: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    server = SageletProcess(tmp_path_factory.mktemp("data"), "--runtime", "process").start()
    try:
        yield Jobs(server)
    finally:
        server.stop()


def job(jobs: Jobs, text: str = LOOP, **variables: str) -> tuple[str, dict[str, Any]]:
    """Runs a job to its end. Returns its log and its report."""
    environment = {"SAGELET_COMPILER": "inductor", **variables}
    hyperparameters = {name: f'"{value}"' for name, value in ASKED.items()}
    name = jobs.submit(
        text, image=COMPILED, hyperparameters=hyperparameters, Environment=environment, max_runtime=DEADLINE
    )
    assert jobs.ended(name, DEADLINE)["TrainingJobStatus"] == "Completed", jobs.log(name)
    url = f"{jobs.server.endpoint}/_sagelet/jobs/{name}/compiler-report?account={ACCOUNT}&region=us-east-1"
    return "\n".join(jobs.log(name)), json.loads(urlopen(url).read())


def test_a_second_job_compiles_nothing_and_trains_as_the_first_and_as_a_native_one(jobs: Jobs) -> None:
    log, report = job(jobs, LOOP_AND_TRIALS)
    cold, compiler = report["total"], report["compiler"]
    assert (report["compiled"], compiler, report["platform"]) == (True, "inductor", "CPU")
    assert cold["compiles"] >= 2
    assert cold["compiling_steps"][0] == 0
    assert cold["executions"] >= 2 * cold["steps"]
    assert cold["fallbacks"] == {}
    graph = cold["graph"]
    assert graph["unique"] >= 2
    assert graph["breaks"] >= 1
    assert any("forward (train.py:" in reason for reason in graph["break_reasons"])
    assert graph["recompiles"] >= 1, "the last batch is smaller"
    assert graph["nodes_max"] >= 5
    assert (cold["cache"]["enabled"], cold["cache"]["hits"]) == (True, 0)
    assert cold["cache"]["misses"] >= 2
    assert {"trials=0", "headers=0"} <= set(log.splitlines()), "they were prepared before any job"
    second, report = job(jobs, LOOP_AND_TRIALS)
    assert {"trials=0", "headers=0"} <= set(second.splitlines())
    warm = report["total"]
    assert warm["cache"]["misses"] == 0
    assert warm["cache"]["hits"] >= 2
    assert losses_in(second) == losses_in(log)
    natively, report = job(jobs, CXX="no-such-compiler")
    assert "NOT COMPILED: Inductor needs a C++ compiler, and this host has no no-such-compiler" in natively
    assert report["compiled"] is False
    assert losses_in(natively) == pytest.approx(losses_in(log), rel=1e-4)


def test_a_trainer_compiles_its_model_unless_the_script_says_no(tmp_path: Path) -> None:
    text = Path(__file__).with_name("trainer_script.py").read_text()
    compiled, native = TrainingHost(tmp_path / "compiled"), TrainingHost(tmp_path / "native")
    ended = run(compiled, text)
    (report,) = workers_of(compiled.base, "algo-1")
    assert report.compiles >= 1
    assert not report.fallbacks
    kept = run(native, text.replace("report_to=[],", "report_to=[],\n    torch_compile=False,"))
    assert "sagelet: Inductor leaves the model alone: TrainingArguments have torch_compile=False" in kept.log
    (report,) = workers_of(native.base, "algo-1")
    assert (report.compiler, report.compiles) == ("inductor", 0)
    assert losses_in(kept.log) == pytest.approx(losses_in(ended.log), rel=1e-4)


#: Steps of each kind, as the script writes them and with `foreach=False`, which keeps torch from the fused kernel.
STEPS = """
    import json
    import torch

    fused = []
    kernel = torch._fused_adamw_
    torch._fused_adamw_ = lambda *lists, **settings: (fused.append(1), kernel(*lists, **settings))

    def train(weights, gradients, **settings):
        fused.clear()
        parameter = torch.nn.Parameter(weights.clone())
        optimizer = torch.optim.AdamW([parameter], lr=0.1, **settings)
        for gradient in gradients:
            parameter.grad = gradient
            optimizer.step()
        assert optimizer.param_groups[0]["fused"] is None, "what a checkpoint keeps is the script's"
        return parameter.detach()

    torch.manual_seed(7)
    weights, gradients = torch.randn(4, 3, 5, 5), torch.randn(3, 4, 3, 5, 5)
    last = torch.channels_last
    columns = weights.to(memory_format=last)
    for name, *given in (
        ("rows", weights, gradients),
        ("channels last", columns, [one.to(memory_format=last) for one in gradients]),
        ("laid out unlike the parameter", columns, gradients),
        ("from one step on unlike it", weights, [gradients[0], gradients[1].to(memory_format=last), gradients[2]]),
        ("float64", weights.double(), gradients.double()),
    ):
        torch.testing.assert_close(train(*given), train(*given, foreach=False), rtol=1e-6, atol=1e-6)
        train(*given)
        print(f"{name}: {len(fused)}")
    """


def test_adam_takes_the_fused_kernel_where_it_computes_the_same(host: TrainingHost) -> None:
    log = run(host, STEPS).log
    for expected in (
        "rows: 3",
        "channels last: 3",
        "laid out unlike the parameter: 0",
        "from one step on unlike it: 2",
        "float64: 0",
    ):
        assert expected in log.splitlines(), log
    assert "rows: 0" in run(host, STEPS, CXX="no-such-compiler").log.splitlines()


#: Dynamo fails with an error of its own in the first function that it traces.
UNTRACEABLE = """
    import torch._dynamo.symbolic_convert as convert

    def fail(self):
        raise TypeError("no such bytecode")

    convert.InstructionTranslator.run = fail
    import loop
    """
#: Inductor fails at the first graph.
WITHOUT_CODE = """
    import torch._inductor.graph as graph

    def fail(*args, **kwargs):
        raise RuntimeError("no code")

    graph.GraphLowering.run = fail
    import loop
    """


@pytest.mark.parametrize(("text", "error"), [(UNTRACEABLE, "no such bytecode"), (WITHOUT_CODE, "no code")])
def test_what_cannot_be_compiled_trains_natively(host: TrainingHost, text: str, error: str) -> None:
    host.script(LOOP, "loop.py")
    ended = run(host, text)
    assert len(losses_in(ended.log)) == 10
    assert "sagelet: Inductor cannot compile a part of the model, which runs natively: " in ended.log
    (report,) = workers_of(host.base, "algo-1")
    assert any(error in fault for fault in report.fallbacks)


def test_the_scripts_own_torch_compile_stays(host: TrainingHost) -> None:
    ended = run(host, LOOP.replace("Model().to(device)", 'torch.compile(Model(), backend="eager").to(device)'))
    assert len(losses_in(ended.log)) == 10
    (report,) = workers_of(host.base, "algo-1")
    assert report.compiles >= 1
    assert report.executions == 0, "no graph of Inductor's ran"


#: Each worker trains on its half of the same data.
WORKERS = """
    import json
    import torch
    import torch_xla.core.xla_model as xm
    import torch_xla.distributed.xla_multiprocessing as xmp

    def _mp_fn(index):
        torch.manual_seed(7)
        device = xm.xla_device()
        model = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(device)
        x = torch.randn(64, 20)[xm.get_ordinal()::xm.xrt_world_size()].to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses = []
        for step in range(4):
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            xm.optimizer_step(optimizer)
            losses.append(xm.mesh_reduce("loss", loss.item(), lambda all: sum(all) / len(all)))
        if xm.is_master_ordinal():
            print("losses=" + json.dumps(losses))

    if __name__ == "__main__":
        xmp.spawn(_mp_fn)
    """


def test_two_workers_train_as_one(tmp_path: Path) -> None:
    found = []
    for workers in ("1", "2"):
        host = TrainingHost(tmp_path / workers, forked=True)
        ended = run(host, WORKERS, GPU_NUM_DEVICES=workers, OMP_NUM_THREADS="1")
        found.append(losses_in(ended.log))
        reports = workers_of(host.base, "algo-1")
        assert [(one.compiler, one.graph.unique) for one in reports] == [("inductor", 1)] * int(workers)
        # A loop without a DataLoader: its first step begins with the model's first call, which compiles.
        assert all(one.first_step_seconds > one.compile_seconds > 0 for one in reports)
    assert found[1] == pytest.approx(found[0], rel=1e-4)


def test_two_workers_of_accelerate_know_each_other(tmp_path: Path) -> None:
    """Alone, each of them would train on all batches and exchange nothing."""
    host = TrainingHost(tmp_path, {"SAGELET_INSTANCE_GPUS": '{"ml.p3.2xlarge": 2}', **KNOWN_PROCESSOR}, forked=True)
    host.environment |= {"SAGELET_COMPILER": "inductor"}
    host.script(
        """
        from accelerate import Accelerator

        accelerator = Accelerator()
        print("process", accelerator.process_index, "of", accelerator.num_processes)
        """
    )
    ended = host.run({**ASKED, "sagemaker_pytorch_xla_multi_worker_enabled": "true"})
    assert ended.code == 0, ended.log
    assert sorted(re.findall(r"process (\d) of (\d)", ended.log)) == [("0", "2"), ("1", "2")]


def test_an_unknown_compiler_is_refused(host: TrainingHost) -> None:
    host.environment |= {"SAGELET_COMPILER": "gcc"}
    host.script("print('never')")
    ended = host.run(ASKED)
    assert ended.code == 1
    assert "SAGELET_COMPILER is 'gcc' in the job's Environment; use 'inductor', 'xla' or 'auto'" in (
        ended.failure or ""
    )
