"""Jobs on a running server, on both runtimes, through boto3."""

import pytest
from botocore.exceptions import ClientError

from support.jobs import Jobs
from support.on_runtimes import by_processes, in_docker
from support.packages import wheel, wheel_name
from support.server import until


def test_a_job_trains_and_everything_about_it_is_true(jobs: Jobs) -> None:
    script = """
        import json, os, socket, sys
        print("arguments", sys.argv[1:])
        print("data", open("/opt/ml/input/data/training/deep/a.txt").read())
        print("host", socket.gethostname(), os.environ["TRAINING_JOB_NAME"], os.environ["MY_OWN"])
        print("   indented")
        print("")
        print("loss=0.25", file=sys.stderr)
        open(os.environ["SM_MODEL_DIR"] + "/model.txt", "w").write("a model")
        open(os.environ["SM_OUTPUT_DATA_DIR"] + "/notes.txt", "w").write("a note")
    """
    jobs.s3.create_bucket(Bucket="tests")
    jobs.s3.put_object(Bucket="tests", Key="in/deep/a.txt", Body=b"hello")
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://tests/in"}}
    name = jobs.submit(
        script,
        InputDataConfig=[{"ChannelName": "training", "DataSource": source}],
        hyperparameters={"epochs": "3", "word": '"a b"'},
        Environment={"MY_OWN": "value"},
        metrics=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    )
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job
    log = jobs.log(name)
    assert "arguments ['--epochs', '3', '--word', 'a b']" in log
    assert "data hello" in log
    assert f"host algo-1 {name} value" in log
    assert log[log.index("   indented") + 1] == ""
    assert jobs.artifact(name) == {"model.txt": b"a model"}
    assert jobs.artifact(name, "output")["notes.txt"] == b"a note"
    assert job["FinalMetricDataList"][0]["MetricName"] == "loss"
    assert job["FinalMetricDataList"][0]["Value"] == 0.25
    assert job["HyperParameters"]["word"] == '"a b"'
    assert job["AlgorithmSpecification"]["TrainingImage"].endswith("pytorch-training:1.13.1-gpu-py39")
    assert job["OutputDataConfig"]["KmsKeyId"] == ""
    assert job["TrainingTimeInSeconds"] == job["BillableTimeInSeconds"]
    start, end = job["TrainingStartTime"], job["TrainingEndTime"]
    assert int(end.timestamp()) - int(start.timestamp()) == job["TrainingTimeInSeconds"]
    stream = jobs.streams(name)[0]["logStreamName"]
    assert stream.startswith(f"{name}/algo-1-")


@by_processes
def test_a_search_path_of_the_job_is_kept_and_harms_nothing(jobs: Jobs) -> None:
    """The entry point is found although the job has a PYTHONPATH of its own."""
    files = {"train.py": "import inner", "lib/inner.py": 'print("imported by the job\'s own path")'}
    name = jobs.submit(files, Environment={"PYTHONPATH": "/opt/ml/code/lib"})
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job
    assert "imported by the job's own path" in jobs.log(name)


@by_processes
def test_the_metric_is_in_cloudwatch(jobs: Jobs) -> None:
    name = jobs.submit('print("loss=0.5")', metrics=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}])
    job = jobs.ended(name)
    points = jobs.server.client("cloudwatch").get_metric_statistics(
        Namespace="/aws/sagemaker/TrainingJobs",
        MetricName="loss",
        Dimensions=[{"Name": "TrainingJobName", "Value": name}],
        StartTime=job["TrainingStartTime"].timestamp() - 60,
        EndTime=job["TrainingEndTime"].timestamp() + 60,
        Period=60,
        Statistics=["Average"],
    )["Datapoints"]
    assert [point["Average"] for point in points] == [0.5]


@in_docker
def test_requirements_are_installed_from_the_source_directory(jobs: Jobs) -> None:
    name = jobs.submit(
        {
            "train.py": "import greeting_for_test as greeting; greeting.main()",
            "requirements.txt": f"./{wheel_name('greeting-for-test')}\n",
            wheel_name("greeting-for-test"): wheel("greeting-for-test"),
        },
        Environment={"PIP_NO_INDEX": "1"},
    )
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job["FailureReason"]
    assert "greeting_for_test says 1.0" in jobs.log(name)


