"""Jobs from the SageMaker SDK v2, most of several workers. Each result is that of one process at the summed batch."""

import io
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.images.engine import connect
from sagelet_engine.runtimes.docker import spec as docker_spec
from support.clients import ROOT, Clients
from support.jobs import Jobs
from support.on_runtimes import by_processes, in_docker
from support.server import GROUP, SageletProcess, until

pytestmark = pytest.mark.sdk

HERE = Path(__file__).parent
SCRIPTS = HERE / "workers"
TRAINER = ROOT / "examples" / "hugging_face" / "scripts" / "train.py"
HOSTS = ("algo-1", "algo-2")
#: A launcher is the same program on every runtime: each is here on one. Hosts of both runtimes meet in several of them.
JOBS = {
    "process": ("trainer", "ddp", "mp_fn", "killed", "torchrun", "disabled"),
    "docker": ("launcher", "killed", "smddp"),
}
#: Seconds. The tests are in the order in which the jobs are submitted, so that each waits for little more than its own.
PATIENCE = 900

Submit = Callable[[SageletProcess, str], dict[str, str]]


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Submit:
    """Submits all of this module's jobs to a server at once, so that the machine is never idle. Their names."""
    known: dict[SageletProcess, dict[str, str]] = {}

    def submit(server: SageletProcess, runtime: str) -> dict[str, str]:
        if server not in known:
            clients = Clients(server, tmp_path_factory.mktemp("workers"))
            program, words = HERE / "clients" / "workers.py", (str(SCRIPTS), uuid.uuid4().hex[:8])
            known[server] = clients.python(program, *words, *JOBS[runtime])
        return known[server]

    return submit


@pytest.fixture
def names(request: pytest.FixtureRequest, server: SageletProcess, submitted: Submit) -> dict[str, str]:
    """The names of the jobs of the test's runtime."""
    return submitted(server, request.node.callspec.params["server"])


#: Seconds; a worker waits 1,800 s for another that is only slow.
SOON = 120


def completed(jobs: Jobs, name: str, hosts: Sequence[str] = HOSTS) -> dict[str, list[str]]:
    """The logs of a job's hosts."""
    job = jobs.ended(name, PATIENCE)
    logs = {host: jobs.log(name, host) for host in hosts}
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


@in_docker
def test_the_launcher_script_on_two_hosts_with_two_workers_each(jobs: Jobs, names: dict[str, str]) -> None:
    logs = completed(jobs, names["launcher"])
    assert any("step 7 of 4 workers" in line for line in logs["algo-1"])
    assert losses(logs["algo-2"]) == []
    assert_as_one_process(jobs, names["launcher"], logs["algo-1"])
    assert any("Python 3.8" in line for line in logs["algo-1"] if line.startswith("sagelet: "))


@by_processes
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


@by_processes
def test_native_ddp_on_two_hosts_with_four_workers_each(jobs: Jobs, names: dict[str, str]) -> None:
    logs = completed(jobs, names["ddp"])
    for number, log in enumerate(logs.values()):
        assert "Invoking SMDataParallel for native PT DDP job" in log
        for local in range(4):
            rank = 4 * number + local
            tag = f"[1,mpirank:{rank},algo-{number + 1}]<stdout>:"
            assert f"{tag}rank {rank}, local rank {local} of 8" in log
    assert_as_one_process(jobs, names["ddp"], logs["algo-1"])


@by_processes
def test_four_workers_of_a_script_that_only_defines_mp_fn(jobs: Jobs, names: dict[str, str]) -> None:
    log = completed(jobs, names["mp_fn"], HOSTS[:1])["algo-1"]
    assert any("torch_xla.distributed.xla_spawn --num_gpus 4 train_mp_fn.py" in line for line in log)
    assert any("step 7 of 4 workers" in line for line in log)
    assert_as_one_process(jobs, names["mp_fn"], log)
    assert "Training Compiler set to debug mode" in "\n".join(log)
    report = jobs.server.report(names["mp_fn"])
    assert [worker["rank"] for worker in report["workers"]] == [0, 1, 2, 3]
    check_debug_files(jobs.artifact(names["mp_fn"], "output", bucket="sdk-workers", prefix=""))


