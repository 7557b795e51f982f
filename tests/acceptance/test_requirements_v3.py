"""What a job of SDK v3 says whose packages cannot be installed: its real driver installs them, not AWS's toolkit."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from support.clients import ENVIRONMENT_V3, RunClients
from support.jobs import Jobs
from support.on_runtimes import by_processes, in_docker
from support.packages import wheel, wheel_name
from support.proxy import RecordingProxy
from support.server import COMPILED, NATIVE, SageletProcess

pytestmark = pytest.mark.sdk3
HERE = Path(__file__).parent
WHEELS = {
    wheel_name("vision-for-test"): wheel("vision-for-test", requires="torch==99.0"),
    wheel_name("torch", "99.0"): wheel("torch", "99.0"),
}


def failed(
    server: SageletProcess, directory: Path, proxy: RecordingProxy, image: str, wanted: str, **environment: str
) -> dict[str, Any]:
    """The description of a job with such a requirements.txt, which failed."""
    source = directory / "source"
    source.mkdir()
    (source / "train.py").write_text("print('the script runs')\n")
    (source / "requirements.txt").write_text(f"--no-index\n--find-links .\n{wanted}\n")
    for name, content in WHEELS.items():
        (source / name).write_bytes(content)
    client = RunClients(server, directory, ENVIRONMENT_V3, proxy.environment)
    # pip's configuration on this machine may have constraints of its own.
    environment["PIP_CONFIG_FILE"] = os.devnull
    arguments = [str(HERE / "clients" / "trainer_v3.py"), str(source), image, "{}", json.dumps(environment), "basic"]
    with pytest.raises(AssertionError, match="FailedStatusError"):
        client.run("python", *arguments)
    sagemaker = server.client("sagemaker")
    newest = sagemaker.list_training_jobs(NameContains="v3-basic", SortBy="CreationTime", SortOrder="Descending")
    name = newest["TrainingJobSummaries"][0]["TrainingJobName"]
    job: dict[str, Any] = sagemaker.describe_training_job(TrainingJobName=name)
    return job


@in_docker
def test_the_pin_is_named_with_the_remedy(
    server: SageletProcess, jobs: Jobs, tmp_path: Path, proxy: RecordingProxy
) -> None:
    job = failed(server, tmp_path, proxy, NATIVE, "torch==99.0")
    reason, lines = job["FailureReason"], jobs.log(job["TrainingJobName"])
    log = "\n".join(lines)
    for text in ("Cannot install torch==99.0", "The user requested torch==99.0. sagelet keeps ", "SAGELET_PINS=exact"):
        assert text in reason, reason
        assert text in log
    assert "sagelet doctor: error failed-install: " in log
    assert "the script runs" not in lines


@by_processes
@pytest.mark.xla
def test_torch_xla_is_looked_at_after_the_installation(
    server: SageletProcess, jobs: Jobs, tmp_path: Path, proxy: RecordingProxy
) -> None:
    job = failed(server, tmp_path, proxy, COMPILED, "vision-for-test", SAGELET_PINS="exact")
    assert "torch_xla cannot be used after it" in job["FailureReason"]
    assert "vision-for-test 1.0 needs torch==99.0" in job["FailureReason"]
    # A line of its own: what sagelet says of the compiler has these words, too.
    assert "the script runs" not in jobs.log(job["TrainingJobName"])
