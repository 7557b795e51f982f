"""Compiled training on two nodes of a cluster, with the launcher that a job of one machine has."""

import io
import re

import pytest

from support.clients import ROOT
from support.server import COMPILED
from support.slurm_server import SlurmJobs

pytestmark = [pytest.mark.slurm, pytest.mark.xla]

SCRIPT = ROOT / "examples" / "distributed" / "scripts" / "train.py"


def test_two_nodes_learn_what_one_process_learns_from_the_summed_batch(jobs: SlurmJobs) -> None:
    torch = pytest.importorskip("torch")
    from support import one_process

    name = jobs.submit(
        {"train.py": SCRIPT.read_text()},
        image=COMPILED,
        hosts=2,
        hyperparameters={
            "sagemaker_training_compiler_enabled": "true",
            "sagemaker_pytorch_xla_multi_worker_enabled": "true",
            "batch_size": "8",
        },
        Environment={"XLA_FLAGS": "--xla_backend_optimization_level=0"},
    )
    job = jobs.ended(name)
    logs = {host: jobs.log(name, host) for host in ("algo-1", "algo-2")}
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), logs)
    assert any("step 7 of 2 workers" in line for line in logs["algo-1"])
    expected, weights = one_process.regression(16)
    losses = [float(found[1]) for line in logs["algo-1"] if (found := re.search(r"loss=([0-9.]+);", line))]
    assert losses == pytest.approx(expected, rel=1e-5)
    trained = torch.load(io.BytesIO(jobs.artifact(name)["model.pt"]))
    for key, value in weights.items():
        torch.testing.assert_close(trained[key], value, rtol=1e-4, atol=1e-6)
