"""Pipelines of SDK v2, unchanged: in simulated time, and with training jobs that are processes."""

import re
from pathlib import Path
from typing import Any

import pytest

from sagelet.testing import FastForward, Job
from support.clients import Clients
from support.jobs import Jobs
from support.on_runtimes import by_processes
from support.server import SageletProcess

pytestmark = pytest.mark.sdk

HERE = Path(__file__).parent
SCRIPT = "print('loss=0.250000', flush=True)\nopen('/opt/ml/model/w', 'w').write('w')\n"


def source(tmp_path: Path) -> str:
    directory = tmp_path / "source"
    directory.mkdir()
    (directory / "train.py").write_text(SCRIPT)
    return str(directory)


def check(answer: dict[str, Any], *, good: bool) -> None:
    steps = {one["StepName"]: one for one in answer["steps"]}
    assert (answer["status"], answer["reason"]) == (
        ("Succeeded", None) if good else ("Failed", "Step failure: One or multiple steps failed.")
    )
    last = "Register-RegisterModel" if good else "TooBad"
    assert steps.keys() == {"Train", "GoodEnough", last}
    assert steps["GoodEnough"]["Metadata"]["Condition"] == {"Outcome": str(good).lower()}
    if good:
        assert "model-package/" in steps[last]["Metadata"]["RegisterModel"]["Arn"]
    else:
        assert steps[last]["Metadata"]["Fail"] == {"ErrorMessage": "loss is above 0.1"}
    again = {one["StepName"]: one for one in answer["again"]}
    assert again["Train"]["CacheHitResult"]["SourcePipelineExecutionArn"]
    assert again["Train"]["Metadata"] == steps["Train"]["Metadata"]
    # A second upsert updates: an update makes a version.
    assert answer["versions"] == [2, 1]


def test_a_pipeline_of_the_sdk_in_simulated_time(tmp_path: Path) -> None:
    with FastForward() as server:

        @server.train
        def train(job: Job) -> None:
            job.clock.advance(3600)
            job.print("loss=0.250000")
            (job.model_dir / "w").write_text("w")

        client = HERE / "clients" / "pipeline.py"
        answer = Clients(server, tmp_path).python(client, source(tmp_path), "ml.m5.large", "0.1")
    check(answer, good=False)


@by_processes
def test_a_pipeline_of_the_sdk_trains_for_real(server: SageletProcess, jobs: Jobs, tmp_path: Path) -> None:
    client = HERE / "clients" / "pipeline.py"
    answer = Clients(server, tmp_path).python(client, source(tmp_path), "ml.m5.large", "0.5")
    check(answer, good=True)
    name = next(one for one in answer["steps"] if one["StepName"] == "Train")["Metadata"]["TrainingJob"]["Arn"]
    child = jobs.describe(name.rpartition("/")[2])
    assert child["HyperParameters"]["epochs"] == "2"


def test_lambda_steps_of_the_sdk_run_as_processes(tmp_path: Path) -> None:
    """Functions run for real in simulated time, too."""
    with FastForward() as server:
        client = HERE / "clients" / "lambda_step.py"
        answer = Clients(server, tmp_path).python(client, str(tmp_path))
    steps = {one["StepName"]: one for one in answer["steps"]}
    assert answer["status"] == "Failed"
    outputs = {one["Name"]: one["Value"] for one in steps["Count"]["Metadata"]["Lambda"]["OutputParameters"]}
    assert outputs == {
        "twice": "8",
        "who": "me",
        "good": "true",
        "share": "0.5",
        "caller": "arn:aws:sts::123456789012:assumed-role/SageMakerRole/count",
        "name": "count",
    }
    assert steps["Broken"]["FailureReason"] == "The function broken failed: ValueError: no me here"
    assert "counted for me" in " ".join(answer["log"])
    assert answer["object"] == "4"
    invoked = {name: answer["invoked"][name] for name in ("error", "errorType", "errorMessage")}
    assert invoked == {"error": "Unhandled", "errorType": "ValueError", "errorMessage": "no word here"}


def test_what_the_sdks_own_tests_of_pipelines_assert(tmp_path: Path) -> None:
    """Those of tests/integ/sagemaker/workflow that need no data of an AWS account, in one process of the client."""
    with FastForward() as server:

        @server.train
        def train(job: Job) -> None:
            (job.model_dir / "w").write_text("w")

        client = HERE / "clients" / "workflow.py"
        answer = Clients(server, tmp_path).python(client, source(tmp_path))
    fails = answer["fail"]
    texts = {"text": "hit", "parameter": "hit", "join": "Failed due to xxx == yyy returns: false", "none": ""}
    for name, text in texts.items():
        one = fails[name]
        assert (one["same"], one["status"], one["steps"].keys()) == (True, "Failed", {"CondStep", "FailStep"}), name
        assert one["steps"]["CondStep"]["StepStatus"] == "Succeeded"
        failed = one["steps"]["FailStep"]
        shown = failed["StepStatus"], failed.get("FailureReason", ""), failed["Metadata"]["Fail"]["ErrorMessage"]
        assert shown == ("Failed", text, text), name
        assert one["reasons"] == ["Step failure: One or multiple steps failed."]
    assert "FailureReason" not in fails["none"]["steps"]["FailStep"]
    assert "CondStep can not depends on FailStep" in fails["refused"]
    for kind in ("callback", "lambda"):
        assert answer[kind]["created"] == answer[kind]["updated"] == answer[kind]["deleted"]
    assert answer["variables"] == ["greater: false left 1 right 3", "greater: true left 1 right 0"]
    selective = answer["selective"]
    before, after = selective["before"], selective["after"]
    assert (before["status"], after["status"], after["steps"].keys()) == ("Succeeded", "Succeeded", {"First", "Second"})
    source_arn = after["steps"]["First"]["SelectiveExecutionResult"]["SourcePipelineExecutionArn"]
    assert source_arn == selective["source"]
    assert after["steps"]["Second"]["Metadata"] != before["steps"]["Second"]["Metadata"]
    for one in answer["experiments"]:
        assert (one["status"], one["experiment"], one["components"]) == ("Succeeded", one["wanted"], 1)
    assert (answer["retry"]["status"], [*answer["retry"]["steps"]]) == ("Succeeded", ["Train"])
    found = answer["triggers"]
    assert found["count"] == 3
    for kind, name, expression, arn in zip(
        ("at", "rate", "cron"), found["names"], found["expressions"], found["arns"], strict=True
    ):
        assert kind in expression
        assert re.fullmatch(rf"arn:aws:scheduler:us-east-1:\d{{12}}:schedule/default/{name}", arn)
