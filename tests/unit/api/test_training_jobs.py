"""The training-job operations through boto3 and a real server; the engine is real, what is outside of it is not."""

import base64
import copy
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, WaiterError

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.world import request, until

BODIES = json.loads((Path(__file__).parents[2] / "data/create_training_job_requests.json").read_text())
ARN = "arn:aws:sagemaker:us-east-1:123456789012:training-job/"
#: What Describe adds to members that the request has.
ADDED = {
    "OutputDataConfig": {"KmsKeyId": "", "CompressionType": "GZIP"},
    "InputDataConfig": {"CompressionType": "None", "RecordWrapperType": "None"},
}


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge, max_jobs=2) as running:
        yield running


def refused(call: Any, **parameters: Any) -> tuple[str, str, int]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    error = caught.value.response
    return error["Error"]["Code"], error["Error"]["Message"], error["ResponseMetadata"]["HTTPStatusCode"]


def create(world: ApiWorld, name: str, **changes: Any) -> str:
    return str(world.sagemaker.create_training_job(**request(name, **changes))["TrainingJobArn"])


def describe(world: ApiWorld, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = world.sagemaker.describe_training_job(TrainingJobName=name)
    return answer


def names(answer: dict[str, Any]) -> list[str]:
    return [job["TrainingJobName"] for job in answer["TrainingJobSummaries"]]


# --- create and describe --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", [pytest.param(case, id=case["case"]) for case in BODIES])
def test_describe_echoes_what_the_sdks_send(world: ApiWorld, case: dict[str, Any]) -> None:
    body = copy.deepcopy(case["request"])
    world.fill_inputs(body)
    arn = world.sagemaker.create_training_job(**body)["TrainingJobArn"]
    assert arn == ARN + body["TrainingJobName"].lower()
    answer = describe(world, body["TrainingJobName"])
    for member, value in body.items():
        if member == "Tags":
            assert world.sagemaker.list_tags(ResourceArn=arn)["Tags"] == value
        elif member == "OutputDataConfig":
            assert answer[member] == {**ADDED[member], **value}
        elif member == "InputDataConfig":
            assert answer[member] == [{**ADDED[member], **channel} for channel in value]
        else:
            assert answer[member] == value
    assert answer["TrainingJobArn"] == arn
    assert answer["TrainingJobStatus"] in ("InProgress", "Failed")
    output = body["OutputDataConfig"]["S3OutputPath"].rstrip("/")
    assert answer["ModelArtifacts"] == {"S3ModelArtifacts": f"{output}/{body['TrainingJobName']}/output/model.tar.gz"}
    assert answer["CreationTime"] == answer["SecondaryStatusTransitions"][0]["StartTime"]


@pytest.mark.parametrize(
    ("resources", "instance_type"),
    [
        ({"InstanceType": "ml.p3.8xlarge", "InstanceCount": 9}, "ml.p3.8xlarge"),
        (
            {
                "InstanceGroups": [
                    {"InstanceGroupName": "a", "InstanceType": "ml.c5.xlarge", "InstanceCount": 4},
                    {"InstanceGroupName": "b", "InstanceType": "ml.p3.2xlarge", "InstanceCount": 5},
                ]
            },
            "ml.p3.2xlarge",
        ),
    ],
)
def test_more_hosts_than_may_run_are_refused_in_the_words_of_a_limit(
    world: ApiWorld, resources: dict[str, Any], instance_type: str
) -> None:
    body = request("one", ResourceConfig={**resources, "VolumeSizeInGB": 1})
    code, message, status = refused(world.sagemaker.create_training_job, **body)
    assert (code, status) == ("ResourceLimitExceeded", 400)
    assert message.startswith(
        f"The account-level service limit '{instance_type} for training job usage' is 8 Instances, with current "
        "utilization of 0 Instances and a request delta of 9 Instances. Please use AWS Service Quotas"
    )
    assert "--max-hosts" in message
    assert names(world.sagemaker.list_training_jobs()) == []


def test_all_recorded_bodies_are_covered() -> None:
    assert len(BODIES) == 23


def test_text_is_echoed_to_the_last_character(world: ApiWorld) -> None:
    hyperparameters = {"a": '"x y"', "b": "", "ü": "\U0001f600\t\\n", "json": '{"a": [1, 2.50, null]}', "n": "5e-05"}
    create(world, "one", HyperParameters=hyperparameters, Environment={"A": " x "})
    answer = describe(world, "one")
    assert answer["HyperParameters"] == hyperparameters
    assert answer["Environment"] == {"A": " x "}


def test_a_whole_life_as_describe_tells_it(world: ApiWorld) -> None:
    metrics = [{"Name": "loss", "Regex": r"loss=(\S+)"}]
    algorithm = {**request("x")["AlgorithmSpecification"], "MetricDefinitions": metrics}
    create(world, "Life", AlgorithmSpecification=algorithm)
    host = world.host("Life")
    until(lambda: describe(world, "Life")["SecondaryStatus"] == "Training")
    assert "TrainingEndTime" not in describe(world, "Life")
    host.say("loss=0.1", "loss=nan")
    world.clock.turn(61.5)
    host.end(0)
    world.ended("Life")
    answer = describe(world, "Life")
    assert answer["TrainingJobStatus"] == answer["SecondaryStatus"] == "Completed"
    statuses = [entry["Status"] for entry in answer["SecondaryStatusTransitions"]]
    assert statuses == ["Starting", "Downloading", "Training", "Uploading", "Completed"]
    assert answer["TrainingTimeInSeconds"] == answer["BillableTimeInSeconds"] == 61
    assert answer["TrainingEndTime"] - answer["TrainingStartTime"] == timedelta(seconds=61.5)
    (metric,) = answer["FinalMetricDataList"]
    assert (metric["MetricName"], round(metric["Value"], 7)) == ("loss", 0.1)
    assert answer["AlgorithmSpecification"]["MetricDefinitions"] == metrics
    assert "FailureReason" not in answer


def test_a_failure_shows_its_reason(world: ApiWorld) -> None:
    create(world, "bad")
    world.host("bad").end(3)
    world.ended("bad")
    assert describe(world, "bad")["FailureReason"] == "AlgorithmError: , exit code: 3"


def test_a_name_can_be_taken_once(world: ApiWorld) -> None:
    create(world, "Taken")
    code, message, status = refused(world.sagemaker.create_training_job, **request("taken"))
    assert (code, status) == ("ResourceInUse", 400)
    assert message == (
        "Training job names must be unique within an AWS account and region, and a training job with this name "
        f"already exists ({ARN}taken)"
    )


DATASET = "arn:aws:sagemaker:us-east-1:123456789012:hub-content/hub/DataSet/data/1.0.0"


def algorithm(**changes: Any) -> dict[str, Any]:
    return {"AlgorithmSpecification": {"TrainingImage": "i", "TrainingInputMode": "File", **changes}}


def channels(*changes: dict[str, Any]) -> dict[str, Any]:
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/k"}}
    return {"InputDataConfig": [{"ChannelName": "c", "DataSource": source, **change} for change in changes]}


def typed(kind: str, mode: str = "File", **more: Any) -> dict[str, Any]:
    source = {"S3DataSource": {"S3DataType": kind, "S3Uri": "s3://b/k", **more}}
    return channels({"DataSource": source, "InputMode": mode})


def file_system(**more: Any) -> dict[str, Any]:
    source = {
        "FileSystemId": "fs-0123456789abcdef0",
        "FileSystemType": "EFS",
        "DirectoryPath": "/train",
        "FileSystemAccessMode": "ro",
    }
    return channels({"DataSource": {"FileSystemDataSource": source}, **more})


def groups(*names: str, count: int = 1) -> dict[str, Any]:
    made = [{"InstanceGroupName": name, "InstanceType": "ml.m5.large", "InstanceCount": count} for name in names]
    return {"ResourceConfig": {"InstanceGroups": made, "VolumeSizeInGB": 1}}


def grouped(name: str, *wanted: str) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://b/k", "InstanceGroupNames": [*wanted]}
    return {"ChannelName": name, "DataSource": {"S3DataSource": source}}


def spot(runtime: int, wait: int | None) -> dict[str, Any]:
    limits = {"MaxRuntimeInSeconds": runtime, **({} if wait is None else {"MaxWaitTimeInSeconds": wait})}
    return {"EnableManagedSpotTraining": True, "StoppingCondition": limits}


def tags(*keys: str) -> dict[str, Any]:
    return {"Tags": [{"Key": key, "Value": "v"} for key in keys]}


WAIT = "Invalid MaxWaitTimeInSeconds. It must be present and be greater than or equal to MaxRuntimeInSeconds"


def regex(text: str) -> dict[str, Any]:
    return algorithm(MetricDefinitions=[{"Name": "m", "Regex": text}])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"TrainingJobName": "bad_name!"}, "Value 'bad_name!' at 'trainingJobName' failed to satisfy constraint"),
        (algorithm(TrainingImage=""), "exactly one of TrainingImage and AlgorithmName"),
        (algorithm(AlgorithmName="a"), "exactly one of TrainingImage and AlgorithmName"),
        (regex("("), "The regex of the metric definition 'm' is not valid"),
        (regex("a{99999999999}"), "The regex of the metric definition 'm' is not valid"),
        (channels({}, {}), "Duplicate channel name 'c'"),
        (channels({"ChannelName": ".."}), "Channel name '..' cannot be a directory name"),
        (channels({"DataSource": {}}), "S3DataSource and FileSystemDataSource only"),
        (file_system(), "Channel 'c': Unable to find the file system fs-0123456789abcdef0."),
        (file_system(InputMode="FastFile"), "FileSystemDataSource takes the input mode File only, not FastFile"),
        (channels({"ChannelName": "a"}, {"ChannelName": "a-manifest"}), "belongs to channel 'a'"),
        (channels({"InputMode": "Pipe"}, {"ChannelName": "c_0"}), "belongs to channel 'c'"),
        (
            channels({"InputMode": "Pipe"}, {"ChannelName": "d", "InputMode": "FastFile"}),
            "Cannot use both 'Pipe' and 'FastFile' TrainingInputMode on the same Training Job.",
        ),
        (
            channels({"CompressionType": "Gzip"}),
            "Invalid compression type for channel c: File mode only supports NONE, got Gzip instead",
        ),
        (
            channels({"CompressionType": "Gzip", "InputMode": "FastFile"}),
            "Invalid compression type for channel c: FastFile mode only supports NONE, got Gzip instead",
        ),
        (
            {**algorithm(TrainingInputMode="Pipe"), **channels({"CompressionType": "Gzip", "InputMode": "File"})},
            "Invalid compression type for channel c: File mode only supports NONE, got Gzip instead",
        ),
        (typed("Converse"), "does not support the S3DataType Converse"),
        (typed("ManifestFile", "FastFile"), "FastFile takes the S3DataType S3Prefix only, not ManifestFile"),
        (typed("AugmentedManifestFile", AttributeNames=["a"]), "needs the input mode Pipe, not File"),
        (typed("AugmentedManifestFile", "Pipe"), "needs AttributeNames"),
        (typed("S3Prefix", AttributeNames=["a"]), "no other S3DataType takes them"),
        (typed("S3Prefix", InstanceGroupNames=["g"]), "ResourceConfig.InstanceGroups has no instance group 'g'"),
        ({"OutputDataConfig": {"S3OutputPath": "https://b/k"}}, "is not an S3 URI"),
        ({"CheckpointConfig": {"S3Uri": "https://b/k"}}, "is not an S3 URI"),
        ({"ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 0}}, "must be at least 1"),
        (
            {"StoppingCondition": {"MaxRuntimeInSeconds": 1, "MaxWaitTimeInSeconds": 2}},
            "Invalid MaxWaitTimeInSeconds. It is only supported when EnableManagedSpotTraining is set to true",
        ),
        (spot(10, None), WAIT),
        (spot(10, 9), WAIT),
        ({"StoppingCondition": {"MaxRuntimeInSeconds": 2419201}}, "less than or equal to 2419200"),
        ({"CheckpointConfig": {"S3Uri": "s3://b/k", "LocalPath": "/tmp/x"}}, "checkpoints under /opt/ml only"),
        ({"CheckpointConfig": {"S3Uri": "s3://b/k", "LocalPath": "/opt/ml/../x"}}, "checkpoints under /opt/ml only"),
        (groups("a", "a"), "Duplicate InstanceGroupName 'a'"),
        (groups(), "at least one instance group"),
        (groups("a", count=0), "InstanceCount of the instance group 'a' must be at least 1"),
        (
            {"ResourceConfig": {**groups("a")["ResourceConfig"], "InstanceType": "ml.m5.large"}},
            "either InstanceGroups or InstanceType and InstanceCount",
        ),
        (
            {**groups("a"), **channels(grouped("one", "a"), grouped("two"), grouped("three"))},
            "Some channels have assigned instance groups: [one] while others not: [two, three]",
        ),
        ({**groups("a"), **channels(grouped("one", "b"))}, "Channel 'one': ResourceConfig.InstanceGroups has no"),
        (
            channels({"DataSource": {**grouped("x")["DataSource"], "DatasetSource": {"DatasetArn": DATASET}}}),
            "DataSource must have one kind of source",
        ),
        ({"ProfilerConfig": {"ProfilingIntervalInMilliseconds": 250}}, "must be one of [100, 200, 500"),
        (tags("aws:mine"), "Tag key 'aws:mine': the prefix aws: is reserved"),
        (tags("AWS:mine"), "Tag key 'AWS:mine': the prefix aws: is reserved"),
        (tags("a", "a"), "Duplicate tag key 'a'"),
        (tags(*map(str, range(51))), "at 'tags' failed to satisfy constraint: Member must have length less than"),
        (
            channels({}),
            'No S3 objects found under S3 URL "s3://b/k" given in input data source. Please ensure that the bucket '
            "exists in the selected region (us-east-1), that objects exist under that S3 prefix, and that the role "
            '"arn:aws:iam::123456789012:role/SageMakerRole" has "s3:ListBucket" permissions on bucket "b".',
        ),
        ({"ResourceConfig": {}}, "2 validation errors detected: Value null at 'resourceConfig.instanceType'"),
        (
            {"StoppingCondition": None},
            "1 validation error detected: Value null at 'stoppingCondition' failed to satisfy constraint: "
            "Member must not be null",
        ),
        (
            {"StoppingCondition": None, "ResourceConfig": {"VolumeSizeInGB": 1}},
            "3 validation errors detected: Value null at 'stoppingCondition'",
        ),
    ],
)
def test_bad_bodies_are_refused_and_leave_no_job(world: ApiWorld, changes: dict[str, Any], text: str) -> None:
    body = {name: value for name, value in request("one", **changes).items() if value is not None}
    code, message, status = refused(world.sagemaker.create_training_job, **body)
    assert (code, status) == ("ValidationException", 400)
    assert text in message
    assert names(world.sagemaker.list_training_jobs()) == []


