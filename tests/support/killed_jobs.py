"""The jobs under which servers are killed: which job passes which failpoint, and how the job must end."""

import io
import json
import tarfile
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_engine.base.failpoints import Failpoint
from sagelet_engine.model.job import JobKind
from support.failpoints import BUCKET, LINES, OUTSIDE, Mortal
from support.server import ENDED, GROUP, until

COUNT = f'i=0;while [ $i -lt {LINES} ];do echo "line $i";i=$((i+1));[ $((i%10)) = 0 ]&&sleep 0.05;done'
NUMBERED = [f"line {number}" for number in range(LINES)]
#: Prints until it gets a signal to end.
WITNESS = (
    f'i=0;until [ -e {OUTSIDE}/over ];do echo "line $i";'
    f"[ $(hostname) = algo-1 ]&&echo $i >{OUTSIDE}/printed;"
    "i=$((i+1));sleep 0.1;done;echo over;echo w >model/$(hostname)"
)
STOPPABLE = "trap 'echo saved;echo w >model/stopped;exit 0' TERM;echo ready;while true;do sleep 0.05;done"
#: The first attempt leaves a and b. The second removes a and adds c.
SPOT = (
    "cd checkpoints;if [ -e b ];then rm a;echo c >c;echo restored;echo w >../model/w;exit 0;fi;"
    "echo a >a;echo b >b;trap 'exit 1' TERM;echo ready;while true;do sleep 0.05;done"
)
PROCESSING_GROUP = JobKind.PROCESSING.log_group
Check = Callable[[Mortal], None]


def trains(mortal: Mortal) -> Check:
    """Two hosts that print, and leave a model."""
    name = mortal.create("trains", f"{COUNT};echo w >model/$(hostname)", hosts=2)

    def check(mortal: Mortal) -> None:
        job = mortal.ended(name)
        assert job["TrainingJobStatus"] == "Completed", job
        assert mortal.log(name) == {"algo-1": NUMBERED, "algo-2": NUMBERED}
        assert model(mortal, name) == {"algo-1", "algo-2"}
        until(lambda: samples(mortal, job) == 2 * LINES)
        check_bill(job)

    return check


def fails(mortal: Mortal) -> Check:
    """A script that writes why it fails, and leaves a model."""
    name = mortal.create("fails", f"{COUNT};echo w >model/half;printf boom >output/failure;exit 7")

    def check(mortal: Mortal) -> None:
        job = mortal.ended(name)
        assert (job["TrainingJobStatus"], job["FailureReason"]) == ("Failed", "AlgorithmError: boom, exit code: 7")
        (lines,) = mortal.attempts_log(name)
        assert lines[:LINES] == NUMBERED
        finding = [line for line in lines[LINES:] if 'error script-exit: The job gave its reason: "boom"' in line]
        assert len(finding) == 1, lines[LINES:]
        assert all(line.startswith("sagelet doctor: ") for line in lines[LINES:])
        assert len(set(lines)) == len(lines)
        assert model(mortal, name) == {"half"}
        check_bill(job)

    return check


def processes(mortal: Mortal) -> Check:
    """A processing job of two hosts, which note each start of their program in an output."""
    script = f"echo x >>/opt/ml/processing/out/$(hostname);{COUNT};echo counted >/opt/ml/output/message"
    name = mortal.process("processes", script, hosts=2)

    def check(mortal: Mortal) -> None:
        def describe(mortal: Mortal) -> dict[str, Any]:
            job: dict[str, Any] = mortal.client("sagemaker").describe_processing_job(ProcessingJobName=name)
            return job

        until(lambda: mortal.ask(describe)["ProcessingJobStatus"] in ENDED)
        job = mortal.ask(describe)
        assert (job["ProcessingJobStatus"], job["ExitMessage"]) == ("Completed", "counted\n"), job
        assert mortal.log(name, PROCESSING_GROUP) == {"algo-1": NUMBERED, "algo-2": NUMBERED}
        assert job["CreationTime"] <= job["ProcessingStartTime"] <= job["ProcessingEndTime"], job
        s3 = mortal.client("s3")
        for host in ("algo-1", "algo-2"):
            assert s3.get_object(Bucket=BUCKET, Key=f"{name}/{host}")["Body"].read() == b"x\n"

    return check


