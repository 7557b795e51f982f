"""The server ends while a job trains: the next one adopts it, and its log has no gap and no double.

tests/reliability/test_kills.py kills it at every write, and of containers at what Docker is asked for.
"""

from pathlib import Path

import pytest

from support.jobs import Jobs
from support.lab import opt_mls
from support.on_runtimes import own_by_processes, own_in_docker
from support.server import SageletProcess, until

SCRIPT = """
    import os, time
    print("begin", flush=True)
    for number in range(200):
        print("line", number)
        time.sleep(0.02)
        while number == 100 and not os.path.exists("/opt/ml/go"):
            time.sleep(0.05)
    open(os.environ["SM_MODEL_DIR"] + "/model.txt", "w").write("done")
"""


def go_on(directory: Path) -> None:
    """Lets the script go past line 100."""
    for opt_ml in opt_mls(directory / "data"):
        (opt_ml / "go").touch()


@own_by_processes
def test_a_job_survives_kill_9_of_the_server(own_server: SageletProcess, tmp_path: Path) -> None:
    jobs = Jobs(own_server)
    name = jobs.submit(SCRIPT, metrics=[{"Name": "line", "Regex": "line ([0-9]+)"}])
    jobs.wait_for_line(name, "line 20")
    own_server.kill()
    own_server.start()
    jobs.wait_for_line(name, "line 100")
    go_on(tmp_path)
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed"
    numbered = [line for line in jobs.log(name) if line.startswith("line ")]
    assert numbered == [f"line {number}" for number in range(200)]
    assert jobs.artifact(name) == {"model.txt": b"done"}
    assert job["FinalMetricDataList"][0]["Value"] == 199


@own_in_docker
def test_a_job_that_ended_while_the_server_was_down_is_finished(own_server: SageletProcess, tmp_path: Path) -> None:
    jobs = Jobs(own_server)
    name = jobs.submit(SCRIPT)
    jobs.wait_for_line(name, "line 5")
    own_server.kill()
    go_on(tmp_path)
    (opt_ml,) = opt_mls(tmp_path / "data")
    until(lambda: (opt_ml / "output" / "success").exists())
    own_server.start()
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    assert [line for line in jobs.log(name) if line.startswith("line ")] == [f"line {n}" for n in range(200)]


@own_in_docker
def test_sigterm_leaves_the_job_running_and_says_so(own_server: SageletProcess, tmp_path: Path) -> None:
    jobs = Jobs(own_server)
    name = jobs.submit(SCRIPT)
    jobs.wait_for_line(name, "line 5")
    assert name in own_server.stop()
    own_server.start()
    go_on(tmp_path)
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"


@own_by_processes
def test_jobs_logs_and_metrics_survive_a_restart(own_server: SageletProcess) -> None:
    jobs = Jobs(own_server)
    name = jobs.submit("print('loss=0.5')", metrics=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}])
    before = jobs.ended(name)
    log = jobs.log(name)
    own_server.stop()
    own_server.start()
    after = jobs.describe(name)
    before.pop("ResponseMetadata"), after.pop("ResponseMetadata")
    assert after == before
    assert jobs.log(name) == log
    statistics = own_server.client("cloudwatch").get_metric_statistics
    points = until(
        lambda: statistics(
            Namespace="/aws/sagemaker/TrainingJobs",
            MetricName="loss",
            Dimensions=[{"Name": "TrainingJobName", "Value": name}],
            StartTime=after["TrainingStartTime"].timestamp() - 60,
            EndTime=after["TrainingEndTime"].timestamp() + 60,
            Period=60,
            Statistics=["SampleCount"],
        )["Datapoints"]
    )
    assert [point["SampleCount"] for point in points] == [1]


@own_by_processes
def test_a_second_server_on_the_same_data_directory_is_refused(own_server: SageletProcess, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"--data .*another sagelet"):
        SageletProcess(tmp_path / "data", "--runtime", "process").start()
