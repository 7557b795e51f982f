"""Tuning jobs in simulated time: a trial is a call of a Python function."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from sagelet.testing import FastForward, Job
from sagelet.testing.fast_forward import NotInTime
from sagelet_api.serve import Sagelet
from sagelet_engine.base.errors import SageletError
from support.tuning import definition, tuning_request

HOUR = 3600


@pytest.fixture(scope="module")
def server() -> Iterator[FastForward]:
    with FastForward() as running:
        running.session().client("s3").create_bucket(Bucket="tuned")

        @running.train
        def train(job: Job) -> int:
            for epoch in range(2):
                job.clock.advance(HOUR / 2)
                job.print(f"loss={float(job.hyperparameters['lr']) / (1 + epoch):.8f}")
            (job.model_dir / "w").write_text("w")
            return int(job.hyperparameters.get("exit", 0))

        yield running


def tune(server: FastForward, name: str, *, tags: dict[str, str] | None = None, **given: Any) -> None:
    job = definition(OutputDataConfig={"S3OutputPath": "s3://tuned/out"}, **given.pop("job", {}))
    body = tuning_request(name, job=job, **given)
    body["Tags"] = [{"Key": tag, "Value": value} for tag, value in (tags or {}).items()]
    server.session().client("sagemaker").create_hyper_parameter_tuning_job(**body)


def test_six_hours_of_training_take_no_time(server: FastForward) -> None:
    begin = server.clock.now()
    tune(server, "six")
    shown = server.wait_tuning("six")
    trials = server.trials("six")
    assert [one["TrainingJobStatus"] for one in trials] == ["Completed"] * 6
    # Two at a time, an hour each.
    assert timedelta(hours=3) <= server.clock.now() - begin < timedelta(hours=3, minutes=1)
    assert shown["ConsumedResources"]["RuntimeInSeconds"] in range(3 * HOUR, 3 * HOUR + 60)
    assert [one["TrainingEndTime"] - one["TrainingStartTime"] for one in trials] == [timedelta(hours=1)] * 6
    best = min(trials, key=lambda one: one["FinalHyperParameterTuningJobObjectiveMetric"]["Value"])
    assert shown["BestTrainingJob"]["TrainingJobName"] == best["TrainingJobName"]
    value = best["FinalHyperParameterTuningJobObjectiveMetric"]["Value"]
    assert value == pytest.approx(float(best["TunedHyperParameters"]["lr"]) / 2, rel=1e-4)


def test_a_fault_of_the_tuning_job_happens_to_its_training_jobs(server: FastForward) -> None:
    retried = {"RetryStrategy": {"MaximumRetryAttempts": 2}}
    limits = {"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 1}
    fault = {"sagelet:fault": "internal-server-error:1"}
    tune(server, "retried", tags=fault, job=retried, ResourceLimits=limits)
    assert server.wait_tuning("retried")["TrainingJobStatusCounters"]["Completed"] == 2
    sagemaker = server.session().client("sagemaker")
    for one in server.trials("retried"):
        steps = sagemaker.describe_training_job(TrainingJobName=one["TrainingJobName"])["SecondaryStatusTransitions"]
        assert "Restarting" in [step["Status"] for step in steps]
    tune(server, "faulty", tags=fault, ResourceLimits=limits)
    shown = server.wait_tuning("faulty", "Failed")
    assert shown["TrainingJobStatusCounters"]["RetryableError"] == 2
    assert shown["FailureReason"].startswith("No training job succeeded after 2 attempts.")


def test_spot_training_jobs_are_interrupted_and_go_on(server: FastForward) -> None:
    spot = {
        "EnableManagedSpotTraining": True,
        "StoppingCondition": {"MaxRuntimeInSeconds": 3 * HOUR, "MaxWaitTimeInSeconds": 6 * HOUR},
        "CheckpointConfig": {"S3Uri": "s3://tuned/checkpoints"},
    }
    limits = {"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 2}
    tune(server, "spot", tags={"sagelet:interrupt-after": "600"}, job=spot, ResourceLimits=limits)
    assert server.wait_tuning("spot")["TrainingJobStatusCounters"]["Completed"] == 2
    sagemaker = server.session().client("sagemaker")
    for one in server.trials("spot"):
        job = sagemaker.describe_training_job(TrainingJobName=one["TrainingJobName"])
        assert "Interrupted" in [step["Status"] for step in job["SecondaryStatusTransitions"]]
        assert job["BillableTimeInSeconds"] < job["TrainingTimeInSeconds"]
        assert job["CheckpointConfig"]["S3Uri"] == f"s3://tuned/checkpoints/{one['TrainingJobName']}"


def test_it_is_the_running_server_until_it_has_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A training job that begins meanwhile finds its function. Otherwise it would be Failed in a kept directory."""
    stop, found = Sagelet.stop, []

    def stopping(one: Sagelet) -> Any:
        found.append(own.endpoint)
        return stop(one)

    monkeypatch.setattr(Sagelet, "stop", stopping)
    with FastForward() as own:
        endpoint = own.endpoint
    assert found == [endpoint]
    with pytest.raises(SageletError, match="not running"):
        _ = own.endpoint


def test_waiting_for_what_does_not_come(server: FastForward) -> None:
    failing = {"StaticHyperParameters": {"epochs": "2", "exit": "1"}}
    tune(server, "failing", job=failing, ResourceLimits={"MaxNumberOfTrainingJobs": 1, "MaxParallelTrainingJobs": 1})
    with pytest.raises(NotInTime, match=r"failing is Failed and not Completed\. No training job succeeded"):
        server.wait_tuning("failing", "Completed")