def test_instance_groups_are_accepted_echoed_and_found(world: ApiWorld) -> None:
    world.objects.put("b", "k", b"")
    changes = {**groups("a", "b", count=2), **channels(grouped("one", "a"), grouped("two", "a", "b"))}
    create(world, "grouped", **changes)
    create(world, "plain")
    answer = describe(world, "grouped")
    assert answer["ResourceConfig"] == changes["ResourceConfig"]
    for sent, echoed in zip(changes["InputDataConfig"], answer["InputDataConfig"], strict=True):
        assert sent.items() <= echoed.items()
    assert sorted(names(world.sagemaker.list_training_jobs())) == ["grouped", "plain"]
    wanted = {"Name": "ResourceConfig.InstanceType", "Operator": "Equals", "Value": "ml.m5.large"}
    found = world.sagemaker.search(Resource="TrainingJob", SearchExpression={"Filters": [wanted]})["Results"]
    assert [one["TrainingJob"]["TrainingJobName"] for one in found] == ["plain"]


@pytest.mark.parametrize(
    "changes",
    [
        channels({"InputMode": "Pipe"}, {"ChannelName": "d", "InputMode": "File"}),
        channels({"ShuffleConfig": {"Seed": -1}, "CompressionType": "None", "RecordWrapperType": "RecordIO"}),
        channels({"InputMode": "Pipe", "CompressionType": "Gzip"}),
        {**algorithm(TrainingInputMode="Pipe"), **channels({"CompressionType": "Gzip"})},
        typed("ManifestFile"),
        typed("ManifestFile", "Pipe"),
        typed("S3Prefix", "FastFile", S3DataDistributionType="ShardedByS3Key"),
        typed("AugmentedManifestFile", "Pipe", AttributeNames=["image-ref", "label"]),
    ],
)
def test_channels_are_accepted_and_echoed(world: ApiWorld, changes: dict[str, Any]) -> None:
    world.objects.put("b", "k", b"")
    create(world, "one", **changes)
    for sent, echoed in zip(changes["InputDataConfig"], describe(world, "one")["InputDataConfig"], strict=True):
        assert sent.items() <= echoed.items()