def test_a_user_error_fails_with_the_words_of_aws_and_the_traceback(jobs: Jobs) -> None:
    script = """
        def inner():
            raise ValueError("a mistake of mine")
        inner()
    """
    name = jobs.submit(script)
    job = jobs.ended(name)
    reason = job["FailureReason"]
    assert job["TrainingJobStatus"] == "Failed"
    assert job["SecondaryStatus"] == "Failed"
    assert reason.startswith('AlgorithmError: ExecuteUserScriptError:\nExitCode 1\nErrorMessage "')
    assert "Traceback (most recent call last)" in reason
    assert "ValueError: a mistake of mine" in reason
    assert reason.endswith(", exit code: 1")
    assert "ValueError: a mistake of mine" in jobs.log(name)
    assert [entry["Status"] for entry in job["SecondaryStatusTransitions"]][-2:] == ["Uploading", "Failed"]


def test_stop_reaches_the_handler_and_its_model_is_uploaded(jobs: Jobs) -> None:
    script = """
        import os, signal, sys, time
        def save(*_):
            print("handler runs")
            open(os.environ["SM_MODEL_DIR"] + "/model.txt", "w").write("saved on stop")
            sys.exit(0)
        signal.signal(signal.SIGTERM, save)
        print("script is ready")
        while True:
            time.sleep(0.1)
    """
    name = jobs.submit(script)
    jobs.wait_for_line(name, "script is ready")
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    assert jobs.describe(name)["TrainingJobStatus"] in ("Stopping", "Stopped")
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Stopped"
    assert [entry["Status"] for entry in job["SecondaryStatusTransitions"]][-2:] == ["Stopping", "Stopped"]
    assert "handler runs" in jobs.log(name)
    assert jobs.artifact(name) == {"model.txt": b"saved on stop"}
    with pytest.raises(jobs.sagemaker.exceptions.ClientError, match="is in status Stopped"):
        jobs.sagemaker.stop_training_job(TrainingJobName=name)


@by_processes
def test_lines_are_readable_while_the_job_runs(jobs: Jobs) -> None:
    script = """
        import time, os
        print("line without a flush")
        while not os.path.exists("/opt/ml/output/data/go"):
            time.sleep(0.1)
    """
    name = jobs.submit(script)
    jobs.wait_for_line(name, "line without a flush")
    assert jobs.describe(name)["TrainingJobStatus"] == "InProgress"
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    jobs.ended(name)


@in_docker
def test_max_runtime_stops_the_job(jobs: Jobs) -> None:
    name = jobs.submit("import time\nprint('on')\ntime.sleep(3600)", max_runtime=4)
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Stopped"
    assert job["SecondaryStatus"] == "MaxRuntimeExceeded"


@in_docker
def test_an_image_that_nothing_stands_in_for_is_refused_with_the_remedy(jobs: Jobs) -> None:
    with pytest.raises(ClientError) as caught:
        jobs.submit("print(1)", image="example.com/my/own:1")
    error = caught.value.response["Error"]
    assert error["Code"] == "ValidationException"
    assert error["Message"].startswith("TrainingImageConfig with TrainingRepositoryAccessMode set to VPC must be")
    assert "`sagelet image map example.com/my/own:1 LOCAL_IMAGE`" in error["Message"]


@in_docker
def test_two_jobs_run_at_the_same_time(jobs: Jobs) -> None:
    script = """
        import time
        print("on")
        time.sleep(3600)
    """
    names = [jobs.submit(script), jobs.submit(script)]
    for name in names:
        jobs.wait_for_line(name, "on")
    assert {jobs.describe(name)["SecondaryStatus"] for name in names} == {"Training"}
    third = jobs.submit("print('my turn')")
    until(lambda: jobs.describe(third)["SecondaryStatus"] == "Pending")
    for name in names:
        jobs.sagemaker.stop_training_job(TrainingJobName=name)
    assert jobs.ended(third)["TrainingJobStatus"] == "Completed"
