"""Faults as clients meet them: the tag, the control endpoints, the commands, and boto3's own retries."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from sagelet_api.cli.main import main
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.model.faults import TAG
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.world import request, until

THROTTLING = "faults/throttling"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def tagged(value: str, **changes: Any) -> dict[str, Any]:
    return request("one", Tags=[{"Key": TAG, "Value": value}], **changes)


def control(world: ApiWorld, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=120)
    data = body if isinstance(body, bytes) else None if body is None else json.dumps(body)
    connection.request(method, f"/_sagelet/{path}", body=data, headers=headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def retrying(world: ApiWorld, mode: str, attempts: int, service: str = "sagemaker", account: str = ACCOUNT) -> Any:
    """A client as people have it, which repeats calls by itself."""
    return boto3.client(
        service,
        endpoint_url=f"http://127.0.0.1:{world.port}",
        region_name=REGION,
        aws_access_key_id=account,
        aws_secret_access_key="any",
        config=Config(retries={"mode": mode, "total_max_attempts": attempts}),
    )


def code(call: Any, **parameters: Any) -> tuple[int, str, str]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    response = caught.value.response
    error = response["Error"]
    return response["ResponseMetadata"]["HTTPStatusCode"], error["Code"], error["Message"]


def command(world: ApiWorld, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "--endpoint", f"http://127.0.0.1:{world.port}", "--account", ACCOUNT])


# --- the tag --------------------------------------------------------------------------------------------------


def test_the_tag_is_listed_and_does_what_it_says(world: ApiWorld) -> None:
    arn = world.sagemaker.create_training_job(**tagged("capacity-error"))["TrainingJobArn"]
    world.ended("one")
    assert world.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": TAG, "Value": "capacity-error"}]
    description = world.sagemaker.describe_training_job(TrainingJobName="one")
    assert description["FailureReason"] == (
        "CapacityError: Unable to provision requested ML compute capacity. "
        "Please retry using a different ML instance type."
    )
    assert "TrainingStartTime" not in description


def test_retries_of_internal_errors(world: ApiWorld) -> None:
    retries = {"MaximumRetryAttempts": 2}
    world.sagemaker.create_training_job(**tagged("internal-server-error:2", RetryStrategy=retries))
    until(lambda: world.job("one").launched)
    world.runtime.hosts[f"{world.job('one').launch_id}/algo-1"].end(0)
    world.ended("one")
    description = world.sagemaker.describe_training_job(TrainingJobName="one")
    assert description["TrainingJobStatus"] == "Completed"
    restarts = [e for e in description["SecondaryStatusTransitions"] if e["Status"] == "Restarting"]
    assert [entry["StatusMessage"] for entry in restarts] == ["Restarting the training job"] * 2


def test_a_slow_start_is_seen_in_the_description(world: ApiWorld) -> None:
    world.sagemaker.create_training_job(**tagged("insufficient-capacity:60"))
    text = "Insufficient capacity error from EC2 while launching instances, retrying!"

    def shown() -> dict[str, Any]:
        description = world.sagemaker.describe_training_job(TrainingJobName="one")
        assert description["SecondaryStatus"] == "Starting"
        return dict(description["SecondaryStatusTransitions"][-1])

    until(lambda: shown()["StatusMessage"] == text)
    world.clock.turn(60)
    world.host("one").end(0)
    world.ended("one")


def test_wrong_values_are_refused_where_they_are_given(world: ApiWorld) -> None:
    status, error, message = code(world.sagemaker.create_training_job, **tagged("soon"))
    assert (status, error) == (400, "ValidationException")
    assert "'soon'" in message
    assert "starting:SECONDS" in message
    arn = world.sagemaker.create_training_job(**tagged("starting:600"))["TrainingJobArn"]
    wrong = [{"Key": TAG, "Value": "starting:soon"}]
    assert "starting:soon" in code(world.sagemaker.add_tags, ResourceArn=arn, Tags=wrong)[2]
    assert world.job("one").tags == {TAG: "starting:600"}


@pytest.mark.parametrize("mode", ["legacy", "standard", "adaptive"])
def test_throttling_by_tag_and_the_retries_of_boto3(world: ApiWorld, mode: str) -> None:
    world.sagemaker.create_training_job(**tagged("throttling:2 starting:600"))
    described = retrying(world, mode, 3).describe_training_job(TrainingJobName="one")
    assert described["TrainingJobName"] == "one"
    assert described["ResponseMetadata"]["RetryAttempts"] == 2


def test_throttling_by_tag_is_of_describe_only_and_ends(world: ApiWorld) -> None:
    arn = world.sagemaker.create_training_job(**tagged("throttling:2 starting:600"))["TrainingJobArn"]
    describe = world.sagemaker.describe_training_job
    assert code(describe, TrainingJobName="one") == (400, "ThrottlingException", "Rate exceeded")
    assert world.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": TAG, "Value": "throttling:2 starting:600"}]
    assert len(world.sagemaker.list_training_jobs()["TrainingJobSummaries"]) == 1
    assert code(describe, TrainingJobName="one")[1] == "ThrottlingException"
    assert describe(TrainingJobName="one")["TrainingJobName"] == "one"


# --- throttling by the control endpoint -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["legacy", "standard", "adaptive"])
def test_boto3_gets_through_throttling(world: ApiWorld, mode: str) -> None:
    asked = {"operation": "CreateTrainingJob", "calls": 2}
    assert control(world, "POST", THROTTLING, asked)[0] == 200
    answer = retrying(world, mode, 3).create_training_job(**request("one"))
    assert answer["ResponseMetadata"]["RetryAttempts"] == 2
    assert control(world, "GET", THROTTLING) == (200, {"throttling": []})


@pytest.mark.parametrize("mode", ["legacy", "standard"])
def test_boto3_gives_up_when_there_is_more_throttling_than_retries(world: ApiWorld, mode: str) -> None:
    control(world, "POST", THROTTLING, {"operation": "ListTrainingJobs", "calls": 5})
    with pytest.raises(ClientError, match=r"ThrottlingException.*\(reached max retries: 2\): Rate exceeded"):
        retrying(world, mode, 3).list_training_jobs()
    left = control(world, "GET", THROTTLING)[1]["throttling"]
    which = {"service": "sagemaker", "operation": "ListTrainingJobs", "account": ACCOUNT, "region": REGION}
    assert left == [{**which, "calls": 2}]


def test_throttling_on_the_wire(world: ApiWorld) -> None:
    control(world, "POST", THROTTLING, {"operation": "DescribeTrainingJob", "calls": 1})
    wanted = {"__type": "ThrottlingException", "message": "Rate exceeded"}
    assert world.post("DescribeTrainingJob", {"TrainingJobName": "absent"}) == (400, wanted)
    assert world.post("DescribeTrainingJob", {"TrainingJobName": "absent"})[1]["__type"] == "ValidationException"


def test_other_operations_accounts_and_regions_are_not_throttled(world: ApiWorld) -> None:
    control(world, "POST", THROTTLING, {"operation": "ListTrainingJobs", "calls": 1, "region": "eu-west-1"})
    world.sagemaker.list_training_jobs()
    world.client("sagemaker", region="eu-west-1").list_models()
    world.client("sagemaker", region="eu-west-1", account="210987654321").list_training_jobs()
    assert code(world.client("sagemaker", region="eu-west-1").list_training_jobs)[1] == "ThrottlingException"


def test_every_operation_and_the_logs(world: ApiWorld) -> None:
    control(world, "POST", THROTTLING, {"operation": "*", "calls": 2})
    control(world, "POST", THROTTLING, {"operation": "DescribeLogGroups", "calls": 1, "service": "logs"})
    assert code(world.sagemaker.list_models)[1] == "ThrottlingException"
    assert code(world.logs.describe_log_groups) == (400, "ThrottlingException", "Rate exceeded")
    assert code(world.sagemaker.list_training_jobs)[1] == "ThrottlingException"
    world.logs.describe_log_groups()
    world.sagemaker.list_training_jobs()


def test_throttling_can_be_changed_and_cleared(world: ApiWorld) -> None:
    control(world, "POST", THROTTLING, {"operation": "ListTrainingJobs", "calls": 7})
    answer = control(world, "POST", THROTTLING, {"operation": "ListTrainingJobs", "calls": 2})[1]
    assert [entry["calls"] for entry in answer["throttling"]] == [2]
    assert control(world, "DELETE", THROTTLING) == (200, {"throttling": []})
    world.sagemaker.list_training_jobs()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"calls": 1}, "operation"),
        ({"operation": "DescribeTrainingJobs", "calls": 1}, "DescribeTrainingJob"),
        ({"operation": 3, "calls": 1}, "operation"),
        ({"operation": ["*"], "calls": 1}, "operation"),
        ({"operation": "ListModels"}, "calls"),
        ({"operation": "ListModels", "calls": 0}, "calls"),
        ({"operation": "ListModels", "calls": True}, "calls"),
        ({"operation": "ListModels", "calls": "3"}, "calls"),
        ({"operation": "GetObject", "calls": 1, "service": "s3"}, "sagemaker, logs"),
        ({"operation": "ListModels", "calls": 1, "service": {}}, "sagemaker, logs"),
        ({"operation": "ListModels", "calls": 1, "account": "12"}, "12 digits"),
        ({"operation": "ListModels", "calls": 1, "account": 123456789012}, "12 digits"),
        ({"operation": "ListModels", "calls": 1, "region": ""}, "region"),
        ({"operation": "ListModels", "calls": 1, "rate": 1}, "operation and calls"),
        ([], "JSON object"),
        (b"{", "JSON"),
        (b"x" * 100_000, ""),
    ],
)
def test_wrong_throttling_is_refused_with_the_remedy(world: ApiWorld, body: Any, words: str) -> None:
    status, answer = control(world, "POST", THROTTLING, body)
    assert status in (400, 413)
    assert words in answer["message"]
    assert control(world, "GET", THROTTLING) == (200, {"throttling": []})


@pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}])
def test_web_pages_throttle_nothing(world: ApiWorld, headers: dict[str, str]) -> None:
    asked = {"operation": "*", "calls": 1}
    assert control(world, "POST", THROTTLING, asked, **headers)[0] == 403
    world.sagemaker.list_training_jobs()


# --- a job's faults by the control endpoint -------------------------------------------------------------------


def test_faults_of_a_job_over_http(world: ApiWorld) -> None:
    arn = world.sagemaker.create_training_job(**tagged("starting:600"))["TrainingJobArn"]
    assert control(world, "GET", "jobs/one/faults") == (200, {"TrainingJobArn": arn, "faults": "starting:600"})
    words = "starting:500 capacity-error"
    assert control(world, "PUT", "jobs/one/faults", {"faults": words}) == (
        200,
        {"TrainingJobArn": arn, "faults": words},
    )
    assert world.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": TAG, "Value": words}]
    assert control(world, "DELETE", "jobs/one/faults") == (200, {"TrainingJobArn": arn, "faults": ""})
    assert world.sagemaker.list_tags(ResourceArn=arn)["Tags"] == []
    world.host("one").end(0)
    world.ended("one")
    status, answer = control(world, "PUT", "jobs/one/faults", {"faults": words})
    assert (status, "Completed" in answer["message"]) == (409, True)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("path", ["two/faults", "one/faults?region=eu-west-1", "one/faults?account=210987654321"])
def test_jobs_of_others_are_not_found(world: ApiWorld, method: str, path: str) -> None:
    world.sagemaker.create_training_job(**tagged("starting:600"))
    status, answer = control(world, method, f"jobs/{path}", {"faults": "capacity-error"})
    assert (status, "has no training job" in answer["message"]) == (404, True)
    assert world.job("one").tags == {TAG: "starting:600"}


@pytest.mark.parametrize("body", [{"faults": "soon"}, {"faults": 3}, {}, [], b"{", {"faults": ""}])
def test_wrong_faults_are_refused_with_the_remedy(world: ApiWorld, body: Any) -> None:
    world.sagemaker.create_training_job(**tagged("starting:600"))
    status, answer = control(world, "PUT", "jobs/one/faults", body)
    assert status == 400
    assert answer["message"]
    assert world.job("one").tags == {TAG: "starting:600"}


def test_a_job_with_all_the_tags_it_can_have_is_a_conflict(world: ApiWorld) -> None:
    tags = [{"Key": f"t{number}", "Value": ""} for number in range(50)]
    world.sagemaker.create_training_job(**request("one", Tags=tags))
    status, answer = control(world, "PUT", "jobs/one/faults", {"faults": "internal-server-error@0"})
    assert (status, "delete some" in answer["message"]) == (409, True)


# --- the commands ---------------------------------------------------------------------------------------------


def test_the_command_fault(world: ApiWorld) -> None:
    world.sagemaker.create_training_job(**tagged("starting:600"))
    assert command(world, "fault", "one").output == "one: starting:600\n"
    words = ["starting:500", "internal-server-error:2"]
    assert command(world, "fault", "one", *words).output == "one: starting:500 internal-server-error:2\n"
    assert world.job("one").tags == {TAG: "starting:500 internal-server-error:2"}
    assert command(world, "fault", "one", "--clear").output == "one: no faults\n"
    assert world.job("one").tags == {}
    wrong = command(world, "fault", "one", "soon")
    assert (wrong.exit_code, "starting:SECONDS" in wrong.output) == (1, True)
    assert command(world, "fault", "one", "capacity-error", "--clear").exit_code == 2
    assert "no training job two" in command(world, "fault", "two").output


def test_the_command_throttle(world: ApiWorld) -> None:
    assert command(world, "throttle").output == "Nothing is throttled\n"
    shown = command(world, "throttle", "ListTrainingJobs", "2").output
    assert shown == f"{ACCOUNT} {REGION} sagemaker ListTrainingJobs: calls left to throttle: 2\n"
    assert code(world.sagemaker.list_training_jobs)[1] == "ThrottlingException"
    assert "throttle: 1" in command(world, "throttle").output
    assert command(world, "throttle", "--clear").output == "Nothing is throttled\n"
    world.sagemaker.list_training_jobs()
    wrong = command(world, "throttle", "ListTrainings")
    assert (wrong.exit_code, "no operation 'ListTrainings'" in wrong.output) == (1, True)
    assert command(world, "throttle", "ListModels", "--clear").exit_code == 2
