"""The clients that people use, unchanged: the SageMaker SDK v2, boto3's waiter, the AWS CLI."""

import json
from pathlib import Path

import pytest

from support.clients import ROOT, Clients
from support.jobs import Jobs
from support.on_runtimes import by_processes, in_docker
from support.server import COMPILED, ROLE, SageletProcess, until

pytestmark = pytest.mark.sdk

HERE = Path(__file__).parent
SHAPES = {"0.weight": (32, 1), "0.bias": (32,), "2.weight": (1, 32), "2.bias": (1,)}
SCRIPTS = ROOT / "examples" / "single_gpu" / "scripts"


@pytest.fixture
def clients(server: SageletProcess, tmp_path: Path) -> Clients:
    return Clients(server, tmp_path)


def metrics_of(jobs: Jobs, name: str) -> set[str]:
    """Names of the job's metrics in CloudWatch."""
    dimensions = [{"Name": "TrainingJobName", "Value": name}]
    pages = jobs.server.client("cloudwatch").get_paginator("list_metrics")
    found = pages.paginate(Namespace="/aws/sagemaker/TrainingJobs", Dimensions=dimensions)
    return {metric["MetricName"] for page in found for metric in page["Metrics"]}


def test_the_snippet_of_the_documents_trains_on_an_xla_device(clients: Clients, jobs: Jobs) -> None:
    torch = pytest.importorskip("torch")
    answer = clients.python(HERE / "clients" / "snippet.py", str(SCRIPTS))
    name, log = answer["name"], answer["log"]
    assert answer["description"]["TrainingJobStatus"] == "Completed"
    assert answer["model_data"] == answer["attached_model_data"] == f"s3://sdk-tests/{name}/output/model.tar.gz"
    assert answer["attached_hyperparameters"]["batch_size"] == "64"
    assert clients.listing("model.tar.gz") == ["model.pth"]
    weights = torch.load(clients.member("model.tar.gz", "model.pth"), weights_only=True)
    assert {key: tuple(value.shape) for key, value in weights.items()} == SHAPES
    assert {value.device.type for value in weights.values()} == {"cpu"}
    assert answer["losses"] == ["loss"]
    found = log.index("Found configuration for Training Compiler")
    assert found < log.index("Configuring SM Training Compiler...")
    assert "Training Compiler set to debug mode" not in log
    assert "device: xla:0" in log
    total = jobs.server.report(name)["total"]
    assert total["optimizer_steps"] == 30
    assert total["compiles"] >= 1
    # Forward and backward pass, and the update: the cut before the optimizer's step.
    assert total["executions"] >= 60
    assert {"sagelet:compiles", "sagelet:steady_step_seconds"} <= metrics_of(jobs, name)
    assert "compiler-report.json" in jobs.artifact(name, "output", bucket="sdk-tests", prefix="")


@in_docker
def test_stop_of_the_sdk(clients: Clients, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text("import time\nprint('on')\ntime.sleep(3600)\n")
    answer = clients.python(HERE / "clients" / "stop.py", str(source))
    assert answer["TrainingJobStatus"] == "Stopped"


@by_processes
def test_the_waiter_of_boto3(jobs: Jobs) -> None:
    name = jobs.submit("print('done')")
    jobs.sagemaker.get_waiter("training_job_completed_or_stopped").wait(
        TrainingJobName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 120}
    )
    assert jobs.describe(name)["TrainingJobStatus"] == "Completed"


@by_processes
def test_the_aws_cli_creates_describes_lists_and_stops(clients: Clients, jobs: Jobs) -> None:
    sleeper = jobs.submit("import time\nprint('on')\ntime.sleep(3600)")
    jobs.wait_for_line(sleeper, "on")
    body = {
        "TrainingJobName": f"{sleeper}-cli",
        "AlgorithmSpecification": {"TrainingImage": COMPILED, "TrainingInputMode": "File"},
        "RoleArn": ROLE,
        "OutputDataConfig": {"S3OutputPath": "s3://tests/out"},
        "ResourceConfig": {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        "HyperParameters": jobs.describe(sleeper)["HyperParameters"],
        "Tags": [{"Key": "team", "Value": "cli"}],
    }
    created = clients.aws("sagemaker", "create-training-job", "--cli-input-json", json.dumps(body))
    arn = created["TrainingJobArn"]
    assert arn.endswith(f":training-job/{sleeper}-cli")
    assert clients.aws("sagemaker", "list-tags", "--resource-arn", arn)["Tags"] == [{"Key": "team", "Value": "cli"}]
    listed = clients.aws("sagemaker", "list-training-jobs", "--name-contains", sleeper)["TrainingJobSummaries"]
    assert {job["TrainingJobName"] for job in listed} == {sleeper, f"{sleeper}-cli"}
    for name in (sleeper, f"{sleeper}-cli"):
        assert clients.aws("sagemaker", "stop-training-job", "--training-job-name", name) is None

    def status(name: str) -> str:
        described = clients.aws("sagemaker", "describe-training-job", "--training-job-name", name)
        return str(described["TrainingJobStatus"])

    until(lambda: status(sleeper) == "Stopped" and status(f"{sleeper}-cli") == "Stopped", every=1)
