"""Processing jobs in fast-forward: a function stands in for the container, and time is the test's."""

from collections.abc import Iterator
from typing import Any

import pytest

from sagelet.testing import FastForward, ProcessingJob, faults
from support.processing import cluster, given, processing_request, result

IN, OUT = "/opt/ml/processing/in", "/opt/ml/processing/out"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastForward]:
    with FastForward(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def session(server: FastForward) -> Any:
    return server.session()


def test_an_hour_of_processing_and_the_training_after_it_take_no_time(server: FastForward, session: Any) -> None:
    s3, sagemaker = session.client("s3"), session.client("sagemaker")
    s3.create_bucket(Bucket="pipeline")
    s3.put_object(Bucket="pipeline", Key="raw/a.csv", Body=b"a")

    @server.process(job="prepare")
    def prepare(job: ProcessingJob) -> None:
        job.print(f"{job.current_host} of {len(job.hosts)}", *job.arguments)
        job.clock.advance(3600)
        (job.outputs["clean"] / f"{job.current_host}.csv").write_bytes(b"clean")
        names = sorted(path.name for path in job.inputs["raw"].iterdir())
        job.leave_message(f"{names}")

    program = {"ImageUri": "any/image:1", "ContainerEntrypoint": ["x"], "ContainerArguments": ["--fast"]}
    sagemaker.create_processing_job(
        **processing_request(
            "prepare",
            AppSpecification=program,
            ProcessingInputs=[given("raw", "s3://pipeline/raw/", IN)],
            ProcessingOutputConfig={"Outputs": [result("clean", "s3://pipeline/clean/", OUT)]},
            **cluster(InstanceCount=2),
        )
    )
    answer = server.wait("prepare", "Completed", kind="processing")
    assert (answer["ProcessingEndTime"] - answer["ProcessingStartTime"]).total_seconds() == 3600
    assert answer["ExitMessage"] == "['a.csv']"
    assert sorted(server.log("prepare", kind="processing")) == ["algo-1 of 2 --fast", "algo-2 of 2 --fast"]
    keys = [one["Key"] for one in s3.list_objects_v2(Bucket="pipeline", Prefix="clean/")["Contents"]]
    assert keys == ["clean/algo-1.csv", "clean/algo-2.csv"]


def test_limits_and_stops_are_met_on_time(server: FastForward, session: Any) -> None:
    @server.process(job="long-*")
    def hang(job: ProcessingJob) -> None:
        job.hang()

    sagemaker = session.client("sagemaker")
    limit = {"StoppingCondition": {"MaxRuntimeInSeconds": 600}}
    sagemaker.create_processing_job(**processing_request("long-1", **limit))
    answer = server.wait("long-1", "Stopped", kind="processing")
    assert (answer["ProcessingEndTime"] - answer["ProcessingStartTime"]).total_seconds() == 600


def test_an_exception_fails_the_job_and_its_traceback_is_in_the_log(server: FastForward, session: Any) -> None:
    @server.process(job="broken")
    def broken(_job: ProcessingJob) -> None:
        raise ValueError("no rows")

    session.client("sagemaker").create_processing_job(**processing_request("broken"))
    answer = server.wait("broken", "Failed", kind="processing")
    assert answer["FailureReason"] == "AlgorithmError: , exit code: 1"
    assert "ValueError: no rows" in "\n".join(server.log("broken", kind="processing"))


def test_faults_by_tag(server: FastForward, session: Any) -> None:
    sagemaker = session.client("sagemaker")
    tags = faults.tags(faults.slow_start(120), faults.capacity_error())
    sagemaker.create_processing_job(**processing_request("unlucky", Tags=tags))
    answer = server.wait("unlucky", "Failed", kind="processing")
    assert answer["FailureReason"].startswith("CapacityError: ")
    assert "ProcessingStartTime" not in answer


def test_a_job_without_a_function_says_what_to_do(server: FastForward, session: Any) -> None:
    session.client("sagemaker").create_processing_job(**processing_request("nobody"))
    answer = server.wait("nobody", "Failed", kind="processing")
    assert "give one to FastForward.process" in answer["FailureReason"]