def waits(mortal: Mortal) -> Check:
    """More jobs than there are places."""
    checks = [trains(mortal) for _ in range(4)]

    def check(mortal: Mortal) -> None:
        for each in checks:
            each(mortal)

    return check


def stops(mortal: Mortal) -> Check:
    """A job that is stopped, and saves something when it is asked to end."""
    name = mortal.create("stops", STOPPABLE, metrics=[])
    until(lambda: mortal.has_line(name, "ready"))

    def stop(mortal: Mortal) -> None:
        try:
            mortal.client("sagemaker").stop_training_job(TrainingJobName=name)
        except ClientError as error:
            # The stop came through before the server was killed, and the job has ended.
            if "Stopped" not in str(error):
                raise

    mortal.ask(stop)

    def check(mortal: Mortal) -> None:
        job = mortal.ended(name)
        assert job["TrainingJobStatus"] == "Stopped", job
        assert mortal.log(name) == {"algo-1": ["ready", "saved"]}
        assert model(mortal, name) == {"stopped"}
        check_bill(job)

    return check


def is_interrupted(mortal: Mortal) -> Check:
    """A spot job whose second attempt goes on from the first one's checkpoints."""
    kept = {"S3Uri": f"s3://{BUCKET}/checkpoints/{len(mortal.starts())}"}
    limits = {"MaxWaitTimeInSeconds": 7200}
    name = mortal.create("spot", SPOT, metrics=[], EnableManagedSpotTraining=True, limits=limits, CheckpointConfig=kept)
    until(lambda: mortal.has_line(name, "ready"))
    mortal.interrupt(name)

    def check(mortal: Mortal) -> None:
        job = mortal.ended(name)
        assert job["TrainingJobStatus"] == "Completed", job
        # Both attempts' streams.
        assert sorted(line for lines in mortal.attempts_log(name) for line in lines) == ["ready", "restored"]
        found = mortal.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=kept["S3Uri"].split("/", 3)[3] + "/")
        assert [one["Key"].rsplit("/", 1)[1] for one in found["Contents"]] == ["b", "c"]
        assert model(mortal, name) == {"w"}
        check_bill(job)

    return check


def reuses(mortal: Mortal) -> Check:
    """A job that leaves a warm pool, and one that takes it."""
    volume = 20 + len(mortal.starts())
    first = mortal.create("pool", "true", resources={"KeepAlivePeriodInSeconds": 3600, "VolumeSizeInGB": volume})
    mortal.ended(first)
    second = mortal.create("pool", "true", resources={"VolumeSizeInGB": volume})

    def check(mortal: Mortal) -> None:
        for name in (first, second):
            assert mortal.ended(name)["TrainingJobStatus"] == "Completed"
        assert mortal.describe(first)["WarmPoolStatus"]["ReusedByJob"] == second

    return check


def expires(mortal: Mortal) -> Check:
    """A job whose warm pool nobody takes."""
    volume = 20 + len(mortal.starts())
    name = mortal.create("idle", "true", resources={"KeepAlivePeriodInSeconds": 1, "VolumeSizeInGB": volume})
    until(lambda: mortal.describe(name).get("WarmPoolStatus", {}).get("Status") == "Terminated")

    def check(mortal: Mortal) -> None:
        assert mortal.describe(name)["WarmPoolStatus"]["Status"] == "Terminated"

    return check


def is_deleted(mortal: Mortal) -> Check:
    """A job that is deleted when it has ended."""
    name = mortal.create("deleted", "true")
    mortal.ended(name)

    def delete(mortal: Mortal) -> None:
        try:
            mortal.client("sagemaker").delete_training_job(TrainingJobName=name)
        except ClientError as error:
            if "not found" not in str(error):
                raise

    mortal.ask(delete)

    def check(mortal: Mortal) -> None:
        with pytest.raises(ClientError, match="not found"):
            mortal.describe(name)
        assert mortal.log(name) == {}

    return check


