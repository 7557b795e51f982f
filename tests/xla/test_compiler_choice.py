"""SAGELET_COMPILER=auto: jobs of a server take what was soonest, and say so."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from sagelet_engine.compile_cache.store import CacheStore, Entry
from sagelet_engine.reports.known_speeds import SUFFIX
from support.jobs import Jobs
from support.server import ACCOUNT, COMPILED, NATIVE, SageletProcess

pytestmark = [pytest.mark.xla, pytest.mark.programs("g++")]

DEADLINE = 1200
ASKED = {"sagemaker_training_compiler_enabled": '"true"'}
SCRIPT = """
    import argparse
    import torch

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--sagemaker_training_compiler_enabled", default="")
    arguments, _ = parser.parse_known_args()
    try:
        import torch_xla.core.xla_model as xm
        device = xm.xla_device()
        step = lambda: xm.optimizer_step(optimizer, barrier=True)
    except (ImportError, RuntimeError):
        device, step = "cpu", lambda: optimizer.step()
    model = torch.nn.Linear(8, 2).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.randn(40, 8), torch.randn(40, 2))
    for epoch in range(arguments.epochs):
        for inputs, targets in torch.utils.data.DataLoader(data, batch_size=4):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs.to(device)), targets.to(device))
            loss.backward()
            step()
            loss.item()
    print("trained")
    """


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    server = SageletProcess(tmp_path_factory.mktemp("data"), "--runtime", "process").start()
    try:
        yield Jobs(server)
    finally:
        server.stop()


def run(jobs: Jobs, epochs: int, compiler: str | None = None) -> tuple[str, dict[str, Any]]:
    """Runs a job to its end, natively without `compiler`. Returns its log and its report."""
    name = jobs.submit(
        SCRIPT,
        image=COMPILED if compiler else NATIVE,
        hyperparameters={"epochs": str(epochs), **(ASKED if compiler else {})},
        Environment={"SAGELET_COMPILER": compiler} if compiler else {},
        max_runtime=DEADLINE,
    )
    assert jobs.ended(name, DEADLINE)["TrainingJobStatus"] == "Completed", jobs.log(name)
    url = f"{jobs.server.endpoint}/_sagelet/jobs/{name}/compiler-report?account={ACCOUNT}&region=us-east-1"
    return "\n".join(jobs.log(name)), json.loads(urlopen(url).read())


def table(jobs: Jobs) -> tuple[CacheStore, Entry, dict[str, Any]]:
    """Returns the one table of speeds that there is."""
    store = CacheStore(jobs.server.data, 1)
    (entry,) = [one for one in store.entries() if one.name.endswith(SUFFIX)]
    body = store.body(entry.account, entry.image, entry.name)
    assert body is not None
    return store, entry, json.loads(body)


def test_a_job_takes_what_finished_the_same_training_soonest(jobs: Jobs) -> None:
    log, report = run(jobs, 1, "auto")
    assert "SAGELET_COMPILER=auto trains by XLA: this training has not run by XLA on this machine yet" in log
    assert (report["compiler"], report["others"]) == ("xla", [])
    native, report = run(jobs, 1)
    assert "SAGELET_COMPILER" not in native
    (other,) = report["others"]
    assert (other["compiler"], other["seconds"] > 10 * other["step_seconds"] > 0) == ("xla", True)

    store, entry, speeds = table(jobs)
    assert speeds.keys() == {"xla", "native"}
    assert all((one["steps"], one["lengths"]) == (10, {"epochs": 1.0}) for one in speeds.values())
    # Figures of a machine on which native training starts sooner, and compiled steps are faster.
    speeds["native"] |= {"step_seconds": 1.0, "other_seconds": 1.0}
    speeds["xla"] |= {"step_seconds": 0.5, "other_seconds": 10.0}
    store.replace(entry.account, entry.image, entry.name, json.dumps(speeds).encode(), entry.used_ms)
    log, report = run(jobs, 1, "auto")
    assert (
        "SAGELET_COMPILER=auto trains natively: 10 steps take, by its earlier runs: natively 11 s, by XLA 15 s" in log
    )
    assert "NOT COMPILED: 10 steps take" in log
    assert report["compiled"] is False
    assert re.search(
        r"^sagelet: 10 steps took .* natively, .*; by earlier runs they take: by XLA 15\.0 s, 500 ms a step", log, re.M
    )

    _, _, speeds = table(jobs)
    speeds["native"] |= {"step_seconds": 1.0, "other_seconds": 1.0}
    speeds["inductor"] = {**speeds["xla"], "step_seconds": 0.1, "other_seconds": 14.0}
    store.replace(entry.account, entry.image, entry.name, json.dumps(speeds).encode(), entry.used_ms)
    log, report = run(jobs, 3, "auto")
    assert "trains by Inductor: 30 steps take, by its earlier runs: by Inductor 17 s, by XLA 25 s, natively 31 s" in log
    assert (report["compiler"], [one["compiler"] for one in report["others"]]) == ("inductor", ["native", "xla"])
