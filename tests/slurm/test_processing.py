"""Processing jobs of `sagelet up --runtime slurm`, on a cluster of two nodes of one CPU each."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from support.processing import given, result
from support.server import SageletProcess, until
from support.slurm_cluster import SlurmCluster
from support.slurm_processing import SlurmProcessing
from support.slurm_server import WAITING, SlurmJobs

pytestmark = pytest.mark.slurm

#: Joins what it was given, and says on which host it is.
JOIN = """
cat /opt/ml/processing/input/rows/* >/opt/ml/processing/output/joined/$(hostname)
echo $(hostname) has $(ls /opt/ml/processing/input/rows)
cat /opt/ml/processing/input/all/*
"""
#: Writes a part of its output at once, and the rest once a file exists.
SLOW = """
echo one >/opt/ml/processing/output/early/one; echo ready
while [ ! -e {go} ]; do sleep 0.1; done
echo two >/opt/ml/processing/output/early/two
echo all >/opt/ml/processing/output/late/all
echo finished >/opt/ml/output/message
"""
SAVING = "trap 'echo saved >/opt/ml/processing/output/late/state; exit 0' TERM; echo ready; while :; do sleep 0.1; done"


@pytest.fixture
def prefix() -> str:
    return uuid.uuid4().hex[:12]


@pytest.fixture
def processing(server: SageletProcess, slurm_cluster: SlurmCluster) -> Iterator[SlurmProcessing]:
    """Processing jobs of a Slurm server. After the test it stops every job, and the cluster is idle."""
    jobs = SlurmProcessing(server)
    yield jobs
    jobs.stop_all()
    slurm_cluster.clear()
    slurm_cluster.heal()


def outputs(prefix: str) -> dict[str, object]:
    """The outputs of SLOW."""
    return {
        "ProcessingOutputConfig": {
            "Outputs": [
                result("early", f"s3://tests/{prefix}/early", "/opt/ml/processing/output/early", "Continuous"),
                result("late", f"s3://tests/{prefix}/late", "/opt/ml/processing/output/late"),
            ]
        }
    }


def test_two_hosts_share_an_input_and_leave_one_output(
    processing: SlurmProcessing, slurm_cluster: SlurmCluster, prefix: str
) -> None:
    rows = processing.put(f"{prefix}/rows", a=b"1\n", b=b"2\n", c=b"3\n")
    everything = processing.put(f"{prefix}/all", words=b"for everybody\n")
    name = processing.run(
        JOIN,
        hosts=2,
        ProcessingInputs=[
            given("rows", rows, "/opt/ml/processing/input/rows", S3DataDistributionType="ShardedByS3Key"),
            given("all", everything, "/opt/ml/processing/input/all"),
        ],
        ProcessingOutputConfig={
            "Outputs": [result("joined", f"s3://tests/{prefix}/out", "/opt/ml/processing/output/joined")]
        },
    )
    job = processing.ended(name)
    assert job["ProcessingJobStatus"] == "Completed", job
    assert processing.lines(name, "algo-1") == ["algo-1 has a c", "for everybody"]
    assert processing.lines(name, "algo-2") == ["algo-2 has b", "for everybody"]
    assert processing.objects(f"{prefix}/out/") == {"algo-1": b"1\n3\n", "algo-2": b"2\n"}
    told = slurm_cluster.run("squeue", "--noheader", "--states=all", f"--name={name}", "--Format=NumNodes,State")
    assert told.split() == ["2", "COMPLETED"]


def test_a_killed_server_goes_on_with_outputs_and_exit_message(
    processing: SlurmProcessing, server: SageletProcess, slurm_cluster: SlurmCluster, prefix: str, go: Path
) -> None:
    name = processing.run(SLOW.format(go=go), **outputs(prefix))
    processing.ready(name)
    until(lambda: processing.objects(f"{prefix}/early/") == {"one": b"one\n"})
    assert processing.objects(f"{prefix}/late/") == {}
    number = slurm_cluster.number(name)
    server.kill()
    go.touch()
    until(lambda: slurm_cluster.run("squeue", "--noheader", "--states=running", f"--name={name}").strip() == "")
    server.start()
    again = SlurmProcessing(server)
    job = again.ended(name)
    assert (job["ProcessingJobStatus"], job["ExitMessage"]) == ("Completed", "finished\n")
    assert again.lines(name) == ["ready"]
    assert again.objects(f"{prefix}/early/") == {"one": b"one\n", "two": b"two\n"}
    assert again.objects(f"{prefix}/late/") == {"all": b"all\n"}
    assert slurm_cluster.number(name) == number


def test_stop_gives_the_program_its_grace_and_uploads(processing: SlurmProcessing, prefix: str) -> None:
    name = processing.run(SAVING, **outputs(prefix))
    processing.ready(name)
    processing.sagemaker.stop_processing_job(ProcessingJobName=name)
    assert processing.ended(name)["ProcessingJobStatus"] == "Stopped"
    assert processing.objects(f"{prefix}/late/") == {"state": b"saved\n"}


def test_the_time_limit(processing: SlurmProcessing, prefix: str) -> None:
    name = processing.run(SAVING, max_runtime=2, **outputs(prefix))
    assert processing.ended(name)["ProcessingJobStatus"] == "Stopped"
    assert processing.objects(f"{prefix}/late/") == {"state": b"saved\n"}


def test_a_limit_that_slurm_itself_enforces(
    processing: SlurmProcessing, slurm_cluster: SlurmCluster, prefix: str
) -> None:
    name = processing.run(SAVING, **outputs(prefix))
    processing.ready(name)
    slurm_cluster.update(f"JobId={slurm_cluster.number(name)}", "EndTime=now")
    assert processing.ended(name)["ProcessingJobStatus"] == "Stopped"
    assert processing.objects(f"{prefix}/late/") == {"state": b"saved\n"}


def test_a_host_that_fails_ends_the_others(processing: SlurmProcessing) -> None:
    script = "[ $(hostname) = algo-1 ] && exec sleep 600; echo broken >/opt/ml/output/message; exit 9"
    job = processing.ended(processing.run(script, hosts=2))
    assert (job["ProcessingJobStatus"], job["ExitMessage"]) == ("Failed", "broken\n")
    assert job["FailureReason"] == "AlgorithmError: See job logs for more information"


def test_a_job_that_waits_for_nodes_is_stopped(
    processing: SlurmProcessing, jobs: SlurmJobs, slurm_cluster: SlurmCluster, go: Path
) -> None:
    first = jobs.run(WAITING, go, hosts=2)
    jobs.training(first, 2)
    waiting = processing.run("echo never")
    until(lambda: slurm_cluster.run("squeue", "--noheader", "--states=pending").strip() != "")
    processing.sagemaker.stop_processing_job(ProcessingJobName=waiting)
    job = processing.ended(waiting)
    assert job["ProcessingJobStatus"] == "Stopped"
    assert "ProcessingStartTime" not in job
    assert processing.lines(waiting) == []
    until(lambda: slurm_cluster.run("squeue", "--noheader", "--states=pending").strip() == "")


def test_a_preempted_job_runs_again(processing: SlurmProcessing, jobs: SlurmJobs, prefix: str, go: Path) -> None:
    rows = processing.put(f"{prefix}/rows", a=b"1\n")
    script = f"cat /opt/ml/processing/input/rows/a; rm /opt/ml/processing/input/rows/a; {WAITING.format(go=go)}"
    name = processing.run(script, ProcessingInputs=[given("rows", rows, "/opt/ml/processing/input/rows")])
    processing.ready(name)
    urgent = jobs.run("true", hosts=2, tags={"partition": "urgent"})
    assert jobs.ended(urgent)["TrainingJobStatus"] == "Completed"
    processing.ready(name, 2)
    go.touch()
    assert processing.ended(name)["ProcessingJobStatus"] == "Completed"
    assert [line for line in processing.lines(name) if line != "Terminated"] == ["1", "ready", "1", "ready", "done"]


def test_metrics_of_a_host(processing: SlurmProcessing, go: Path) -> None:
    script = f"echo ready; while [ ! -e {go} ]; do :; done"
    begin = datetime.now(timezone.utc) - timedelta(minutes=10)
    name = processing.run(script)
    processing.ready(name)
    watch = processing.server.client("cloudwatch")

    def most() -> float:
        points = watch.get_metric_statistics(
            Namespace="/aws/sagemaker/ProcessingJobs",
            MetricName="CPUUtilization",
            Dimensions=[{"Name": "Host", "Value": f"{name}/algo-1"}],
            StartTime=begin,
            EndTime=begin + timedelta(hours=1),
            Period=60,
            Statistics=["Maximum"],
        )["Datapoints"]
        return max((float(point["Maximum"]) for point in points), default=0.0)

    until(lambda: most() > 0)
    go.touch()
    assert processing.ended(name)["ProcessingJobStatus"] == "Completed"