def tunes(mortal: Mortal) -> Check:
    """A tuning job with three training jobs, two at a time."""
    name = mortal.tune("tunes", "echo line 1;echo w >model/w", most=3, parallel=2)
    tuning_ended(mortal, name)
    return lambda mortal: check_trials(mortal, name, "Completed", 3)


def runs_steps(mortal: Mortal) -> Check:
    """A pipeline of two training steps. Each has one job, whatever was killed."""
    arn = mortal.pipeline("steps", "echo first;echo w >model/w", "echo second;echo w >model/w")

    def describe(mortal: Mortal) -> dict[str, Any]:
        found: dict[str, Any] = mortal.client("sagemaker").describe_pipeline_execution(PipelineExecutionArn=arn)
        return found

    def steps(mortal: Mortal) -> list[dict[str, Any]]:
        listed = mortal.client("sagemaker").list_pipeline_execution_steps(
            PipelineExecutionArn=arn, SortOrder="Ascending"
        )
        found: list[dict[str, Any]] = listed["PipelineExecutionSteps"]
        return found

    def jobs(mortal: Mortal) -> list[str]:
        prefix = f"pipelines-{arn.rpartition('/')[2]}-"
        listed = mortal.client("sagemaker").list_training_jobs(NameContains=prefix, SortBy="Name")
        return [one["TrainingJobArn"] for one in listed["TrainingJobSummaries"]]

    until(lambda: mortal.ask(describe)["PipelineExecutionStatus"] not in ("Executing", "Stopping"))

    def check(mortal: Mortal) -> None:
        assert mortal.ask(describe)["PipelineExecutionStatus"] == "Succeeded"
        found = mortal.ask(steps)
        assert [one["StepStatus"] for one in found] == ["Succeeded", "Succeeded"]
        assert [one["AttemptCount"] for one in found] == [1, 1]
        assert sorted(one["Metadata"]["TrainingJob"]["Arn"] for one in found) == mortal.ask(jobs)

    return check


def stops_tuning(mortal: Mortal) -> Check:
    """A tuning job that is stopped while its training jobs run."""
    name = mortal.tune("halts", STOPPABLE, most=3, parallel=2)
    until(lambda: all(mortal.has_line(one["TrainingJobName"], "ready") for one in running(mortal, name)))

    def stop(mortal: Mortal) -> None:
        try:
            mortal.client("sagemaker").stop_hyper_parameter_tuning_job(HyperParameterTuningJobName=name)
        except ClientError as error:
            # The stop came through before the server was killed, and the tuning job has ended.
            if "Stopped" not in str(error):
                raise

    mortal.ask(stop)
    tuning_ended(mortal, name)
    return lambda mortal: check_trials(mortal, name, "Stopped", 2)


def running(mortal: Mortal, name: str) -> list[dict[str, Any]]:
    """Waits until two training jobs of a tuning job exist, and returns them."""
    found: list[dict[str, Any]] = until(lambda: len(all_of := trials(mortal, name)) == 2 and all_of)
    return found


