"""Tuning jobs through the AWS CLI, and warm start and Autotune through SDK v2, in simulated time."""

import json
from pathlib import Path
from typing import Any

import pytest

from sagelet.testing import FastForward, Job
from support.clients import Clients
from support.tuning import definition, tuning_request

pytestmark = pytest.mark.sdk

HERE = Path(__file__).parent


def train(job: Job) -> None:
    job.clock.advance(600)
    job.print(f"loss={float(job.hyperparameters['lr']):.6f}")


def test_the_cli_makes_lists_waits_for_and_stops_tuning_jobs(tmp_path: Path) -> None:
    with FastForward() as server:
        server.train(train)
        server.session().client("s3").create_bucket(Bucket="tuned")
        clients = Clients(server, tmp_path)

        def aws(operation: str, name: str | None = None, *arguments: str) -> Any:
            named = () if name is None else ("--hyper-parameter-tuning-job-name", name)
            return clients.aws("sagemaker", operation, *named, *arguments)

        def create(name: str) -> None:
            file = tmp_path / f"{name}.json"
            job = definition(OutputDataConfig={"S3OutputPath": "s3://tuned/out"})
            file.write_text(json.dumps(tuning_request(name, job=job)))
            answer = aws("create-hyper-parameter-tuning-job", None, "--cli-input-json", f"file://{file}")
            assert answer["HyperParameterTuningJobArn"].endswith(f":hyper-parameter-tuning-job/{name}")

        create("done")
        server.wait_tuning("done")
        shown = aws("describe-hyper-parameter-tuning-job", "done")
        assert shown["TrainingJobStatusCounters"]["Completed"] == 6
        best = shown["BestTrainingJob"]["TrainingJobName"]
        clients.aws("sagemaker", "wait", "training-job-completed-or-stopped", "--training-job-name", best)
        order = ("--sort-by", "FinalObjectiveMetricValue", "--sort-order", "Ascending", "--max-items", "1")
        found = aws("list-training-jobs-for-hyper-parameter-tuning-job", "done", *order)
        assert [one["TrainingJobName"] for one in found["TrainingJobSummaries"]] == [best]
        with server.clock.held():
            create("stopped")
            aws("stop-hyper-parameter-tuning-job", "stopped")
        assert server.wait_tuning("stopped")["HyperParameterTuningJobStatus"] == "Stopped"
        listed = aws("list-hyper-parameter-tuning-jobs", None, "--status-equals", "Stopped")
        names = [one["HyperParameterTuningJobName"] for one in listed["HyperParameterTuningJobSummaries"]]
        assert names == ["stopped"]


def test_warm_start_and_autotune_of_the_sdk(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text("print('a Python function trains in its place')\n")
    with FastForward() as server:
        server.train(train)
        answer = Clients(server, tmp_path).python(HERE / "clients" / "warm_start.py", str(source))
    assert {one["HyperParameterTuningJobStatus"] for one in answer.values()} == {"Completed"}
    parent = answer["parent"]["HyperParameterTuningJobName"]
    identical = answer["identical"]
    assert identical["WarmStartConfig"]["WarmStartType"] == "IdenticalDataAndAlgorithm"
    losses = {
        name: answer[name]["BestTrainingJob"]["FinalHyperParameterTuningJobObjectiveMetric"]["Value"]
        for name in ("parent", "identical")
    }
    overall = identical["OverallBestTrainingJob"]
    assert overall["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] == min(losses.values())
    assert (overall["TuningJobName"] == parent) == (losses["parent"] < losses["identical"])
    parents = answer["transfer"]["WarmStartConfig"]["ParentHyperParameterTuningJobs"]
    assert len(parents) == 2
    assert "OverallBestTrainingJob" not in answer["other"]
    ranges = answer["auto"]["HyperParameterTuningJobConfig"]["ParameterRanges"]
    assert ranges == {"ContinuousParameterRanges": [{"Name": "lr", "MinValue": "0.005", "MaxValue": "0.02"}]}
    static = answer["auto"]["TrainingJobDefinition"]["StaticHyperParameters"]
    assert (static["epochs"], static["optimizer"]) == ("2", '"sgd"')