def test_inputs_are_looked_for_where_the_job_is(world: ApiWorld) -> None:
    world.objects.put("b", "key", b"")
    create(world, "by-prefix", **channels({}))
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://b/other"}}
    assert (
        "No S3 objects found"
        in refused(world.sagemaker.create_training_job, **request("none", **channels({"DataSource": source})))[1]
    )


def test_spot_may_wait_as_long_as_it_runs(world: ApiWorld) -> None:
    create(world, "spot", **spot(10, 10))
    assert describe(world, "spot")["StoppingCondition"] == {"MaxRuntimeInSeconds": 10, "MaxWaitTimeInSeconds": 10}


@pytest.mark.parametrize(
    "operation",
    ["describe_training_job", "stop_training_job", "update_training_job", "delete_training_job"],
)
def test_a_missing_job_is_a_validation_error(world: ApiWorld, operation: str) -> None:
    answer = refused(getattr(world.sagemaker, operation), TrainingJobName="none")
    assert answer == ("ValidationException", "Requested resource not found.", 400)


# --- stop and wait --------------------------------------------------------------------------------------------------


def test_stop_answers_nothing_and_a_stopped_job_cannot_be_stopped(world: ApiWorld) -> None:
    create(world, "one")
    host = world.host("one")
    until(lambda: world.job("one").launched)
    answer = world.sagemaker.stop_training_job(TrainingJobName="one")
    assert set(answer) == {"ResponseMetadata"}
    assert answer["ResponseMetadata"]["HTTPHeaders"]["content-length"] == "0"
    world.sagemaker.stop_training_job(TrainingJobName="one")
    until(lambda: host.signals == ["TERM"])
    host.end(143)
    world.ended("one")
    assert refused(world.sagemaker.stop_training_job, TrainingJobName="one") == (
        "ValidationException", "The request was rejected because the training job is in status Stopped.", 400,
    )  # fmt: skip


