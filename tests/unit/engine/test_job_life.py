"""Jobs from creation to their end, on a fake runtime, fake S3 and a fake clock."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.base.errors import ClientFault, DataDirectoryInUse, JobNameInUse, JobNotStoppable
from sagelet_engine.model.job import JobStatus, SecondaryStatus
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.settings import GpuPolicy
from support.world import World, key, until


def statuses(job: TrainingJob) -> list[str]:
    return [entry.status.value for entry in job.transitions]


def test_a_job_runs_to_completed(world: World) -> None:
    world.objects.put("in", "data/train/a.txt", b"text")
    channel = {
        "ChannelName": "training",
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://in/data"}},
    }
    world.create("one", InputDataConfig=[channel])
    host = world.host("one")
    opt_ml = host.plan.hosts[0].opt_ml
    assert (opt_ml / "input/data/training/train/a.txt").read_text() == "text"
    assert host.plan.arguments == ("train",)
    assert host.plan.entrypoint is None
    assert host.plan.environment["TRAINING_JOB_NAME"] == "one"
    assert host.plan.environment["AWS_ENDPOINT_URL"] == "http://endpoint:4599"
    host.say("first", "second")
    (opt_ml / "model/weights").write_text("w")
    world.clock.turn(61.2)
    host.end(0)
    job = world.ended("one")
    assert job.status is JobStatus.COMPLETED
    assert statuses(job) == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert world.log("one") == ["first", "second"]
    assert world.objects.uploads == ["s3://out/models/one/output/model.tar.gz"]
    assert job.training_seconds == 61
    assert world.runtime.reaped == [job.id]


def test_a_failed_script_gives_its_failure_file_and_exit_code(world: World) -> None:
    world.create("bad")
    host = world.host("bad")
    (host.plan.hosts[0].opt_ml / "output/failure").write_text("ExecuteUserScriptError:\nExitCode 1")
    (host.plan.hosts[0].opt_ml / "model/half").write_text("w")
    host.end(1)
    job = world.ended("bad")
    assert job.status is JobStatus.FAILED
    assert job.failure_reason == "AlgorithmError: ExecuteUserScriptError:\nExitCode 1, exit code: 1"
    assert statuses(job)[-2:] == ["Uploading", "Failed"]
    assert world.objects.uploads == ["s3://out/models/bad/output/model.tar.gz"]


def test_the_failure_reason_is_cut_to_1024_characters_and_keeps_the_exit_code(world: World) -> None:
    world.create("bad")
    host = world.host("bad")
    (host.plan.hosts[0].opt_ml / "output/failure").write_text("x" * 5000)
    host.end(3)
    reason = world.ended("bad").failure_reason
    assert reason is not None
    assert len(reason) == 1024
    assert reason.endswith("xxx, exit code: 3")


def test_missing_input_fails_the_job_with_the_words_of_aws(world: World) -> None:
    channel = {
        "ChannelName": "training",
        "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://nowhere/x"}},
    }
    world.create("one", InputDataConfig=[channel])
    job = world.ended("one")
    assert job.failure_reason is not None
    assert job.failure_reason.startswith('ClientError: Data download failed:No S3 objects found under S3 URL "s3://no')
    assert statuses(job) == ["Starting", "Downloading", "Failed"]


TENSORFLOW = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-training:2.11-gpu-py39"


@pytest.mark.parametrize(
    ("image", "hyperparameters", "said"),
    [
        (TENSORFLOW, {"sagemaker_training_compiler_enabled": "true"}, "Use the PyTorch or the HuggingFace estimator"),
        ("nowhere:1", {}, "`docker pull`"),
        ("sagelet/training:0.1.0", {"sagemaker_mpi_enabled": "true"}, "no launcher"),
    ],
)
def test_a_refusal_does_not_wait_for_a_free_place(
    full_world: World, image: str, hyperparameters: dict[str, str], said: str
) -> None:
    world = full_world
    algorithm = {"TrainingImage": image, "TrainingInputMode": "File"}
    world.create("refused", AlgorithmSpecification=algorithm, HyperParameters=hyperparameters)
    job = world.ended("refused")
    assert job.status is JobStatus.FAILED
    assert job.failure_reason is not None
    assert job.failure_reason.startswith("ClientError: ")
    assert said in job.failure_reason
    assert statuses(job) == ["Starting", "Failed"]
    assert (job.training_seconds, world.runtime.reaped) == (None, [])
    assert world.job("running").secondary is SecondaryStatus.TRAINING


@pytest.fixture
def full_world(tmp_path: Path) -> Iterator[World]:
    """It has one place, and a job on it."""
    world = World(tmp_path, max_jobs=1)
    world.create("running")
    until(lambda: world.job("running").secondary is SecondaryStatus.TRAINING)
    yield world
    world.engine.close()


def test_an_unknown_image_fails_the_job_and_says_how_to_map_it(world: World) -> None:
    world.create("one", AlgorithmSpecification={"TrainingImage": "my/own:1", "TrainingInputMode": "File"})
    job = world.ended("one")
    assert job.failure_reason is not None
    assert job.failure_reason.startswith("ClientError: No image stands in for my/own:1")
    assert "`sagelet image map " in job.failure_reason
    assert job.training_start_ms is None
    assert job.training_seconds is None


def test_a_launch_that_the_runtime_refuses_fails_the_job(world: World) -> None:
    world.runtime.on_launch = [ClientFault("no such program")]
    world.create("one")
    assert world.ended("one").failure_reason == "ClientError: no such program"


def test_an_internal_error_fails_the_job_and_leaves_no_host(world: World) -> None:
    world.runtime.on_launch = [ZeroDivisionError("boom")]
    world.create("one")
    job = world.ended("one")
    assert job.failure_reason == "InternalServerError: We encountered an internal error. Please try again."
    assert job.transitions[-1].message == "Training job failed (sagelet: ZeroDivisionError: boom)"
    assert not world.runtime.hosts


def test_a_runtime_that_does_not_answer_is_waited_for(world: World) -> None:
    world.runtime.unavailable = 1
    world.create("one")
    world.host("one").end(0)
    assert world.ended("one").status is JobStatus.COMPLETED


def test_stop_sends_term_uploads_and_ends_stopped(world: World) -> None:
    world.create("one")
    host = world.host("one")
    until(lambda: world.job("one").launched)
    world.engine.jobs.stop(key("one"))
    assert world.job("one").status is JobStatus.STOPPING
    until(lambda: host.signals == ["TERM"])
    (host.plan.hosts[0].opt_ml / "model/saved").write_text("w")
    host.say("saved in the handler")
    host.end(0)
    job = world.ended("one")
    assert statuses(job) == ["Starting", "Downloading", "Training", "Stopping", "Stopped"]
    assert job.status is JobStatus.STOPPED
    assert job.failure_reason is None
    assert world.objects.uploads == ["s3://out/models/one/output/model.tar.gz"]
    assert world.log("one") == ["saved in the handler"]


def test_a_host_that_ignores_term_is_killed_after_the_grace(world: World) -> None:
    world.create("one")
    host = world.host("one")
    world.engine.jobs.stop(key("one"))
    until(lambda: host.signals == ["TERM"])
    world.clock.turn(119)
    world.engine.jobs.stop(key("one"))
    assert host.signals == ["TERM"]
    world.clock.turn(1)
    until(lambda: host.signals == ["TERM", "KILL"])
    host.end(137)
    assert world.ended("one").status is JobStatus.STOPPED


def test_a_stopped_job_cannot_be_stopped_again(world: World) -> None:
    world.create("one")
    world.host("one").end(0)
    world.ended("one")
    with pytest.raises(JobNotStoppable, match="Completed"):
        world.engine.jobs.stop(key("one"))


@pytest.mark.parametrize("by", ["limit", "user"])
def test_a_stop_does_not_wait_for_all_of_the_data(world: World, monkeypatch: pytest.MonkeyPatch, by: str) -> None:
    """MaxRuntimeInSeconds counts from the start of Downloading."""
    for name in "abc":
        world.objects.put("in", f"data/{name}", b"1")
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://in/data"}}
    download, downloaded = world.objects.download, []

    def slow(*arguments: Any) -> None:
        downloaded.append(arguments[2])
        world.engine.jobs.stop(key("one")) if by == "user" else world.clock.turn(60)
        download(*arguments)

    monkeypatch.setattr(world.objects, "download", slow)
    world.create(
        "one",
        InputDataConfig=[{"ChannelName": "training", "DataSource": source}],
        StoppingCondition={"MaxRuntimeInSeconds": 60},
    )
    job = world.ended("one")
    assert downloaded == ["data/a"]
    assert job.secondary is (SecondaryStatus.STOPPED if by == "user" else SecondaryStatus.MAX_RUNTIME_EXCEEDED)
    assert statuses(job)[:3] == ["Starting", "Downloading", "Stopping"]
    assert not world.runtime.launches


def test_names_are_unique_without_case(world: World) -> None:
    world.create("One")
    with pytest.raises(JobNameInUse) as caught:
        world.create("one")
    assert caught.value.arn == "arn:aws:sagemaker:us-east-1:123456789012:training-job/one"


def test_jobs_wait_for_capacity_in_order(make_world: Callable[..., World]) -> None:
    world = make_world(max_jobs=1)
    for name in ("a", "b", "c"):
        world.create(name)
    first = world.host("a")
    until(lambda: all(world.job(name).secondary is SecondaryStatus.PENDING for name in "bc"))
    assert world.job("b").transitions[-1].message == "Training job waiting for capacity"
    first.end(0)
    world.host("b").end(0)
    world.host("c").end(0)
    job = world.ended("c")
    assert statuses(job)[:3] == ["Starting", "Pending", "Downloading"]
    assert job.transitions[1].message == "Preparing the instances for training"
    assert world.ended("b").training_end_ms <= job.training_end_ms


def test_a_waiting_job_can_be_stopped_and_is_not_billed(make_world: Callable[..., World]) -> None:
    world = make_world(max_jobs=1)
    world.create("a")
    world.host("a")
    world.create("b")
    until(lambda: world.job("b").secondary is SecondaryStatus.PENDING)
    world.engine.jobs.stop(key("b"))
    job = world.ended("b")
    assert statuses(job) == ["Starting", "Pending", "Stopping", "Stopped"]
    assert job.training_start_ms is None
    assert list(world.runtime.launches) == [world.job("a").id]


def test_a_restart_adopts_a_running_job_without_gap_or_double(world: World) -> None:
    world.create("one")
    host = world.host("one")
    host.say("1", "2")
    until(lambda: world.log("one") == ["1", "2"] if world.engine.logs.streams("123456789012", "us-east-1") else False)
    world.restart()
    host.say("3")
    host.end(0)
    assert world.ended("one").status is JobStatus.COMPLETED
    assert world.log("one") == ["1", "2", "3"]
    assert list(world.runtime.launches.values()) == [1]


def test_a_restart_takes_in_what_ended_meanwhile(world: World) -> None:
    world.create("one")
    host = world.host("one")
    until(lambda: world.job("one").launched)
    world.engine.close()
    host.say("while nobody looked")
    host.end(0)
    world.engine = world.boot()
    assert world.ended("one").status is JobStatus.COMPLETED
    assert world.log("one") == ["while nobody looked"]


def test_a_host_that_vanished_is_an_internal_error_not_a_second_run(world: World) -> None:
    world.create("one")
    world.host("one")
    until(lambda: world.job("one").launched)
    world.engine.close()
    world.runtime.hosts.clear()
    world.engine = world.boot()
    job = world.ended("one")
    assert job.failure_reason is not None
    assert job.failure_reason.startswith("InternalServerError")
    assert list(world.runtime.launches.values()) == [1]


def test_waiting_jobs_keep_their_order_over_a_restart(make_world: Callable[..., World]) -> None:
    world = make_world(max_jobs=1)
    for name in ("a", "b", "c"):
        world.create(name)
        world.clock.turn(1)
    host = world.host("a")
    until(lambda: world.job("a").launched)
    world.restart()
    host.end(0)
    world.host("b").end(0)
    world.host("c").end(0)
    assert [world.ended(name).status for name in "abc"] == [JobStatus.COMPLETED] * 3


def test_metrics_of_lines_reach_the_final_list_and_cloudwatch(world: World) -> None:
    algorithm = {
        "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39",
        "TrainingInputMode": "File",
        "MetricDefinitions": [
            {"Name": "loss", "Regex": "'loss': ([0-9.]*)"},
            {"Name": "rate", "Regex": "'learning_rate': ([0-9]+(.|e\\-)[0-9]+)"},
        ],
    }
    world.create("one", AlgorithmSpecification=algorithm)
    host = world.host("one")
    host.say("{'loss': 0.5, 'learning_rate': 2.38e-05}", "{'loss': 0.0036}", "no number: 'loss': x")
    host.end(0)
    job = world.ended("one")
    final = {point.name: point.value for point in world.engine.metrics.final(job)}
    assert final == {"loss": 0.003599999938160181, "rate": 2.380000114440918}
    assert [(name, point.name) for name, point in world.metrics.points] == [
        ("one", "loss"), ("one", "rate"), ("one", "loss"),
    ]  # fmt: skip


def test_a_restart_fills_cloudwatch_again(world: World) -> None:
    algorithm = {
        "TrainingImage": "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.13.1-gpu-py39",
        "TrainingInputMode": "File",
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    }
    world.create("one", AlgorithmSpecification=algorithm)
    host = world.host("one")
    host.say("loss=1", "loss=2")
    host.end(0)
    world.ended("one")
    world.metrics.points.clear()
    world.restart()
    until(lambda: [point.value for _, point in world.metrics.points] == [1.0, 2.0])


def test_what_stands_in_is_said_in_the_status_and_in_the_log(world: World) -> None:
    world.create("gpu", ResourceConfig={"InstanceType": "ml.p3.8xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1})
    host = world.host("gpu")
    host.say("training")
    host.end(0)
    job = world.ended("gpu")
    assert "CPU workers stand in for 4 GPUs of ml.p3.8xlarge" in job.transitions[0].message
    log = world.log("gpu")
    assert log[0] == f"sagelet: {job.stand_in}"
    assert log[1:] == ["training"]


def test_gpus_require_refuses_what_the_machine_lacks(make_world: Callable[..., World]) -> None:
    world = make_world(gpus=GpuPolicy.REQUIRE)
    world.create("gpu", ResourceConfig={"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1})
    job = world.ended("gpu")
    assert job.failure_reason is not None
    assert job.failure_reason.startswith("CapacityError: Unable to provision requested ML compute capacity.")


def test_one_engine_at_a_time_has_the_data_directory(world: World) -> None:
    with pytest.raises(DataDirectoryInUse, match="--data"):
        world.boot()


def test_checkpoints_come_in_and_go_out(world: World) -> None:
    world.objects.put("ck", "run/step-1", b"old")
    world.create("one", CheckpointConfig={"S3Uri": "s3://ck/run"})
    host = world.host("one")
    checkpoints = host.plan.hosts[0].opt_ml / "checkpoints"
    assert (checkpoints / "step-1").read_bytes() == b"old"
    (checkpoints / "deep").mkdir()
    (checkpoints / "deep/step-2").write_bytes(b"new")
    host.end(0)
    world.ended("one")
    assert "s3://ck/run/deep/step-2" in world.objects.uploads
