"""Instance metrics and logs of real jobs, through CloudWatch and the AWS CLI."""

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from support.clients import Clients
from support.jobs import Jobs
from support.on_runtimes import by_processes, own_by_processes
from support.server import GROUP, SageletProcess, until

NAMESPACE = "/aws/sagemaker/TrainingJobs"
#: Two seconds of one core, 200 MB of memory, 100 MB on the disk.
BUSY = """
    import os, time
    held = bytearray(os.urandom(1000)) * 200_000
    with open(os.environ["SM_MODEL_DIR"] + "/weights", "wb") as file:
        file.write(os.urandom(100_000_000))
    began = time.process_time()
    while time.process_time() < began + 2:
        pass
    time.sleep(1)
    print("loss=0.5")
"""


@pytest.fixture
def clients(server: SageletProcess, tmp_path: Path) -> Clients:
    return Clients(server, tmp_path)


def instance_metrics(server: SageletProcess, name: str) -> dict[str, float]:
    """The means of a job's instance metrics, by name."""
    cloudwatch = server.client("cloudwatch")
    dimensions = [{"Name": "Host", "Value": f"{name}/algo-1"}]
    now = datetime.now(timezone.utc)
    means: dict[str, float] = {}
    for metric in cloudwatch.list_metrics(Namespace=NAMESPACE, Dimensions=dimensions)["Metrics"]:
        assert metric["Dimensions"] == dimensions
        found: list[dict[str, Any]] = cloudwatch.get_metric_statistics(
            **metric, StartTime=now - timedelta(hours=1), EndTime=now + timedelta(hours=1), Period=7200,
            Statistics=["Average"],
        )["Datapoints"]  # fmt: skip
        assert {point["Unit"] for point in found} == {"Percent"}
        means[metric["MetricName"]] = sum(point["Average"] for point in found) / len(found)
    return means


def test_a_job_of_seconds_has_instance_metrics(jobs: Jobs, server: SageletProcess) -> None:
    name = jobs.submit(BUSY)
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    found = instance_metrics(server, name)
    assert set(found) == {"CPUUtilization", "MemoryUtilization", "DiskUtilization"}, "no GPU, no GPU metrics"
    assert 0 < found["CPUUtilization"] <= 100 * (os.cpu_count() or 1) + 5
    assert 0 < found["MemoryUtilization"] < 100
    # Of the 10 GiB that the request names.
    assert 0.9 < found["DiskUtilization"] < 3


@own_by_processes
def test_instance_metrics_retention_and_put_metrics_survive_a_restart(own_server: SageletProcess) -> None:
    jobs = Jobs(own_server)
    name = jobs.submit(BUSY)
    jobs.ended(name)
    before = instance_metrics(own_server, name)
    jobs.logs.put_retention_policy(logGroupName=GROUP, retentionInDays=30)
    now = datetime.now(timezone.utc)
    own_server.client("sagemaker-metrics").batch_put_metrics(
        TrialComponentName=f"{name}-aws-training-job",
        MetricData=[{"MetricName": "mine", "Timestamp": now, "Value": 4.0, "Step": 1}],
    )
    own_server.kill()
    own_server.start()
    assert until(lambda: instance_metrics(own_server, name)) == before
    (group,) = jobs.logs.describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"]
    assert group["retentionInDays"] == 30
    query = {
        "MetricName": "mine", "ResourceArn": jobs.describe(name)["TrainingJobArn"], "MetricStat": "Last",
        "Period": "IterationNumber", "XAxisType": "IterationNumber",
    }  # fmt: skip
    (result,) = own_server.client("sagemaker-metrics").batch_get_metrics(MetricQueries=[query])["MetricQueryResults"]
    assert (result["XAxisValues"], result["MetricValues"]) == ([1], [4.0])


@by_processes
@pytest.mark.sdk
def test_the_aws_cli_filters_and_gets_logs(clients: Clients, jobs: Jobs) -> None:
    name = jobs.submit("print('first line')\nprint('{\"loss\": 0.25}')")
    jobs.ended(name)
    expected = jobs.log(name)
    (stream,) = jobs.streams(name)
    of_group = ("--log-group-name", GROUP)
    got = clients.aws(
        "logs", "get-log-events", *of_group, "--log-stream-name", stream["logStreamName"], "--start-from-head"
    )
    assert [event["message"] for event in got["events"]] == expected
    of_job = ("logs", "filter-log-events", *of_group, "--log-stream-name-prefix", f"{name}/")
    for pattern, wanted in (("", expected), ('"first line"', ["first line"]), ("{ $.loss < 1 }", ['{"loss": 0.25}'])):
        found = clients.aws(*of_job, "--filter-pattern", pattern)
        assert [event["message"] for event in found["events"]] == wanted
    groups = clients.aws("logs", "describe-log-groups")["logGroups"]
    assert GROUP in [group["logGroupName"] for group in groups]
    assert clients.aws("logs", "put-retention-policy", *of_group, "--retention-in-days", "3653") is None
