"""What a request names, sagelet does not fetch, start or obey: URLs, images with options, loaders, shells."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.canary import Canary
from support.shell_jobs import Neighbour, ShellJobs

#: Images and environments of processes are sagelet's own doing; of containers they are Docker's.
PROCESSES = pytest.mark.parametrize("shell_jobs", [pytest.param("process", marks=pytest.mark.xla)], indirect=True)


@pytest.fixture
def canary() -> Iterator[Canary]:
    made = Canary()
    yield made
    made.close()


def outcome(jobs: ShellJobs, **changes: Any) -> str:
    """The error of a request that is refused, or how its job ended."""
    try:
        job = jobs.ended(jobs.start("true", **changes))
    except ClientError as refused:
        return str(refused.response["Error"]["Code"])
    return str(job.get("FailureReason", job["TrainingJobStatus"]))


def test_no_url_of_a_request_is_fetched(shell_jobs: ShellJobs, canary: Canary) -> None:
    place = canary.place
    there = (f"http://{place}/", f"https://{place}/x", f"s3://{place}/x", f"s3://a@{place}/x")
    elsewhere = ("file:///etc/passwd", f"//{place}/x", "s3://../../etc/passwd", "s3://tests/../../../etc")
    for url in (*there, *elsewhere):
        source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": url}}
        told = outcome(shell_jobs, InputDataConfig=[{"ChannelName": "a", "DataSource": source}])
        assert told == "ValidationException" or told.startswith("ClientError: "), (url, told)
        # A prefix without checkpoints is not an error. Nobody outside is asked for it.
        told = outcome(shell_jobs, CheckpointConfig={"S3Uri": url})
        assert told in ("ValidationException", "Completed") or told.startswith("ClientError: "), (url, told)
    assert canary.visits == 0


@PROCESSES
def test_an_image_is_a_name_and_no_option(shell_jobs: ShellJobs, canary: Canary, neighbour: Neighbour) -> None:
    for image in (
        "--privileged", "-v/:/host", "sagelet/test-tiny:1 --privileged", "$(id)", "../../x", f"{canary.place}/x:1",
        f"http://{canary.place}/x", "x@sha256:" + "0" * 64, "a" * 255, "\u202eabc",
    ):  # fmt: skip
        jobs = ShellJobs(shell_jobs.server, image)
        told = outcome(jobs)
        assert told == "ValidationException" or told.startswith("ClientError: "), (image, told)
    assert canary.visits == 0


@PROCESSES
def test_nothing_that_a_job_sets_reaches_a_shell_or_sagelet(
    shell_jobs: ShellJobs, neighbour: Neighbour, tmp_path: Path
) -> None:
    """Loaders and interpreters read these. On the process runtime sagelet's shim is the parent of a host."""
    mark = tmp_path / "mark"
    touch = f"$(touch {mark}); `touch {mark}` | touch {mark} && touch {mark}"
    library = f"/opt/ml/{uuid.uuid4().hex}.so"
    environment = {
        "LD_PRELOAD": library, "LD_LIBRARY_PATH": "/opt/ml/model", "PYTHONHOME": "/nowhere",
        "PYTHONSTARTUP": "/etc/passwd", "BASH_ENV": "/opt/ml/x", "ENV": "/opt/ml/x", "IFS": "x",
        "DOCKER_HOST": "tcp://127.0.0.1:1", "AWS_ENDPOINT_URL": "x", "SAGELET_DATA": "/", "TOUCH": touch,
    }  # fmt: skip
    name = shell_jobs.start(
        "[ $PPID -gt 0 ] && $B tr '\\0' '\\n' < /proc/$PPID/environ | $B grep -c -e LD_PRELOAD -e PYTHONHOME;"
        " echo said",
        environment=environment,
        HyperParameters={"evil": touch, "--privileged": "true", "a;b": "c"},
        Tags=[{"Key": "evil", "Value": "../../x"}],
    )
    job = shell_jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job
    said = [line for line in shell_jobs.log(name) if library not in line]
    assert said in (["0", "said"], ["said"])
    assert not mark.exists()
    assert job["Environment"]["LD_PRELOAD"] == library


def status(call: Callable[[], Any]) -> int:
    try:
        answer = call()
    except ClientError as refused:
        answer = refused.response
    return int(answer["ResponseMetadata"]["HTTPStatusCode"])


@PROCESSES
def test_s3_visits_nobody(shell_jobs: ShellJobs, canary: Canary) -> None:
    """URLs in what S3 copies, redirects to, logs to and notifies."""
    s3, url = shell_jobs.s3, f"http://{canary.place}/"
    s3.put_object(Bucket="tests", Key="page", Body=b"page", WebsiteRedirectLocation=url)
    targets = {"HostName": canary.place, "Protocol": "http"}
    function = {"LambdaFunctionArn": f"arn:aws:lambda:us-east-1:123456789012:function:{url}"}
    topic = {"TopicArn": f"arn:aws:sns:us-east-1:123456789012:{canary.place}"}
    for call in (
        lambda: s3.copy_object(Bucket="tests", Key="copy", CopySource=url),
        lambda: s3.copy_object(Bucket="tests", Key="copy", CopySource=f"{canary.place}/x"),
        lambda: s3.upload_part_copy(Bucket="tests", Key="copy", CopySource=url, PartNumber=1, UploadId="none"),
        lambda: s3.put_bucket_website(Bucket="tests", WebsiteConfiguration={"RedirectAllRequestsTo": targets}),
        lambda: s3.put_bucket_logging(
            Bucket="tests", BucketLoggingStatus={"LoggingEnabled": {"TargetBucket": url, "TargetPrefix": url}}
        ),
        lambda: s3.put_bucket_notification_configuration(
            Bucket="tests",
            NotificationConfiguration={
                "LambdaFunctionConfigurations": [{**function, "Events": ["s3:ObjectCreated:*"]}],
                "TopicConfigurations": [{**topic, "Events": ["s3:ObjectCreated:*"]}],
            },
        ),
    ):
        assert status(call) != 500
    s3.put_object(Bucket="tests", Key="page", Body=b"again")
    assert s3.get_object(Bucket="tests", Key="page")["Body"].read() == b"again"
    assert canary.visits == 0