@pytest.mark.parametrize(("exit_code", "succeeds"), [(0, True), (1, False)])
def test_the_waiter(world: ApiWorld, exit_code: int, succeeds: bool) -> None:
    create(world, "one")
    world.host("one").end(exit_code)
    world.ended("one")
    waiter = world.sagemaker.get_waiter("training_job_completed_or_stopped")
    fast = {"Delay": 1, "MaxAttempts": 1}
    if succeeds:
        waiter.wait(TrainingJobName="one", WaiterConfig=fast)
        return
    with pytest.raises(WaiterError, match="terminal failure"):
        waiter.wait(TrainingJobName="one", WaiterConfig=fast)
    with pytest.raises(WaiterError, match="ValidationException"):
        waiter.wait(TrainingJobName="none", WaiterConfig=fast)


# --- list -----------------------------------------------------------------------------------------------------------


def fill(world: ApiWorld, count: int) -> list[str]:
    made = [f"job-{number:02}" for number in range(count)]
    for name in made:
        world.waiting_job(name)
        world.clock.turn(1)
    return made


def test_a_page_has_ten_jobs_by_creation_unless_asked_otherwise(world: ApiWorld) -> None:
    made = fill(world, 12)
    newest_first = made[::-1]
    answer = world.sagemaker.list_training_jobs()
    assert names(answer) == newest_first[:10]
    rest = world.sagemaker.list_training_jobs(NextToken=answer["NextToken"])
    assert names(rest) == newest_first[10:]
    assert "NextToken" not in rest
    assert names(world.sagemaker.list_training_jobs(SortBy="CreationTime", MaxResults=3)) == made[:3]
    assert names(world.sagemaker.list_training_jobs(SortOrder="Ascending", MaxResults=3)) == made[:3]
    assert names(world.sagemaker.list_training_jobs(SortOrder="Descending", MaxResults=3)) == newest_first[:3]


