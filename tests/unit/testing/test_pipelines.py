"""Executions of pipelines in fast-forward: functions are the steps, and time is the test's."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from sagelet.testing import FastForward, Job, ProcessingJob, faults
from sagelet.testing.fast_forward import NotInTime
from support.pipelines import ROLE, definition, fail, get, step
from support.processing import given, processing_request, result
from support.tuning import definition as tuning_definition
from support.tuning import tuning_request
from support.world import request


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastForward]:
    with FastForward(tmp_path_factory.mktemp("server")) as running:
        bucket = running.session().client("s3")
        bucket.create_bucket(Bucket="steps")
        bucket.put_object(Bucket="steps", Key="raw/a.csv", Body=b"a")
        yield running


def begin(server: FastForward, *steps: dict[str, Any]) -> str:
    sagemaker, name = server.session().client("sagemaker"), f"pipe-{uuid.uuid4().hex[:8]}"
    sagemaker.create_pipeline(PipelineName=name, PipelineDefinition=definition(*steps), RoleArn=ROLE)
    return str(sagemaker.start_pipeline_execution(PipelineName=name)["PipelineExecutionArn"])


def prepare(**changes: Any) -> dict[str, Any]:
    body = processing_request(
        "x",
        ProcessingInputs=[given("raw", "s3://steps/raw/", "/opt/ml/processing/in")],
        ProcessingOutputConfig={"Outputs": [result("clean", "s3://steps/clean", "/opt/ml/processing/out")]},
        **changes,
    )
    del body["ProcessingJobName"]
    return body


def train_on(uri: Any) -> dict[str, Any]:
    source = {"S3DataType": "S3Prefix", "S3Uri": uri}
    channels = [{"ChannelName": "train", "DataSource": {"S3DataSource": source}}]
    body = request("x", InputDataConfig=channels, OutputDataConfig={"S3OutputPath": "s3://steps/out"})
    del body["TrainingJobName"]
    return body


def test_hours_of_steps_take_no_time(server: FastForward) -> None:
    @server.process(job="*-prepare-*")
    def clean(job: ProcessingJob) -> None:
        job.clock.advance(3600)
        (job.outputs["clean"] / "a.csv").write_bytes((job.inputs["raw"] / "a.csv").read_bytes() * 3)

    @server.train(job="*-fit-*")
    def fit(job: Job) -> None:
        job.clock.advance(1800)
        job.print((job.channels["train"] / "a.csv").read_text())

    clean_data = get("Steps.prepare.ProcessingOutputConfig.Outputs['clean'].S3Output.S3Uri")
    steps = (step("prepare", "Processing", prepare()), step("fit", "Training", train_on(clean_data)))
    arn = begin(server, *steps)
    answer = server.wait_execution(arn, "Succeeded")
    assert (answer["LastModifiedTime"] - answer["CreationTime"]).total_seconds() == 3600 + 1800
    found = server.steps(arn)
    assert {name: one["StepStatus"] for name, one in found.items()} == {"prepare": "Succeeded", "fit": "Succeeded"}
    assert server.log(found["fit"]["Metadata"]["TrainingJob"]["Arn"].rpartition("/")[2]) == ["aaa"]


def test_faults_by_the_tags_of_a_step_and_its_retry_policy(server: FastForward) -> None:
    runs: list[str] = []

    @server.process(job="*-unlucky-*")
    def work(job: ProcessingJob) -> None:
        runs.append(job.name)

    policy = {"ExceptionType": ["SageMaker.CAPACITY_ERROR"], "IntervalSeconds": 600, "MaxAttempts": 2}
    unlucky = prepare(Tags=faults.tags(faults.slow_start(60), faults.capacity_error()))
    arn = begin(server, step("unlucky", "Processing", unlucky, RetryPolicies=[policy]))
    answer = server.wait_execution(arn, "Failed")
    found = server.steps(arn)["unlucky"]
    assert (found["AttemptCount"], found["FailureReason"].partition(":")[0]) == (3, "CapacityError")
    # Three slow starts of a minute, and waits of 10 and 20 minutes.
    assert (answer["LastModifiedTime"] - answer["CreationTime"]).total_seconds() >= 3 * 60 + 1800
    assert runs == []


def test_a_callback_is_answered_while_the_clock_is_held_and_else_expires(server: FastForward) -> None:
    session = server.session()
    queue = session.client("sqs").create_queue(QueueName="asks")["QueueUrl"]
    ask = step("ask", "Callback", {"a": "b"}, SqsQueueUrl=queue)
    with server.clock.held():
        arn = begin(server, ask)
        server.wait_execution(arn, "Executing")
        while "Callback" not in server.steps(arn).get("ask", {}).get("Metadata", {}):
            pass
        token = server.steps(arn)["ask"]["Metadata"]["Callback"]["CallbackToken"]
        session.client("sagemaker").send_pipeline_execution_step_success(CallbackToken=token)
    server.wait_execution(arn, "Succeeded")
    arn = begin(server, ask)
    answer = server.wait_execution(arn, "Failed")
    assert (answer["LastModifiedTime"] - answer["CreationTime"]).total_seconds() == 7 * 86_400
    assert server.steps(arn)["ask"]["FailureReason"] == "The callback was not answered within 7 days."


def test_an_execution_that_ends_otherwise_is_named_with_the_step_that_failed(server: FastForward) -> None:
    arn = begin(server, fail("end", "on purpose"))
    with pytest.raises(NotInTime, match=r"is Failed and not Succeeded\. Step failure.*\nend: on purpose$"):
        server.wait_execution(arn, "Succeeded")


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(("aim", "best"), [("Maximize", 0.03), ("Minimize", 0.01)])
def test_the_top_models_of_a_tuning_step_are_the_best(
    server: FastForward, aim: str, best: float, several: bool
) -> None:
    """SDK v2's TuningStep.get_top_model_s3_uri(top_k=0) refers to TrainingJobSummaries[0]."""

    @server.train(job="*-0*")
    def search(job: Job) -> None:
        job.print(f"loss={job.hyperparameters['lr']}")

    @server.train(job="*-keep-*")
    def keep(job: Job) -> None:
        job.print(job.hyperparameters["best"])

    ranges = {"CategoricalParameterRanges": [{"Name": "lr", "Values": ["0.01", "0.03", "0.02"]}]}
    objective = {"Type": aim, "MetricName": "loss"}
    places: dict[str, Any] = {"OutputDataConfig": {"S3OutputPath": "s3://steps/out"}}
    body = tuning_request(
        "x",
        job=tuning_definition(**places),
        Strategy="Grid",
        ResourceLimits={"MaxParallelTrainingJobs": 1},
        HyperParameterTuningJobObjective=objective,
        ParameterRanges=ranges,
    )
    del body["HyperParameterTuningJobName"], body["HyperParameterTuningJobConfig"]["RandomSeed"]
    if several:
        config = body["HyperParameterTuningJobConfig"]
        own = {"TuningObjective": objective, "HyperParameterRanges": ranges, "DefinitionName": "one"}
        del config["HyperParameterTuningJobObjective"], config["ParameterRanges"]
        body["TrainingJobDefinitions"] = [{**body.pop("TrainingJobDefinition"), **own}]
    fit = request("x", HyperParameters={"best": get("Steps.tune.TrainingJobSummaries[0].TrainingJobName")}, **places)
    del fit["TrainingJobName"]
    arn = begin(server, step("tune", "Tuning", body), step("keep", "Training", fit))
    server.wait_execution(arn, "Succeeded")
    found = server.steps(arn)
    tuned = server.session().client("sagemaker").describe_hyper_parameter_tuning_job(
        HyperParameterTuningJobName=found["tune"]["Metadata"]["TuningJob"]["Arn"].rpartition("/")[2]
    )["BestTrainingJob"]  # fmt: skip
    assert tuned["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] == pytest.approx(best)
    assert server.log(found["keep"]["Metadata"]["TrainingJob"]["Arn"].rpartition("/")[2]) == [tuned["TrainingJobName"]]
