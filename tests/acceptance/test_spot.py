"""A spot interruption on a running server: the script goes on from its checkpoint, and both streams are readable."""

import textwrap

import pytest

from support.jobs import Jobs, archive
from support.on_runtimes import DOCKER, PROCESS, own_in_docker
from support.server import GROUP, SageletProcess, until

SCRIPT = """
    import os, time
    path = "/opt/ml/checkpoints/step"
    done = int(open(path).read()) if os.path.exists(path) else 0
    print("starts at", done, flush=True)
    for step in range(done + 1, 41):
        with open(path + ".tmp", "w") as file:
            file.write(str(step))
        os.replace(path + ".tmp", path)
        print("step", step, flush=True)
        while not done and step == 10:
            time.sleep(0.1)
    open(os.environ["SM_MODEL_DIR"] + "/model.txt", "w").write(str(step))
"""


def messages(jobs: Jobs, stream: str) -> list[str]:
    page = jobs.logs.get_log_events(logGroupName=GROUP, logStreamName=stream, startFromHead=True)
    return [event["message"] for event in page["events"]]


def numbers(lines: list[str], word: str) -> list[int]:
    return [int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(word)]


@pytest.mark.parametrize(
    ("server", "by"),
    [
        pytest.param(*PROCESS.values, "command", marks=PROCESS.marks),
        pytest.param(*DOCKER.values, "command", marks=DOCKER.marks),
        pytest.param(*PROCESS.values, "tag", marks=PROCESS.marks),
    ],
    indirect=["server"],
)
def test_an_interrupted_job_goes_on_from_its_checkpoint(jobs: Jobs, by: str) -> None:
    jobs.s3.create_bucket(Bucket="tests")
    prefix = f"checkpoints-{by}-{id(jobs)}"
    name = jobs.submit(
        SCRIPT,
        EnableManagedSpotTraining=True,
        max_wait=600,
        CheckpointConfig={"S3Uri": f"s3://tests/{prefix}"},
    )
    jobs.wait_for_line(name, "step 10")
    if by == "command":
        jobs.server.interrupt(name)
    else:
        arn = jobs.describe(name)["TrainingJobArn"]
        jobs.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "sagelet:interrupt-after", "Value": "0"}])
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    assert [entry["Status"] for entry in job["SecondaryStatusTransitions"]] == [
        "Starting", "Downloading", "Training", "Interrupted",
        "Starting", "Downloading", "Training", "Uploading", "Completed",
    ]  # fmt: skip
    first, second = (messages(jobs, stream["logStreamName"]) for stream in jobs.streams(name))
    assert numbers(first, "starts at") == [0]
    assert numbers(first, "step") == list(range(1, 11))
    assert numbers(second, "starts at") == [10]
    assert numbers(second, "step") == list(range(11, 41))
    assert jobs.artifact(name) == {"model.txt": b"40"}
    found = jobs.s3.list_objects_v2(Bucket="tests", Prefix=f"{prefix}/")["Contents"]
    assert [entry["Key"] for entry in found] == [f"{prefix}/step"]
    assert jobs.s3.get_object(Bucket="tests", Key=f"{prefix}/step")["Body"].read() == b"40"
    assert 0 < job["BillableTimeInSeconds"] <= job["TrainingTimeInSeconds"]


@own_in_docker
def test_checkpoints_and_the_second_attempt_survive_kill_9_of_the_server(own_server: SageletProcess) -> None:
    """By processes, test_kills.py kills at every write of an interruption."""
    jobs = Jobs(own_server)
    jobs.s3.create_bucket(Bucket="tests")
    script = SCRIPT.replace("not done and step == 10", "step == {0: 10, 10: 30}.get(done)")
    name = jobs.submit(
        script, EnableManagedSpotTraining=True, max_wait=600, CheckpointConfig={"S3Uri": "s3://tests/run"}
    )
    until(lambda: any("step 10" in messages(jobs, stream["logStreamName"]) for stream in jobs.streams(name)))
    own_server.interrupt(name)
    until(lambda: len(jobs.streams(name)) == 2)
    second = jobs.streams(name)[1]["logStreamName"]
    until(lambda: "step 30" in messages(jobs, second))
    own_server.kill()
    own_server.start()

    def restored() -> bool:
        found = jobs.s3.list_objects_v2(Bucket="tests", Prefix="run/") if jobs.s3.list_buckets()["Buckets"] else {}
        return [entry["Key"] for entry in found.get("Contents", [])] == ["run/step"]

    until(restored)
    source = archive({"train.py": textwrap.dedent(script)})
    jobs.s3.put_object(Bucket="tests", Key=f"{name}/sourcedir.tar.gz", Body=source)
    own_server.interrupt(name)
    until(lambda: len(jobs.streams(name)) == 3)
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    starts = [numbers(messages(jobs, stream["logStreamName"]), "starts at") for stream in jobs.streams(name)]
    assert starts == [[0], [10], [30]]
    assert jobs.artifact(name) == {"model.txt": b"40"}
