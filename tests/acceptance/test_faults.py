"""Faults on a running server, and the events that tell of them, in a queue and in a log group."""

import json
import uuid
from typing import Any

from botocore.config import Config

from support.jobs import Jobs
from support.on_runtimes import in_docker, own_by_processes
from support.server import ACCOUNT, SageletProcess, until

SCRIPT = """
    import os, time
    path = "/opt/ml/checkpoints/step"
    done = int(open(path).read()) if os.path.exists(path) else 0
    print("starts at", done, flush=True)
    open(path, "w").write("7")
    while not done:
        time.sleep(0.1)
    open(os.environ["SM_MODEL_DIR"] + "/model.txt", "w").write("whole")
"""
PATTERN = {"source": ["aws.sagemaker"], "detail-type": ["SageMaker Training Job State Change"]}


class Listener:
    """A rule for one job, with a queue and a log group as targets."""

    def __init__(self, server: SageletProcess, name: str, log_group: str = "") -> None:
        self._sqs, self._logs, self._group = server.client("sqs"), server.client("logs"), log_group
        self._queue = self._sqs.create_queue(QueueName=f"queue-{uuid.uuid4().hex[:8]}")["QueueUrl"]
        arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{self._queue.rpartition('/')[2]}"
        targets = [{"Id": "queue", "Arn": arn}]
        if log_group:
            self._logs.create_log_group(logGroupName=log_group)
            targets.append({"Id": "logs", "Arn": f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:{log_group}"})
        events, pattern = server.client("events"), {**PATTERN, "detail": {"TrainingJobName": [name]}}
        events.put_rule(Name=f"rule-{name}", EventPattern=json.dumps(pattern))
        events.put_targets(Rule=f"rule-{name}", Targets=targets)
        self._details: list[dict[str, Any]] = []

    def details(self) -> list[dict[str, Any]]:
        """Of every event that came to the queue."""
        got = self._sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10)
        for message in got.get("Messages", []):
            self._details.append(json.loads(message["Body"])["detail"])
            self._sqs.delete_message(QueueUrl=self._queue, ReceiptHandle=message["ReceiptHandle"])
        return self._details

    def statuses(self) -> list[str]:
        return [detail["SecondaryStatus"] for detail in self.details()]

    def logged(self) -> list[str]:
        found = self._logs.filter_log_events(logGroupName=self._group)["events"]
        return [json.loads(event["message"])["detail"]["SecondaryStatus"] for event in found]


@in_docker
def test_a_job_that_loses_its_host_is_retried_and_everybody_hears_of_it(jobs: Jobs) -> None:
    jobs.s3.create_bucket(Bucket="tests")
    name = f"faulty-{uuid.uuid4().hex[:8]}"
    listener = Listener(jobs.server, name, f"/events/{name}")
    jobs.submit(
        SCRIPT,
        name=name,
        RetryStrategy={"MaximumRetryAttempts": 1},
        CheckpointConfig={"S3Uri": f"s3://tests/{name}/checkpoints"},
        Tags=[{"Key": "sagelet:fault", "Value": "unhealthy-instance:1 throttling:3"}],
    )
    patient = jobs.server.client("sagemaker", config=Config(retries={"mode": "standard", "total_max_attempts": 4}))
    assert patient.describe_training_job(TrainingJobName=name)["ResponseMetadata"]["RetryAttempts"] == 3
    jobs.wait_for_line(name, "starts at 0")
    until(lambda: jobs.s3.list_objects_v2(Bucket="tests", Prefix=f"{name}/checkpoints/step").get("Contents"))
    arn = jobs.describe(name)["TrainingJobArn"]
    fault = "internal-server-error:1@0"
    jobs.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "sagelet:fault", "Value": fault}])
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    life = [entry["Status"] for entry in job["SecondaryStatusTransitions"]]
    assert life == [
        "Starting", "Downloading", "Training", "Restarting",
        "Starting", "Downloading", "Training", "Uploading", "Completed",
    ]  # fmt: skip
    until(lambda: listener.statuses() == life)
    until(lambda: sorted(listener.logged()) == sorted(life))
    assert listener.details()[-1]["Tags"] == {"sagelet:fault": fault}
    assert jobs.artifact(name) == {"model.txt": b"whole"}


@own_by_processes
def test_events_after_kill_9(own_server: SageletProcess) -> None:
    """moto forgets its rules with the server; a rule that is put again hears of all that comes then."""
    server = own_server
    jobs = Jobs(server)
    name = jobs.submit("import time\nprint('trains', flush=True)\nwhile True: time.sleep(0.1)")
    jobs.wait_for_line(name, "trains")
    server.kill()
    server.start()
    listener = Listener(server, name)
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    jobs.ended(name)
    until(lambda: listener.statuses()[-2:] == ["Stopping", "Stopped"])