@pytest.mark.parametrize("sort_by", ["Name", "CreationTime", "Status"])
@pytest.mark.parametrize("order", ["Ascending", "Descending"])
def test_the_paginator_meets_every_job_once(world: ApiWorld, sort_by: str, order: str) -> None:
    made = fill(world, 11)
    pages = world.sagemaker.get_paginator("list_training_jobs").paginate(
        SortBy=sort_by, SortOrder=order, PaginationConfig={"PageSize": 3}
    )
    found = [name for page in pages for name in names(page)]
    assert sorted(found) == made
    if sort_by != "Status":
        assert found == sorted(made, reverse=order == "Descending")


@pytest.mark.parametrize(
    ("sort_by", "rest"), [("Name", ["job-04", "job-05", "job-06", "job-08"]), ("CreationTime", ["job-04", "job-06"])]
)
def test_pages_are_stable_while_jobs_come_and_go(world: ApiWorld, sort_by: str, rest: list[str]) -> None:
    """Of the jobs that were there at the first page none comes twice and none is left out."""
    for number in range(0, 12, 2):
        world.waiting_job(f"job-{number:02}")
        world.clock.turn(1)
    first = world.sagemaker.list_training_jobs(SortBy=sort_by, MaxResults=2)
    assert names(first) == ["job-00", "job-02"]
    world.waiting_job("job-01")
    world.waiting_job("job-05")
    for gone in ("job-02", "job-10"):
        world.engine._store.delete(world.job(gone))
    page = {"SortBy": sort_by, "MaxResults": len(rest)}
    second = world.sagemaker.list_training_jobs(**page, NextToken=first["NextToken"])
    assert names(second) == rest
    if sort_by == "Name":
        assert "NextToken" not in second
        return
    last = world.sagemaker.list_training_jobs(SortBy=sort_by, NextToken=second["NextToken"])
    assert names(last) == ["job-08", "job-01", "job-05"]


