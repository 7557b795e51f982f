"""Jobs of several workers, from the SageMaker SDK v2. Each result is that of one process at the summed batch."""

import io
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.clients import ROOT, Clients
from support.jobs import Jobs
from support.server import SageletProcess, until

pytestmark = pytest.mark.sdk

HERE = Path(__file__).parent
SCRIPTS = HERE / "workers"
TRAINER = ROOT / "examples" / "hugging_face" / "scripts" / "train.py"
HOSTS = ("algo-1", "algo-2")


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[SageletProcess], dict[str, str]]:
    """Submits all of this module's jobs to a server at once, so that the machine is never idle. Their names."""
    known: dict[SageletProcess, dict[str, str]] = {}

    def submit(server: SageletProcess) -> dict[str, str]:
        if server not in known:
            clients = Clients(server, tmp_path_factory.mktemp("workers"))
            known[server] = clients.python(HERE / "clients" / "workers.py", str(SCRIPTS), uuid.uuid4().hex[:8])
        return known[server]

    return submit


@pytest.fixture
def names(server: SageletProcess, submitted: Callable[[SageletProcess], dict[str, str]]) -> dict[str, str]:
    return submitted(server)


def completed(jobs: Jobs, name: str) -> dict[str, list[str]]:
    """The logs of a job's two hosts."""
    job = jobs.ended(name, 600)
    logs = {host: jobs.log(name, host) for host in HOSTS}
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), logs)
    return logs


def losses(log: list[str]) -> list[float]:
    return [float(found[1]) for line in log if (found := re.search(r"loss=([0-9.]+);", line))]


def assert_as_one_process(jobs: Jobs, name: str, log: list[str]) -> None:
    torch = pytest.importorskip("torch")
    from support import one_process

    expected, weights = one_process.regression(16)
    assert losses(log) == pytest.approx(expected, rel=1e-5)
    final = jobs.describe(name)["FinalMetricDataList"]
    assert [(one["MetricName"], one["Value"]) for one in final] == [("loss", pytest.approx(expected[-1], rel=1e-5))]
    trained = torch.load(io.BytesIO(jobs.artifact(name, bucket="sdk-workers", prefix="")["model.pt"]))
    for key, value in weights.items():
        torch.testing.assert_close(trained[key], value, rtol=1e-4, atol=1e-6)


def test_the_launcher_script_on_two_hosts_with_two_workers_each(jobs: Jobs, names: dict[str, str]) -> None:
    logs = completed(jobs, names["launcher"])
    assert any("step 7 of 4 workers" in line for line in logs["algo-1"])
    assert losses(logs["algo-2"]) == []
    assert_as_one_process(jobs, names["launcher"], logs["algo-1"])
    assert any("Python 3.8" in line for line in logs["algo-1"] if line.startswith("sagelet: "))


def test_smddp_on_two_hosts(jobs: Jobs, names: dict[str, str]) -> None:
    logs = completed(jobs, names["smddp"])
    for number, log in enumerate(logs.values(), 1):
        assert f"[1,mpirank:{number - 1},algo-{number}]<stdout>:backend=smddp local_rank=0 of 2" in log
        assert "Invoking SMDataParallel" in log
    assert_as_one_process(jobs, names["smddp"], logs["algo-1"])


def test_the_hugging_face_trainer_on_two_workers(jobs: Jobs, names: dict[str, str], tmp_path: Path) -> None:
    logs = completed(jobs, names["trainer"])
    assert "on xla with 2 workers" in logs["algo-1"]
    assert trainer_losses(logs["algo-1"]) == pytest.approx(trainer_losses(native_trainer(tmp_path)), rel=1e-3)
    assert "model.safetensors" in jobs.artifact(names["trainer"], bucket="sdk-workers", prefix="")
    for log in logs.values():
        assert "Invoking PT-XLA Runner" in log
        assert any("torch_xla.distributed.xla_spawn --num_gpus 1 train.py" in line for line in log)


def trainer_losses(log: list[str]) -> Any:
    (line,) = [line for line in log if line.startswith("losses=")]
    return json.loads(line.removeprefix("losses="))


def native_trainer(directory: Path) -> list[str]:
    """The same script by one process without torch_xla."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("PJRT", "WORLD", "RANK"))}
    environment = {**others, "USE_TORCH_XLA": "0", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(TRAINER), "--batch_size", "8", "--output_dir", str(directory)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_worker_that_is_killed_in_a_step_fails_the_job_with_its_name(jobs: Jobs, names: dict[str, str]) -> None:
    job = jobs.ended(names["killed"], 600)
    logs = {host: jobs.log(names["killed"], host) for host in HOSTS}
    reason = job["FailureReason"]
    assert job["TrainingJobStatus"] == "Failed"
    assert reason.startswith("AlgorithmError: ExecuteUserScriptError:\nExitCode 137"), (reason, logs)
    assert 'ErrorMessage "worker 1 of 2 (algo-2, local rank 0) was killed by SIGKILL"' in reason
    assert len(losses(logs["algo-1"])) == 2
    until(lambda: not left_over(names["killed"]))


def left_over(job: str) -> list[str]:
    """Processes of this machine that belong to a job."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if f"TRAINING_JOB_NAME={job}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found.append(directory.name)
        except OSError:
            continue
    return found
