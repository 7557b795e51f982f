"""A server behind `--auth --tls`: unchanged clients come in, a job reaches what it should, and secrets stay secret."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.clients import ENVIRONMENT, RunClients, answer_of, run_client
from support.jobs import Jobs
from support.server import SageletProcess

#: Nothing but the job and its owner may ever see it.
MARKER = "hunter2-marker-5f1c"
PROBE = Path(__file__).parent / "clients" / "inside.py"


@pytest.fixture(params=["docker"])
def locked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SageletProcess]:
    options = ("--auth", "--tls", "--log-level", "debug", "--runtime", request.param)
    process = SageletProcess(tmp_path / "data", *options).start()
    yield process
    process.stop()


def probed(log: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(line for line in log if line.startswith("PROBED ")).removeprefix("PROBED "))
    return found


def check_reach(seen: dict[str, Any]) -> None:
    """Checks what every job reaches, on any runtime."""
    assert seen["scheme"] == "https"
    assert seen["s3"] == seen["logs"] == "ok"
    assert seen["who"].endswith(":assumed-role/SageMakerRole/SageMaker")
    assert seen["create"] == seen["describe"] == "AccessDeniedException"
    assert seen["iam"] == "AccessDenied"
    assert (seen["control"], seen["control with a made-up key"]) == (403, 403)
    assert seen["a made-up key"] == "UnrecognizedClientException"


@pytest.mark.docker
@pytest.mark.sdk
def test_the_sdk_comes_in_and_a_container_reaches_only_what_it_should(locked: SageletProcess, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_bytes(PROBE.read_bytes())
    clients = RunClients(locked, tmp_path, ENVIRONMENT, {})
    clients.run("aws", "s3", "mb", "s3://sdk-tests")
    script = Path(__file__).parent / "clients" / "fit.py"
    output = clients.run("python", str(script), str(source), MARKER)
    assert answer_of(output)["TrainingJobStatus"] == "Completed", output
    jobs = Jobs(locked)
    name = answer_of(output)["TrainingJobName"]
    seen = probed(jobs.log(name))
    check_reach(seen)
    # The address is the container's own: whoever is asked there has nothing to give.
    assert set(seen["metadata"].values()) == {"ConnectionRefusedError"}
    assert seen["docker"] == []
    assert json.loads(clients.run("aws", "sagemaker", "list-training-jobs"))["TrainingJobSummaries"]
    control = [str(Path(sys.executable).with_name("sagelet")), "fault", name, "--endpoint", locked.endpoint]
    shown = run_client([*control, "--data", str(locked.data)], tmp_path, os.environ)
    assert "no faults" in shown
    said = "".join(locked.output) + locked.stop() + shown
    assert "DEBUG" in said
    secrets = (MARKER, jobs.sagemaker._request_signer._credentials.secret_key)
    assert [line for line in said.splitlines() if any(one in line for one in secrets)] == []


@pytest.mark.xla
def test_a_process_of_a_job_gets_the_same(tmp_path: Path) -> None:
    locked = SageletProcess(tmp_path / "data", "--auth", "--tls", "--log-level", "debug", "--runtime", "process")
    locked.start()
    try:
        jobs = Jobs(locked)
        name = jobs.submit(PROBE.read_text(), Environment={"MY_PASSWORD": MARKER}, hyperparameters={"token": MARKER})
        job = jobs.ended(name)
        assert job["TrainingJobStatus"] == "Completed", job
        check_reach(probed(jobs.log(name)))
        jobs.submit("import sys; sys.exit(3)", name="fails", Environment={"MY_PASSWORD": MARKER, "BAD": "a\0b"})
        assert jobs.ended("fails")["TrainingJobStatus"] == "Failed"
    finally:
        said = locked.stop()
    assert [line for line in said.splitlines() if MARKER in line] == []


@pytest.mark.docker
def test_without_auth_the_bridge_takes_no_made_up_keys(tmp_path: Path) -> None:
    """Loopback is the user's own; on the bridge anybody's container may knock."""
    server = SageletProcess(tmp_path / "data", "--runtime", "docker").start()
    try:
        bridge = [one for one in _listening(int(server.endpoint.rpartition(":")[2])) if one != "127.0.0.1"]
        assert len(bridge) == 1
        own = server.client("sagemaker", aws_secret_access_key="made up")
        assert own.list_training_jobs()["TrainingJobSummaries"] == []
        there = server.endpoint.replace("127.0.0.1", bridge[0])
        with pytest.raises(own.exceptions.ClientError, match="UnrecognizedClientException"):
            server.client("sagemaker", endpoint_url=there, aws_access_key_id="AKIAMADEUP").list_training_jobs()
        with pytest.raises(own.exceptions.ClientError, match="InvalidSignatureException"):
            server.client("sagemaker", endpoint_url=there, aws_secret_access_key="made up").list_training_jobs()
        assert server.client("sagemaker", endpoint_url=there).list_training_jobs()["TrainingJobSummaries"] == []
    finally:
        server.stop()


def _listening(port: int) -> list[str]:
    """The addresses of this machine that take connections on a port: never all of them."""
    import psutil

    found = {one.laddr.ip for one in psutil.net_connections("tcp") if one.laddr.port == port and one.status == "LISTEN"}
    assert not found & {"0.0.0.0", "::"}
    return sorted(found)