def test_many_jobs_made_while_pages_are_read(world: ApiWorld) -> None:
    there = fill(world, 20)

    def make(number: int) -> None:
        create(world, f"new-{number}")

    with ThreadPoolExecutor(4) as pool:
        made = [pool.submit(make, number) for number in range(20)]
        pages = world.sagemaker.get_paginator("list_training_jobs").paginate(
            SortBy="Name", SortOrder="Descending", PaginationConfig={"PageSize": 3}
        )
        found = [name for page in pages for name in names(page)]
        for one in made:
            one.result()
    assert len(found) == len(set(found))
    assert set(there) <= set(found)


def test_filters_come_before_pages(world: ApiWorld) -> None:
    made = fill(world, 12)
    start = datetime.fromtimestamp(1_700_000_000, timezone.utc)
    create(world, "odd-one-out")
    world.host("odd-one-out").end(1)
    world.ended("odd-one-out")
    ask = world.sagemaker.list_training_jobs
    assert names(ask(NameContains="ONE")) == ["odd-one-out"]
    assert names(ask(StatusEquals="Failed")) == ["odd-one-out"]
    assert names(ask(StatusEquals="Deleting")) == []
    assert names(ask(WarmPoolStatusEquals="Available")) == []
    after = start + timedelta(seconds=8.5)
    assert names(ask(CreationTimeAfter=after, CreationTimeBefore=start + timedelta(seconds=11))) == made[10:8:-1]
    assert names(ask(LastModifiedTimeBefore=start + timedelta(seconds=1))) == made[:1]
    assert names(ask(LastModifiedTimeAfter=start + timedelta(seconds=11.5))) == ["odd-one-out"]


