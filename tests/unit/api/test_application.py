"""The front as clients see it: which answers are ours, which are moto's, and what errors look like."""

import http.client
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.protocol.operations import MAX_BODY
from sagelet_engine.base import concurrency
from support.fake_jobs import CREATED, ROLE, FakeJobs
from support.front import Front
from support.server import until

pytestmark = pytest.mark.usefixtures("jobs")

REQUEST = {
    "TrainingJobName": "a-job",
    "AlgorithmSpecification": {"TrainingImage": "image:tag", "TrainingInputMode": "File"},
    "RoleArn": ROLE,
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/"},
    "ResourceConfig": {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 30},
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
}


def error_of(call: Any, **parameters: Any) -> tuple[str, str, int]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    answer = caught.value.response
    return answer["Error"]["Code"], answer["Error"]["Message"], answer["ResponseMetadata"]["HTTPStatusCode"]


def post(server: Front, target: str, body: bytes, service: str = "sagemaker") -> tuple[int, dict[str, Any]]:
    authorization = f"AWS4-HMAC-SHA256 Credential=any/20261121/us-east-1/{service}/aws4_request, Signature=0"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    connection.request("POST", "/", body=body, headers={"Authorization": authorization, "X-Amz-Target": target})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def test_own_operation_with_account_and_region(client: Any, jobs: FakeJobs) -> None:
    answer = client("sagemaker", "eu-west-1", key="111122223333").create_training_job(**REQUEST)
    assert answer["TrainingJobArn"] == "arn:aws:sagemaker:eu-west-1:111122223333:training-job/a-job"
    context, parameters = jobs.seen[0]
    assert parameters == REQUEST
    assert context.request_id == answer["ResponseMetadata"]["RequestId"]


def test_times_keep_their_milliseconds(client: Any) -> None:
    answer = client("sagemaker").describe_training_job(TrainingJobName="a-job")
    assert answer["CreationTime"] == datetime.fromtimestamp(CREATED, timezone.utc)


def test_operation_without_output_has_no_body(server: Front, client: Any) -> None:
    answer = client("sagemaker").stop_training_job(TrainingJobName="a-job")
    assert answer["ResponseMetadata"]["HTTPHeaders"]["content-length"] == "0"


def test_validation_error(client: Any) -> None:
    code, message, status = error_of(client("sagemaker").create_training_job, **{**REQUEST, "TrainingJobName": "no_"})
    assert (code, status) == ("ValidationException", 400)
    assert message.startswith("1 validation error detected: Value 'no_' at 'trainingJobName'")


def test_modelled_error_uses_the_models_member(server: Front, client: Any) -> None:
    sagemaker = client("sagemaker")
    with pytest.raises(sagemaker.exceptions.ResourceInUse):
        sagemaker.create_training_job(**{**REQUEST, "TrainingJobName": "taken"})
    body = json.dumps({**REQUEST, "TrainingJobName": "taken"}).encode()
    status, answer = post(server, "SageMaker.CreateTrainingJob", body)
    assert status == 400
    assert answer == {"__type": "ResourceInUse", "Message": "Training job names must be unique (taken)"}


@pytest.mark.parametrize(
    ("body", "code", "status"),
    [
        (b"{", "SerializationException", 400),
        (b"[]", "SerializationException", 400),
        (b'{"TrainingJobName": 1}', "SerializationException", 400),
        (b"", "ValidationException", 400),
        (b'{"TrainingJobName": "%s"}' % (b"a" * MAX_BODY), "RequestEntityTooLargeException", 413),
    ],
)
def test_bad_bodies(server: Front, body: bytes, code: str, status: int) -> None:
    answer = post(server, "SageMaker.StopTrainingJob", body)
    assert (answer[0], answer[1]["__type"]) == (status, code)


def test_a_bug_is_logged_and_the_server_goes_on(
    server: Front, client: Any, server_log: pytest.LogCaptureFixture
) -> None:
    sagemaker = client("sagemaker")
    code, message, status = error_of(sagemaker.create_training_job, **{**REQUEST, "TrainingJobName": "broken"})
    assert (code, status) == ("InternalFailure", 500)
    [record] = server_log.records
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError
    assert message.split()[-1].rstrip(".") in record.getMessage()
    assert sagemaker.create_training_job(**REQUEST)["TrainingJobArn"]


def test_what_the_server_lacks_for_the_moment_is_said_to_the_client(client: Any) -> None:
    answer = error_of(client("sagemaker").create_training_job, **{**REQUEST, "TrainingJobName": "full"})
    assert answer == ("InternalFailure", "disk full: free space", 500)