def trials(mortal: Mortal, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = mortal.ask(
        lambda one: one.client("sagemaker").list_training_jobs_for_hyper_parameter_tuning_job(
            HyperParameterTuningJobName=name
        )["TrainingJobSummaries"]
    )
    return found


def tuning(mortal: Mortal, name: str) -> dict[str, Any]:
    def describe(one: Mortal) -> dict[str, Any]:
        job: dict[str, Any] = one.client("sagemaker").describe_hyper_parameter_tuning_job(
            HyperParameterTuningJobName=name
        )
        # A truncated answer has no members.
        return {"HyperParameterTuningJobName": job["HyperParameterTuningJobName"], **job}

    return mortal.ask(describe)


def tuning_ended(mortal: Mortal, name: str) -> None:
    """Waits for the end, with a new server each time that the present one is killed."""

    def ended() -> bool:
        return tuning(mortal, name)["HyperParameterTuningJobStatus"] in ("Completed", "Failed", "Stopped")

    until(ended, seconds=300)


def check_trials(mortal: Mortal, name: str, status: str, count: int) -> None:
    """No trial is lost and none doubled: the training jobs with its name are exactly its trials."""
    job = tuning(mortal, name)
    assert job["HyperParameterTuningJobStatus"] == status, job
    found = trials(mortal, name)
    assert len(found) == count, found
    assert {one["TrainingJobStatus"] for one in found} == {status}, found
    named = {"NameContains": name, "SortBy": "Name"}
    made = mortal.ask(lambda one: one.client("sagemaker").list_training_jobs(**named)["TrainingJobSummaries"])
    assert [one["TrainingJobName"] for one in made] == [one["TrainingJobName"] for one in found]


def uploads(mortal: Mortal) -> Check:
    """Not a job, but an upload completed over an object, one aborted with its bucket, and a deletion."""
    name = f"uploads-{uuid.uuid4().hex[:8]}"
    place = {"Bucket": name, "Key": "kept"}
    parts = [b"first" * (1 << 20), b"second"]

    def call(operation: str, *fine: str, **arguments: Any) -> Any:
        """Returns the answer, or None if a kill lost it and the operation came through (its error is in `fine`)."""

        def ask(mortal: Mortal) -> Any:
            try:
                return getattr(mortal.client("s3"), operation)(**{**place, **arguments})
            except ClientError as error:
                if error.response["Error"]["Code"] not in fine:
                    raise
                return None

        return mortal.ask(ask)

    def upload() -> dict[str, Any]:
        begun = call("create_multipart_upload")["UploadId"]
        sent = [parts[0], b"sent twice", parts[1]]
        tags = [
            call("upload_part", UploadId=begun, PartNumber=number, Body=data)["ETag"]
            for number, data in zip((1, 2, 2), sent, strict=True)
        ]
        named = [{"PartNumber": 1, "ETag": tags[0]}, {"PartNumber": 2, "ETag": tags[2]}]
        return {"UploadId": begun, "MultipartUpload": {"Parts": named}}

    mortal.ask(lambda one: one.client("s3").create_bucket(Bucket=name))
    call("put_object", Body=b"old")
    complete = upload()
    call("abort_multipart_upload", "NoSuchUpload", UploadId=upload()["UploadId"])
    # A repeated call gets the same answer again.
    etag = call("complete_multipart_upload", **complete)["ETag"]

    def check(mortal: Mortal) -> None:
        assert call("complete_multipart_upload", **complete)["ETag"] == etag
        got = call("get_object")
        assert (got["Body"].read(), got["ETag"]) == (b"".join(parts), etag)
        left = mortal.client("s3").list_multipart_uploads(Bucket=name).get("Uploads", [])
        # An upload that the client never learned of, because of a kill, is empty.
        assert all(not mortal.client("s3").list_parts(**place, UploadId=one["UploadId"]).get("Parts") for one in left)

    check(mortal)
    call("delete_object")
    call("create_multipart_upload")
    mortal.ask(lambda one: _delete_bucket(one, name))
    return lambda mortal: None


def _delete_bucket(mortal: Mortal, name: str) -> None:
    try:
        mortal.client("s3").delete_bucket(Bucket=name)
    except ClientError as error:
        if error.response["Error"]["Code"] != "NoSuchBucket":
            raise


def principals(mortal: Mortal) -> Check:
    """Not a job, but a role with a denial, one whose denial changes, and one that is deleted."""
    names = [f"principal-{uuid.uuid4().hex[:8]}" for _ in range(2)]

    def call(operation: str, *fine: str, **arguments: Any) -> Any:
        """Returns the answer, or None if a kill lost it and the operation came through (its error is in `fine`)."""

        def ask(mortal: Mortal) -> Any:
            try:
                return getattr(mortal.client("iam"), operation)(**arguments)
            except ClientError as error:
                if error.response["Error"]["Code"] not in fine:
                    raise
                return None

        return mortal.ask(ask)

    def deny(role: str, action: str) -> None:
        call("put_role_policy", RoleName=role, PolicyName="p", PolicyDocument=denial(action))

    for name in names:
        call("create_role", "EntityAlreadyExists", RoleName=name, AssumeRolePolicyDocument=denial("sts:AssumeRole"))
        deny(name, "s3:GetObject")
    deny(names[0], "s3:PutObject")
    call("delete_role_policy", "NoSuchEntity", RoleName=names[1], PolicyName="p")
    call("delete_role", "NoSuchEntity", RoleName=names[1])

    def check(mortal: Mortal) -> None:
        policy = mortal.client("iam").get_role_policy(RoleName=names[0], PolicyName="p")["PolicyDocument"]
        assert policy == json.loads(denial("s3:PutObject"))
        with pytest.raises(ClientError, match="NoSuchEntity"):
            mortal.client("iam").get_role(RoleName=names[1])

    check(mortal)
    return check


def denial(action: str) -> str:
    statement = {"Effect": "Deny", "Action": action, "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


F = Failpoint
#: The job that passes a failpoint. `trains` passes all others.
PASSED_BY: dict[Failpoint, Callable[[Mortal], Check]] = {
    F.AFTER_WAITING: waits,
    F.AFTER_REUSE: reuses,
    F.AFTER_POOL_END: expires,
    **dict.fromkeys((F.BEFORE_STOP, F.AFTER_STOP, F.BEFORE_SIGNAL, F.AFTER_SIGNAL), stops),
    **dict.fromkeys((F.AFTER_INTERRUPT, F.AFTER_FINAL_SYNC, F.AFTER_RESTART), is_interrupted),
    **dict.fromkeys((F.BEFORE_CHECKPOINT, F.AFTER_CHECKPOINT, F.AFTER_CHECKPOINT_DELETE), is_interrupted),
    **dict.fromkeys((F.BEFORE_DELETE, F.AFTER_DELETE), is_deleted),
    **dict.fromkeys(
        (F.AFTER_UPLOAD_BEGAN, F.BEFORE_PART, F.AFTER_PART, F.BEFORE_COMPLETION, F.AFTER_COMPLETION), uploads
    ),
    **dict.fromkeys((F.AFTER_ABORT, F.BEFORE_OBJECT_DELETE, F.AFTER_OBJECT_DELETE), uploads),
    F.AFTER_BUCKET_DELETE: uploads,
    **dict.fromkeys((F.BEFORE_IAM, F.AFTER_IAM), principals),
    **dict.fromkeys((F.AFTER_ORCHESTRATION, F.BEFORE_DECISION, F.AFTER_DECISION), tunes),
    **dict.fromkeys((F.BEFORE_CHILD, F.AFTER_CHILD), runs_steps),
    **dict.fromkeys((F.AFTER_ORCHESTRATION_STOP, F.AFTER_CHILD_STOP), stops_tuning),
}


def model(mortal: Mortal, name: str) -> set[str]:
    """Returns the files of the model."""
    body = mortal.client("s3").get_object(Bucket=BUCKET, Key=f"out/{name}/output/model.tar.gz")["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as opened:
        return {member.name for member in opened.getmembers() if member.isfile()}


def samples(mortal: Mortal, job: dict[str, Any]) -> float:
    """Returns how many points of the metric `line` CloudWatch has."""
    points = mortal.server.client("cloudwatch").get_metric_statistics(
        Namespace=GROUP,
        MetricName="line",
        Dimensions=[{"Name": "TrainingJobName", "Value": job["TrainingJobName"]}],
        StartTime=job["TrainingStartTime"].timestamp() - 60,
        EndTime=job["TrainingEndTime"].timestamp() + 60,
        Period=60,
        Statistics=["SampleCount"],
    )["Datapoints"]
    return float(sum(point["SampleCount"] for point in points))


def check_bill(job: dict[str, Any]) -> None:
    assert 0 <= job["BillableTimeInSeconds"] <= job["TrainingTimeInSeconds"], job
    assert job["CreationTime"] <= job["TrainingStartTime"] <= job["TrainingEndTime"] <= job["LastModifiedTime"], job