def test_jobs_of_a_training_plan(world: ApiWorld) -> None:
    plan = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/p"
    resources = {**request("x")["ResourceConfig"], "TrainingPlanArn": plan}
    create(world, "planned", ResourceConfig=resources)
    create(world, "other")
    assert names(world.sagemaker.list_training_jobs(TrainingPlanArnEquals=plan)) == ["planned"]
    assert names(world.sagemaker.list_training_jobs(TrainingPlanArnEquals=plan + "2")) == []


def token(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode()


GARBAGE = [
    "x",
    "ü",
    "====",
    token(5),
    token("ab"),
    token({"a": 1, "b": 2}),
    token([1]),
    token([1, "a", 2]),
    token(["a", "b"]),
    token([True, "b"]),
    token([1.5, "b"]),
    token([None, None]),
    token([10**30, "b"]),
    token([1, "\ud800"]),
    base64.urlsafe_b64encode(b"[" * 5000).decode(),
]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_token_that_is_not_ours_is_refused(world: ApiWorld, garbage: str) -> None:
    fill(world, 1)
    code, message, status = refused(world.sagemaker.list_training_jobs, NextToken=garbage)
    assert (code, message, status) == ("ValidationException", "Invalid pagination token", 400)


def test_a_token_of_another_order_is_refused(world: ApiWorld) -> None:
    fill(world, 2)
    mine = world.sagemaker.list_training_jobs(MaxResults=1, SortBy="Name")["NextToken"]
    others: list[dict[str, str]] = [{}, {"SortBy": "Status"}, {"SortOrder": "Descending"}, {"NameContains": "job"}]
    for other in others:
        asked = {"NextToken": mine, **({"SortBy": "Name"} if other else {}), **other}
        assert refused(world.sagemaker.list_training_jobs, **asked)[1] == "Invalid pagination token"
    rest = world.sagemaker.list_training_jobs(MaxResults=100, SortBy="Name", NextToken=mine)
    assert names(rest) == ["job-01"]


@pytest.mark.parametrize("limit", [0, 101])
def test_the_size_of_a_page_has_limits(world: ApiWorld, limit: int) -> None:
    assert refused(world.sagemaker.list_training_jobs, MaxResults=limit)[0] == "ValidationException"


def test_a_summary_has_what_aws_gives(world: ApiWorld) -> None:
    create(world, "One")
    world.host("One").end(0)
    world.ended("One")
    (summary,) = world.sagemaker.list_training_jobs()["TrainingJobSummaries"]
    assert summary["TrainingJobArn"] == ARN + "one"
    assert (summary["TrainingJobStatus"], summary["SecondaryStatus"]) == ("Completed", "Completed")
    assert {"CreationTime", "LastModifiedTime", "TrainingEndTime"} <= set(summary)


# --- tags -----------------------------------------------------------------------------------------------------------


def test_tags_of_a_job(world: ApiWorld) -> None:
    arn = create(world, "One", Tags=[{"Key": "a", "Value": "1"}])
    sagemaker = world.sagemaker
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "1"}]
    answer = sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "a", "Value": "2"}, {"Key": "b", "Value": ""}])
    assert answer["Tags"] == [{"Key": "a", "Value": "2"}, {"Key": "b", "Value": ""}]
    sagemaker.delete_tags(ResourceArn=arn, TagKeys=["a", "absent"])
    assert sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "b", "Value": ""}]
    assert "Tags" not in describe(world, "One")