def check_debug_files(files: dict[str, bytes]) -> None:
    """What torch_xla wrote of each worker, where AWS's users look for it."""
    assert "compiler-report.json" in files
    ranks = ("", ".1", ".2", ".3")
    texts = {name.removeprefix("compiler/"): content.decode() for name, content in files.items()}
    for rank in ranks:
        assert "Metric: CompileTime" in texts[f"XLA_METRICS_FILE{rank}.txt"]
        # torch_xla analyses compilations for the first worker only.
        assert texts[f"PT_XLA_DEBUG{rank}.txt"].count("\n") > 4
    assert "Compilation Cause" in texts["PT_XLA_DEBUG.txt"]
    assert "_mp_fn (train_mp_fn.py:" in texts["PT_XLA_DEBUG.txt"]
    (first, *others) = [texts[f"XLA_SAVE_TENSORS_FILE{rank}.hlo.0"] for rank in ranks]
    assert "HloModule" in first
    assert 'source_file="' in first
    # What the compile cache lives by: processes that do the same make the same program, to the last byte.
    assert [other == first for other in others] == [True, True, True]


def test_a_worker_that_is_killed_in_a_step_fails_the_job_with_its_name(jobs: Jobs, names: dict[str, str]) -> None:
    job = jobs.ended(names["killed"], PATIENCE)
    logs = {host: jobs.log(names["killed"], host) for host in HOSTS}
    reason = job["FailureReason"]
    assert job["TrainingJobStatus"] == "Failed"
    assert reason.startswith("AlgorithmError: ExecuteUserScriptError:\nExitCode 137"), (reason, logs)
    assert 'ErrorMessage "worker 1 of 2 (algo-2, local rank 0) was killed by SIGKILL"' in reason
    assert len(losses(logs["algo-1"])) == 2
    (training,) = [one for one in job["SecondaryStatusTransitions"] if one["Status"] == "Training"]
    assert training["EndTime"].timestamp() - time_of(jobs, names["killed"], "step 1 of 2 workers") < SOON
    until(lambda: not left_over(names["killed"]))


def time_of(jobs: Jobs, name: str, text: str) -> float:
    """When a job's only line with this text came, in s since the epoch."""
    found = jobs.logs.filter_log_events(logGroupName=GROUP, logStreamNamePrefix=f"{name}/")["events"]
    (event,) = [event for event in found if text in event["message"]]
    return float(event["timestamp"]) / 1000


def left_over(job: str) -> list[str]:
    """Processes and containers of this machine that belong to a job."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            if f"TRAINING_JOB_NAME={job}".encode() in (directory / "environ").read_bytes().split(b"\0"):
                found.append(directory.name)
        except OSError:
            continue
    try:
        engine = connect()
    except RuntimeUnavailable:
        return found
    with closing(engine):
        mine = {"label": f"{docker_spec.JOB_NAME}={job}"}
        return found + [
            container.id for container in engine.containers.list(all=True, ignore_removed=True, filters=mine)
        ]


@in_docker
def test_smddp_on_two_hosts(jobs: Jobs, names: dict[str, str]) -> None:
    logs = completed(jobs, names["smddp"])
    for number, log in enumerate(logs.values(), 1):
        assert f"[1,mpirank:{number - 1},algo-{number}]<stdout>:backend=smddp local_rank=0 of 2" in log
        assert "Invoking SMDataParallel" in log
    assert_as_one_process(jobs, names["smddp"], logs["algo-1"])


@by_processes
def test_torch_distributed_on_two_hosts(jobs: Jobs, names: dict[str, str]) -> None:
    logs = completed(jobs, names["torchrun"])
    for rank, log in enumerate(logs.values()):
        assert "Invoking TorchDistributed..." in log
        assert f"rank {rank}, local rank 0 of 2" in log
    assert_as_one_process(jobs, names["torchrun"], logs["algo-1"])


@by_processes
def test_a_compiler_that_is_not_enabled_leaves_the_script_native(jobs: Jobs, names: dict[str, str]) -> None:
    log = completed(jobs, names["disabled"], HOSTS[:1])["algo-1"]
    job = jobs.describe(names["disabled"])
    assert "pytorch-trcomp-training" in job["AlgorithmSpecification"]["TrainingImage"]
    assert job["HyperParameters"]["sagemaker_training_compiler_enabled"] == "false"
    assert "device=cpu torch_xla=False" in log
    assert not [line for line in log if "Training Compiler" in line or line.startswith("sagelet: compiled")]
    assert jobs.server.report(names["disabled"])["compiled"] is False
    assert_as_one_process(jobs, names["disabled"], log)