def test_shared_operations_are_split_by_resource(client: Any) -> None:
    sagemaker = client("sagemaker")
    job = "arn:aws:sagemaker:us-east-1:123456789012:training-job/a-job"
    assert sagemaker.list_tags(ResourceArn=job)["Tags"] == [{"Key": "served-by", "Value": "sagelet"}]
    tags = [{"Key": "k", "Value": "v"}]
    experiment = sagemaker.create_experiment(ExperimentName="tagged")["ExperimentArn"]
    sagemaker.add_tags(ResourceArn=experiment, Tags=tags)
    assert sagemaker.list_tags(ResourceArn=experiment)["Tags"] == tags
    sagemaker.delete_experiment(ExperimentName="tagged")

    logs = client("logs")
    streams = logs.describe_log_streams(logGroupName="/aws/sagemaker/TrainingJobs")["logStreams"]
    assert [stream["logStreamName"] for stream in streams] == ["job/algo-1-1"]
    logs.create_log_group(logGroupName="/theirs")
    logs.create_log_stream(logGroupName="/theirs", logStreamName="s")
    assert logs.describe_log_streams(logGroupName="/theirs")["logStreams"][0]["logStreamName"] == "s"
    logs.delete_log_group(logGroupName="/theirs")


@pytest.mark.parametrize("value", ["1", "[]", "{}", "null", "true"])
def test_shared_operation_with_odd_json_is_no_server_error(server: Front, value: str) -> None:
    body = f'{{"ResourceArn": {value}, "logGroupName": {value}}}'.encode()
    status, answer = post(server, "SageMaker.ListTags", body)
    assert "html" not in str(answer).lower()
    assert "__type" in answer
    assert status >= 400


def test_operation_that_does_not_exist(server: Front) -> None:
    for service, target in (("sagemaker", "SageMaker.MakeCoffee"), ("logs", "Logs_20140328.MakeCoffee")):
        status, answer = post(server, target, b"{}", service)
        assert (status, answer["__type"]) == (400, "UnknownOperationException")
        assert "MakeCoffee" in answer["message"]


@pytest.mark.parametrize(
    ("method", "path", "target"),
    [
        ("GET", "/", "SageMaker.CreateTrainingJob"),
        ("POST", "/elsewhere", "SageMaker.CreateTrainingJob"),
        ("POST", "/?Action=CreateTrainingJob", None),
        ("POST", "/", None),
    ],
)
def test_an_operation_of_ours_in_another_form_never_reaches_moto(
    server: Front, method: str, path: str, target: str | None, server_log: pytest.LogCaptureFixture
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    headers = {
        "Authorization": "AWS4-HMAC-SHA256 Credential=any/20261121/us-east-1/sagemaker/aws4_request, Signature=0"
    }
    if target:
        headers["X-Amz-Target"] = target
    connection.request(method, path, body=b"{}", headers=headers)
    response = connection.getresponse()
    assert response.status == 400
    assert b"UnknownOperation" in response.read()
    assert server_log.records == []


def test_service_that_does_not_exist(server: Front) -> None:
    status, answer = post(server, "CoffeeMachine.Brew", b"{}", "coffee")
    assert (status, answer["__type"]) == (400, "UnknownOperationException")


def test_operation_that_nobody_has_is_named(client: Any) -> None:
    code, message, status = error_of(client("sagemaker").delete_code_repository, CodeRepositoryName="one")
    assert (code, status) == ("UnknownOperationException", 400)
    assert "DeleteCodeRepository" in message


def test_two_hundred_clients_at_once(server: Front, client: Any, jobs: FakeJobs) -> None:
    sagemaker, s3 = client("sagemaker"), client("s3")
    s3.create_bucket(Bucket="crowd")
    start = threading.Barrier(200)

    def visit(number: int) -> str:
        start.wait(timeout=120)
        s3.put_object(Bucket="crowd", Key=f"k{number}", Body=b"x" * 1000)
        return str(sagemaker.create_training_job(**{**REQUEST, "TrainingJobName": f"job-{number}"})["TrainingJobArn"])

    with ThreadPoolExecutor(200) as crowd:
        arns = set(crowd.map(visit, range(200)))
    assert len(arns) == 200
    assert len(jobs.seen) == 200
    assert s3.list_objects_v2(Bucket="crowd")["KeyCount"] == 200


def test_requests_that_wait_for_ever_stop_no_other_account(
    client: Any, jobs: FakeJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever they wait for: an operation need not know of the limit."""
    mine, others = (client("sagemaker", key=account) for account in ("111122223333", "444455556666"))
    with ThreadPoolExecutor(concurrency.MOST_OVERDUE + 1) as pool:
        for _ in range(concurrency.MOST_OVERDUE + 1):
            pool.submit(mine.stop_training_job, TrainingJobName="waits")
        try:
            until(lambda: len(jobs.seen) == concurrency.MOST_OVERDUE)
            assert others.describe_training_job(TrainingJobName="a-job")["TrainingJobName"] == "a-job"
            monkeypatch.setattr(concurrency, "MOST_WAITING_SECONDS", 0.01)
            throttled = error_of(mine.describe_training_job, TrainingJobName="a-job")
            assert throttled == ("ThrottlingException", "Rate exceeded", 400)
        finally:
            jobs.leave.set()
    assert len(jobs.seen) == concurrency.MOST_OVERDUE + 1