def test_fifty_tags_are_the_limit(world: ApiWorld) -> None:
    arn = create(world, "one", Tags=[{"Key": str(number), "Value": ""} for number in range(50)])
    world.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "1", "Value": "new"}])
    more = [{"Key": "1", "Value": "newer"}, {"Key": "x", "Value": ""}]
    code, _, _ = refused(world.sagemaker.add_tags, ResourceArn=arn, Tags=more)
    assert code == "ResourceLimitExceeded"
    assert {"Key": "1", "Value": "new"} in world.sagemaker.list_tags(ResourceArn=arn)["Tags"]
    assert len(world.sagemaker.list_tags(ResourceArn=arn)["Tags"]) == 50


def test_many_at_once_cannot_pass_the_limit_of_tags(world: ApiWorld) -> None:
    arn = create(world, "one")

    def add(number: int) -> str:
        wanted = [{"Key": f"{number}-{part}", "Value": ""} for part in range(8)]
        try:
            world.sagemaker.add_tags(ResourceArn=arn, Tags=wanted)
        except ClientError as error:
            return str(error.response["Error"]["Code"])
        return "added"

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(add, range(8)))
    assert answers == ["ResourceLimitExceeded"] * 2 + ["added"] * 6
    assert len(world.sagemaker.list_tags(ResourceArn=arn)["Tags"]) == 48


@pytest.mark.parametrize("key", ["aws:x", "AWS:x"])
def test_tags_of_awss_own_cannot_be_added(world: ApiWorld, key: str) -> None:
    arn = create(world, "one")
    code, message, _ = refused(world.sagemaker.add_tags, ResourceArn=arn, Tags=[{"Key": key, "Value": ""}])
    assert (code, key in message) == ("ValidationException", True)


@pytest.mark.parametrize(
    "arn",
    [
        ARN + "none",
        ARN + "a:one",
        ARN.replace("us-east-1", "eu-west-1") + "one",
        ARN.replace("123456789012", "210987654321") + "one",
    ],
)
def test_tags_of_what_is_not_there_or_not_yours(world: ApiWorld, arn: str) -> None:
    create(world, "one")
    sagemaker = world.sagemaker
    for call, parameters in (
        (sagemaker.list_tags, {}),
        (sagemaker.add_tags, {"Tags": [{"Key": "a", "Value": "b"}]}),
        (sagemaker.delete_tags, {"TagKeys": ["a"]}),
    ):
        assert refused(call, ResourceArn=arn, **parameters)[:2] == (
            "ValidationException", "Requested resource not found.",
        )  # fmt: skip


# --- accounts and regions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elsewhere", [{"account": "210987654321"}, {"region": "eu-west-1"}])
def test_accounts_and_regions_see_their_own_jobs_only(world: ApiWorld, elsewhere: dict[str, str]) -> None:
    other = world.client("sagemaker", **elsewhere)
    create(world, "one")
    assert names(other.list_training_jobs()) == []
    assert refused(other.describe_training_job, TrainingJobName="one")[1] == "Requested resource not found."
    assert refused(other.stop_training_job, TrainingJobName="one")[1] == "Requested resource not found."
    arn = other.create_training_job(**request("one"))["TrainingJobArn"]
    assert arn != ARN + "one"
    assert other.describe_training_job(TrainingJobName="one")["TrainingJobArn"] == arn
    assert describe(world, "one")["TrainingJobArn"] == ARN + "one"
