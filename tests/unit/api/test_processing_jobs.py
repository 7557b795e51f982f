"""Processing jobs through boto3, on an engine whose hosts are the test's."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.data import directory_sync
from sagelet_engine.model.job import JobKey, JobKind
from sagelet_engine.model.principal import owner
from sagelet_engine.model.processing import ProcessingJob
from sagelet_engine.model.runtime import Usage
from support.api_world import ApiWorld
from support.fakes import FakeHost
from support.processing import ROLE, cluster, given, processing_request, result
from support.world import IMAGE, request, until

GROUP = "/aws/sagemaker/ProcessingJobs"
ARN = "arn:aws:sagemaker:us-east-1:123456789012:processing-job"
IN, OUT = "/opt/ml/processing/input", "/opt/ml/processing/output"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("b", "in/a.csv", b"a")
        running.objects.put("b", "in/deep/b.csv", b"b")
        yield running


def create(world: ApiWorld, name: str = "p", **changes: Any) -> str:
    answer = world.sagemaker.create_processing_job(**processing_request(name, **changes))
    return str(answer["ProcessingJobArn"])


def describe(world: ApiWorld, name: str = "p") -> dict[str, Any]:
    answer: dict[str, Any] = world.sagemaker.describe_processing_job(ProcessingJobName=name)
    return answer


def record(world: ApiWorld, name: str = "p") -> ProcessingJob:
    return world.engine.processing.get(JobKey("123456789012", "us-east-1", name, JobKind.PROCESSING))


def host(world: ApiWorld, name: str = "p", number: int = 1) -> FakeHost:
    ref = f"{record(world, name).id}/algo-{number}"
    found: FakeHost = until(lambda: world.runtime.hosts.get(ref))
    return found


def opt_ml(running: FakeHost) -> Path:
    return next(one.opt_ml for one in running.plan.hosts if one.name == running.handle.host)


def ended(world: ApiWorld, name: str = "p") -> dict[str, Any]:
    until(lambda: record(world, name).terminal)
    return describe(world, name)


def refused(world: ApiWorld, **changes: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        create(world, **changes)
    assert world.sagemaker.list_processing_jobs()["ProcessingJobSummaries"] == []
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def outputs(*given: dict[str, Any]) -> dict[str, Any]:
    return {"ProcessingOutputConfig": {"Outputs": list(given)}}


# --- the life of a job ------------------------------------------------------------------------------------------------


def test_a_job_runs_to_completed(world: ApiWorld) -> None:
    world.objects.put("out", "x", b"")
    arn = create(
        world,
        ProcessingInputs=[given("data", "s3://b/in", f"{IN}/data")],
        **outputs(result("o", "s3://out/results", f"{OUT}/o")),
    )
    assert arn == f"{ARN}/p"
    running = host(world)
    assert describe(world)["ProcessingJobStatus"] == "InProgress"
    root = opt_ml(running)
    assert (root / "processing/input/data/deep/b.csv").read_bytes() == b"b"
    (root / "processing/output/o/rows").mkdir()
    (root / "processing/output/o/rows/1.csv").write_bytes(b"1")
    running.say("half way")
    running.end(0)
    answer = ended(world)
    assert answer["ProcessingJobStatus"] == "Completed"
    assert answer["ProcessingJobArn"] == arn
    assert answer["CreationTime"] <= answer["ProcessingStartTime"] <= answer["ProcessingEndTime"]
    assert "FailureReason" not in answer
    assert "ExitMessage" not in answer
    assert answer["ProcessingInputs"][0] == {"AppManaged": False, **given("data", "s3://b/in", f"{IN}/data")}
    assert answer["StoppingCondition"] == {"MaxRuntimeInSeconds": 86400}
    assert world.objects.read("out", "results/rows/1.csv") == b"1"


def test_every_member_that_is_taken_comes_back(world: ApiWorld) -> None:
    network = {
        "EnableNetworkIsolation": True,
        "EnableInterContainerTrafficEncryption": True,
        "VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]},
    }
    echoed = {
        "Environment": {"A": "1"},
        "NetworkConfig": network,
        "StoppingCondition": {"MaxRuntimeInSeconds": 60},
        "ExperimentConfig": {"ExperimentName": "e", "TrialName": "t", "RunName": "r"},
        **cluster(VolumeKmsKeyId="key"),
    }
    create(world, **echoed)
    answer = describe(world)
    assert {name: answer[name] for name in echoed} == echoed
    plan = host(world).plan
    assert plan.network_isolation
    assert plan.environment["A"] == "1"


def test_a_name_can_be_taken_once_and_by_a_training_job_too(world: ApiWorld) -> None:
    arn = create(world)
    with pytest.raises(ClientError, match="Processing job names must be unique within an AWS account") as caught:
        create(world, "P")
    assert caught.value.response["Error"]["Code"] == "ResourceInUse"
    assert arn in caught.value.response["Error"]["Message"]
    world.sagemaker.create_training_job(**request("p"))
    assert [one["TrainingJobName"] for one in world.sagemaker.list_training_jobs()["TrainingJobSummaries"]] == ["p"]
    listed = world.sagemaker.list_processing_jobs()["ProcessingJobSummaries"]
    assert [one["ProcessingJobName"] for one in listed] == ["p"]
    found = world.sagemaker.search(Resource="TrainingJob")["Results"]
    assert [one["TrainingJob"]["TrainingJobArn"] for one in found] == [arn.replace("processing-job", "training-job")]


@pytest.mark.parametrize("call", ["describe", "stop", "delete"])
def test_a_job_that_does_not_exist(world: ApiWorld, call: str) -> None:
    with pytest.raises(ClientError, match=r"Requested resource not found\.") as caught:
        getattr(world.sagemaker, f"{call}_processing_job")(ProcessingJobName="none")
    assert caught.value.response["Error"]["Code"] == "ValidationException"


def test_only_the_exit_code_fails_a_job(world: ApiWorld) -> None:
    create(world)
    running = host(world)
    (opt_ml(running) / "output" / "failure").write_text("not read")
    running.end(3)
    assert ended(world)["FailureReason"] == "AlgorithmError: , exit code: 3"
    create(world, "q")
    running = host(world, "q")
    (opt_ml(running) / "output" / "failure").write_text("not read")
    running.end(0)
    assert ended(world, "q")["ProcessingJobStatus"] == "Completed"


def test_the_container_leaves_an_exit_message_of_at_most_1024_characters(world: ApiWorld) -> None:
    create(world)
    running = host(world)
    (opt_ml(running) / "output" / "message").write_text("CompletedWithViolations: " + "x" * 2000)
    running.end(0)
    message = ended(world)["ExitMessage"]
    assert message.startswith("CompletedWithViolations: ")
    assert len(message) == 1024
    create(world, "q")
    running = host(world, "q")
    (opt_ml(running) / "output" / "message").write_text("Algorithm Error: no rows")
    running.end(1)
    answer = ended(world, "q")
    assert answer["FailureReason"] == "AlgorithmError: See job logs for more information"
    assert answer["ExitMessage"] == "Algorithm Error: no rows"
    (listed,) = world.sagemaker.list_processing_jobs(NameContains="q")["ProcessingJobSummaries"]
    assert (listed["FailureReason"], listed["ExitMessage"]) == (answer["FailureReason"], answer["ExitMessage"])
    assert listed["ProcessingEndTime"] == answer["ProcessingEndTime"]


def test_stop_terminates_the_hosts_and_uploads_what_there_is(world: ApiWorld) -> None:
    world.objects.put("out", "x", b"")
    create(world, **outputs(result("o", "s3://out/o", f"{OUT}/o")))
    running = host(world)
    (opt_ml(running) / "processing/output/o/half").write_bytes(b"half")
    world.sagemaker.stop_processing_job(ProcessingJobName="p")
    assert describe(world)["ProcessingJobStatus"] in ("Stopping", "Stopped")
    until(lambda: "TERM" in running.signals)
    running.end(143)
    assert ended(world)["ProcessingJobStatus"] == "Stopped"
    assert world.objects.read("out", "o/half") == b"half"
    with pytest.raises(ClientError, match="rejected because the processing job is in status Stopped"):
        world.sagemaker.stop_processing_job(ProcessingJobName="p")


def test_max_runtime_stops_the_job(world: ApiWorld) -> None:
    create(world, StoppingCondition={"MaxRuntimeInSeconds": 60})
    running = host(world)
    world.clock.turn(61)
    until(lambda: "TERM" in running.signals)
    running.end(143)
    assert ended(world)["ProcessingJobStatus"] == "Stopped"


def test_only_an_ended_job_is_deleted_and_its_name_is_free_again(world: ApiWorld) -> None:
    create(world)
    with pytest.raises(ClientError, match="only a processing job that has ended can be deleted") as caught:
        world.sagemaker.delete_processing_job(ProcessingJobName="p")
    assert caught.value.response["Error"]["Code"] == "ResourceInUse"
    host(world).end(0)
    ended(world)
    world.sagemaker.delete_processing_job(ProcessingJobName="p")
    assert world.sagemaker.list_processing_jobs()["ProcessingJobSummaries"] == []
    create(world)


def test_the_server_comes_back_and_finds_the_hosts_of_the_job(world: ApiWorld) -> None:
    world.objects.put("out", "x", b"")
    create(world, **outputs(result("o", "s3://out/o", f"{OUT}/o")))
    running = host(world)
    until(lambda: record(world).launched)
    world.restart()
    (opt_ml(running) / "processing/output/o/f").write_bytes(b"1")
    running.end(0)
    job = until(lambda: one if (one := record(world)).terminal else None)
    assert job.status.value == "Completed"
    assert world.runtime.launches[job.id] == 1
    assert world.objects.read("out", "o/f") == b"1"


# --- lists and tags ---------------------------------------------------------------------------------------------------


def test_lists_are_filtered_and_paged(world: ApiWorld) -> None:
    for name in ("a-1", "a-2", "b-1"):
        create(world, name)
        world.clock.turn(1)
    for name in ("a-1", "a-2", "b-1"):
        host(world, name)
    until(lambda: all(record(world, name).launched for name in ("a-1", "a-2", "b-1")))
    world.clock.turn(1)
    host(world, "a-2").end(0)
    ended(world, "a-2")

    def names(**query: Any) -> list[str]:
        pages = world.sagemaker.get_paginator("list_processing_jobs").paginate(**query)
        return [one["ProcessingJobName"] for page in pages for one in page["ProcessingJobSummaries"]]

    assert names(MaxResults=1) == ["b-1", "a-2", "a-1"]
    assert names(SortBy="CreationTime", MaxResults=1) == ["a-1", "a-2", "b-1"]
    assert names(NameContains="A-", SortBy="Name", SortOrder="Descending") == ["a-2", "a-1"]
    assert names(StatusEquals="Completed") == ["a-2"]
    first = describe(world, "a-1")
    assert names(CreationTimeAfter=first["CreationTime"]) == ["b-1", "a-2"]
    assert names(CreationTimeBefore=describe(world, "b-1")["CreationTime"]) == ["a-2", "a-1"]
    assert names(LastModifiedTimeAfter=describe(world, "b-1")["LastModifiedTime"]) == ["a-2"]
    assert "a-2" not in names(LastModifiedTimeBefore=describe(world, "a-2")["LastModifiedTime"])
    with pytest.raises(ClientError, match="Invalid pagination token"):
        world.sagemaker.list_processing_jobs(NextToken="x")


def test_tags_of_a_job(world: ApiWorld) -> None:
    arn = create(world, Tags=[{"Key": "team", "Value": "ads"}])
    assert world.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "team", "Value": "ads"}]
    world.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "k", "Value": "v"}])
    world.sagemaker.delete_tags(ResourceArn=arn, TagKeys=["team"])
    assert world.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "k", "Value": "v"}]
    with pytest.raises(ClientError, match="not found"):
        world.sagemaker.list_tags(ResourceArn=f"{ARN}/none")
    code, _ = refused_again(world, Tags=[{"Key": "aws:x", "Value": "v"}])
    assert code == "ValidationException"


def refused_again(world: ApiWorld, **changes: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        create(world, "other", **changes)
    return caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"]


def test_a_fault_by_tag(world: ApiWorld) -> None:
    create(world, Tags=[{"Key": "sagelet:fault", "Value": "internal-server-error throttling:1"}])
    with pytest.raises(ClientError, match="Rate exceeded"):
        describe(world)
    answer = ended(world)
    assert answer["FailureReason"].startswith("InternalServerError: We encountered an internal error.")


# --- the container ----------------------------------------------------------------------------------------------------


def test_the_program_runs_as_the_request_names_it(world: ApiWorld) -> None:
    program = {"ImageUri": IMAGE, "ContainerEntrypoint": ["sh", "-c"], "ContainerArguments": ["exit 0"]}
    create(world, AppSpecification=program)
    plan = host(world).plan
    assert (plan.entrypoint, plan.arguments) == (("sh", "-c"), ("exit 0",))
    assert plan.environment["PROCESSING_JOB_ARN"] == f"{ARN}/p"
    assert plan.environment["PROCESSING_JOB_NAME"] == "p"
    assert plan.environment["AWS_REGION"] == "us-east-1"
    assert "TRAINING_JOB_ARN" not in plan.environment


def test_a_stand_in_without_a_program_needs_an_entry_point(world: ApiWorld) -> None:
    create(world, AppSpecification={"ImageUri": IMAGE})
    reason = ended(world)["FailureReason"]
    assert reason.startswith("ClientError: AppSpecification.ContainerEntrypoint: sagelet/training:")


def test_the_container_finds_its_configuration(world: ApiWorld) -> None:
    world.objects.put("out", "x", b"")
    create(
        world,
        Environment={"KEY": "VALUE"},
        ProcessingInputs=[given("data", "s3://b/in", f"{IN}/data")],
        **outputs(result("o", "s3://out/o", f"{OUT}/o")),
        **cluster(InstanceCount=2),
    )
    root = opt_ml(host(world, number=2))
    assert json.loads((root / "config/resourceconfig.json").read_text()) == {
        "current_host": "algo-2",
        "hosts": ["algo-1", "algo-2"],
    }
    source = {
        "S3Uri": "s3://b/in",
        "LocalPath": f"{IN}/data",
        "S3DataType": "S3Prefix",
        "S3InputMode": "File",
        "S3DataDistributionType": "FullyReplicated",
        "S3CompressionType": "None",
        "S3DownloadMode": "StartOfJob",
    }
    assert json.loads((root / "config/processingjobconfig.json").read_text()) == {
        "ProcessingJobArn": f"{ARN}/p",
        "ProcessingJobName": "p",
        "AppSpecification": {**processing_request("p")["AppSpecification"], "ContainerArguments": None},
        "Environment": {"KEY": "VALUE"},
        "ProcessingInputs": [{"InputName": "data", "S3Input": source}],
        "ProcessingOutputConfig": {"KmsKeyId": None, "Outputs": [result("o", "s3://out/o", f"{OUT}/o")]},
        "ProcessingResources": {
            "ClusterConfig": {
                "InstanceCount": 2, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 10, "VolumeKmsKeyId": None,
            }
        },
        "RoleArn": ROLE,
        "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
    }  # fmt: skip


def test_sharded_objects_are_dealt_out_among_the_hosts(world: ApiWorld) -> None:
    sharded = given("data", "s3://b/in/", f"{IN}/data", S3DataDistributionType="ShardedByS3Key")
    create(world, ProcessingInputs=[sharded], **cluster(InstanceCount=2))
    found = []
    for number in (1, 2):
        root = opt_ml(host(world, number=number)) / "processing/input/data"
        found.append(sorted(path.name for path in root.rglob("*.csv")))
    assert found == [["a.csv"], ["b.csv"]]


def test_a_manifest_names_the_objects_and_paths_may_lie_within_each_other(world: ApiWorld) -> None:
    manifest = json.dumps([{"prefix": "s3://b/in/"}, "deep/b.csv"])
    world.objects.put("b", "manifest", manifest.encode())
    inner = given("inner", "s3://b/manifest", f"{IN}/data/inner", S3DataType="ManifestFile")
    create(world, ProcessingInputs=[inner, given("data", "s3://b/in/a.csv", f"{IN}/data")])
    root = opt_ml(host(world)) / "processing/input/data"
    assert sorted(path.relative_to(root).as_posix() for path in root.rglob("*.csv")) == ["a.csv", "inner/deep/b.csv"]


def test_an_input_without_objects_fails_the_job(world: ApiWorld) -> None:
    create(world, ProcessingInputs=[given("data", "s3://b/nothing", f"{IN}/data")])
    reason = ended(world)["FailureReason"]
    assert reason.startswith('ClientError: Data download failed:No S3 objects found under S3 URL "s3://b/nothing"')


def test_what_the_application_manages_is_left_to_it(world: ApiWorld) -> None:
    mine = {**given("data", "s3://b/nothing", f"{IN}/data"), "AppManaged": True}
    theirs = {**result("o", "s3://nowhere/o", f"{OUT}/o"), "AppManaged": True}
    world.objects.missing.add("nowhere")
    create(world, ProcessingInputs=[mine], **outputs(theirs))
    running = host(world)
    assert not (opt_ml(running) / "processing/input").exists()
    running.end(0)
    assert ended(world)["ProcessingJobStatus"] == "Completed"


def test_a_continuous_output_is_uploaded_while_the_job_runs(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_sync, "PERIOD", 0.01)
    world.objects.put("out", "x", b"")
    create(world, **outputs(result("o", "s3://out/o", f"{OUT}/o", "Continuous")))
    running = host(world)
    place = opt_ml(running) / "processing/output/o"
    (place / "early").write_bytes(b"early")
    until(lambda: _there(world, "o/early"))
    (place / "early").unlink()
    (place / "late").write_bytes(b"late")
    running.end(0)
    assert ended(world)["ProcessingJobStatus"] == "Completed"
    assert world.objects.read("out", "o/late") == b"late"
    # Unlike a checkpoint, what the job deletes stays.
    assert world.objects.read("out", "o/early") == b"early"


def _there(world: ApiWorld, key: str) -> bool:
    return any(found.key == key for found in world.objects.list(owner(""), "out", key))


def test_outputs_of_all_hosts_go_to_one_place_and_a_link_is_not_followed(world: ApiWorld) -> None:
    world.objects.put("out", "x", b"")
    create(world, **outputs(result("o", "s3://out/o/", f"{OUT}/o")), **cluster(InstanceCount=2))
    for number in (1, 2):
        running = host(world, number=number)
        place = opt_ml(running) / "processing/output/o"
        (place / f"part-{number}").write_bytes(b"1")
        (place / "passwd").symlink_to("/etc/passwd")
        running.end(0)
    assert ended(world)["ProcessingJobStatus"] == "Completed"
    assert sorted(found.key for found in world.objects.list(owner(""), "out", "o/")) == ["o/part-1", "o/part-2"]


# --- logs and metrics -------------------------------------------------------------------------------------------------


def test_the_log_group_and_the_metrics_are_those_of_processing_jobs(world: ApiWorld) -> None:
    world.sagemaker.create_training_job(**request("p"))
    create(world)
    running = host(world)
    running.say("half way")
    running.usage = Usage(1.0, 1024, 4096)
    running.end(0)
    ended(world)
    (stream,) = world.logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix="p/")["logStreams"]
    assert f":log-group:{GROUP}:log-stream:p/algo-1-" in stream["arn"]
    lines = world.logs.get_log_events(logGroupName=GROUP, logStreamName=stream["logStreamName"])["events"]
    assert [event["message"] for event in lines] == ["half way"]
    (other,) = world.logs.describe_log_streams(logGroupName="/aws/sagemaker/TrainingJobs")["logStreams"]
    assert other["arn"] != stream["arn"]
    found = world.logs.filter_log_events(logGroupName="/aws/sagemaker/TrainingJobs", filterPattern="half")["events"]
    assert found == []
    names = [group["logGroupName"] for group in world.logs.describe_log_groups()["logGroups"]]
    assert {GROUP, "/aws/sagemaker/TrainingJobs"} <= set(names)
    world.logs.put_retention_policy(logGroupName=GROUP, retentionInDays=7)
    groups = {group["logGroupName"]: group for group in world.logs.describe_log_groups()["logGroups"]}
    assert groups[GROUP]["retentionInDays"] == 7
    assert "retentionInDays" not in groups["/aws/sagemaker/TrainingJobs"]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/opt/ml/input/data", "must be a path that begins with /opt/ml/processing/"),
        ("/opt/ml/processing/../x", "must be a path that begins with /opt/ml/processing/"),
        ("/opt/ml/processing/", "must be a path that begins with /opt/ml/processing/"),
        ("", "LocalPath is required unless AppManaged is true"),
    ],
)
def test_a_local_path_lies_below_opt_ml_processing(world: ApiWorld, path: str, text: str) -> None:
    for changes in ({"ProcessingInputs": [given("i", "s3://b/in", path)]}, outputs(result("o", "s3://b/o", path))):
        code, message = refused(world, **changes)
        assert code == "ValidationException"
        assert text in message


def test_names_and_paths_are_used_once(world: ApiWorld) -> None:
    one, two = given("i", "s3://b/in", f"{IN}/a"), given("i", "s3://b/in", f"{IN}/b")
    assert "Duplicate InputName 'i'" in refused(world, ProcessingInputs=[one, two])[1]
    outs = outputs(result("o", "s3://b/o", f"{OUT}/a"), result("o", "s3://b/o", f"{OUT}/b"))
    assert "Duplicate OutputName 'o'" in refused(world, **outs)[1]
    twice = {"ProcessingInputs": [one], **outputs(result("o", "s3://b/o", f"{IN}/a/"))}
    assert f"LocalPath '{IN}/a' is used twice" in refused(world, **twice)[1]


def test_an_output_needs_its_bucket(world: ApiWorld) -> None:
    world.objects.missing.add("nowhere")
    _, message = refused(world, **outputs(result("o", "s3://nowhere/o", f"{OUT}/o")))
    assert "the S3 bucket nowhere does not exist" in message


def test_an_image_from_elsewhere_is_refused_in_aws_s_words(world: ApiWorld) -> None:
    _, message = refused(world, AppSpecification={"ImageUri": "ghcr.io/somebody/image:1"})
    assert message.startswith("Invalid image URI ghcr.io/somebody/image:1. Please provide a valid Amazon Elastic")
    assert "sagelet image map" in message


def test_an_instance_type_is_required(world: ApiWorld) -> None:
    missing = {"ClusterConfig": {"InstanceCount": 1, "VolumeSizeInGB": 1}}
    _, message = refused(world, ProcessingResources=missing)
    assert "'processingResources.clusterConfig.instanceType' failed to satisfy constraint" in message
