"""What a client sees of pipelines whose steps the SDK's local mode cannot run: all calls and answers, times included.

`SAGELET_RECORD=1` writes the transcripts anew. Read the difference line by line against the rules of each path.
"""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from sagelet.testing import Job, ProcessingJob, faults
from support.pipeline_story import JOB_S, OF_MOTO, PipelineStory, Play
from support.pipelines import ROLE, compare, condition, definition, fail, get, join, parameter, step, train
from support.processing import processing_request, result
from support.transcripts import compare_file
from support.tuning import definition as trial
from support.tuning import tuning_request

DATA = Path(__file__).parents[2] / "data"
RECORDED = DATA / "pipeline_transcripts"
#: Path -> the function that plays it, and where its rules come from.
PATHS: dict[str, tuple[Play, tuple[str, ...]]] = {}


def path(*rules: str) -> Any:
    def register(play: Play) -> Play:
        PATHS[play.__name__.replace("_", "-")] = play, rules
        return play

    return register


def prepare(name: str, **more: Any) -> dict[str, Any]:
    """A Processing step with an output."""
    outputs = {"Outputs": [result("clean", "s3://steps/clean", "/opt/ml/processing/out")]}
    tags = more.pop("Tags", None)
    body = processing_request("x", ProcessingOutputConfig=outputs, **({"Tags": tags} if tags else {}))
    del body["ProcessingJobName"]
    return step(name, "Processing", body, **more)


# --- types of steps ---------------------------------------------------------------------------------------------------


@path(
    "TrainingJobSummaries of a Tuning step, up to 50, the best first: SDK v2, TuningStep",
    "Names of tuning jobs have 32 letters at most: botocore",
)
def tuning(story: PipelineStory) -> None:
    """Four trials, two at a time. The next step trains with a value of the best one and has its name."""
    limits = {"MaxNumberOfTrainingJobs": 4, "MaxParallelTrainingJobs": 2}
    body = tuning_request("x", job=trial(OutputDataConfig={"S3OutputPath": "s3://steps/out"}), ResourceLimits=limits)
    del body["HyperParameterTuningJobName"]
    best = "Steps.Tune.BestTrainingJob"
    values = {"lr": get(f"{best}.TunedHyperParameters['lr']"), "trial": get(f"{best}.TrainingJobName")}
    values["first"] = get("Steps.Tune.TrainingJobSummaries[0].TrainingJobName")
    story.create(definition(step("Tune", "Tuning", body), train("Fit", hyperparameters=values)))
    arn = story.start()
    steps = story.ended(arn)
    for number, one in enumerate(story.server.trials(steps["Tune"]["Metadata"]["TuningJob"]["Arn"].rpartition("/")[2])):
        story.names(one["TrainingJobName"], f"TRIAL{number + 1}")
    name = steps["Fit"]["Metadata"]["TrainingJob"]["Arn"].rpartition("/")[2]
    story.call("DescribeTrainingJob", TrainingJobName=name, keeps=("HyperParameters", "TrainingJobStatus"))


CALLBACK = 'Callback step: message, token, answers, 7 days: developer guide, "Callback step"'


def asked(story: PipelineStory, *steps: dict[str, Any]) -> tuple[str, str]:
    """Starts an execution with a callback. Returns its ARN and the token of the message, while the clock is held."""
    queue = story.call("CreateQueue", service="sqs", QueueName="asks")["QueueUrl"]
    story.names(story.server.endpoint, "ENDPOINT")
    outputs = [{"OutputName": "answer", "OutputType": "String"}]
    ask = step("Ask", "Callback", {"who": get("Execution.PipelineName")}, SqsQueueUrl=queue, OutputParameters=outputs)
    story.create(definition(ask, *steps))
    arn = story.start()
    messages: list[dict[str, Any]] = []
    while not messages:
        messages = story.client("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=1).get("Messages", [])
    body = json.loads(messages[0]["Body"])
    story.names(body["token"], "TOKEN")
    story.notes("receives", body)
    return arn, body["token"]


@path(CALLBACK, "OutputParameters are properties of later steps: developer guide")
def callback_success(story: PipelineStory) -> None:
    """Somebody answers an hour later. What they answer is the message of the next step."""
    with story.server.clock.held():
        arn, token = asked(story, fail("Say", join(" ", "they said", get("Steps.Ask.OutputParameters['answer']"))))
        story.steps(arn)
        story.server.clock.advance(3600)
        given = [{"Name": "answer", "Value": "yes"}]
        success = "SendPipelineExecutionStepSuccess"
        story.call(success, CallbackToken=token, OutputParameters=given, ClientRequestToken="a" * 32)
        story.call(success, CallbackToken=token, OutputParameters=given, ClientRequestToken="b" * 32)
        story.call(success, CallbackToken="0123456789", ClientRequestToken="c" * 32)
    story.ended(arn)


@path(CALLBACK)
def callback_failure(story: PipelineStory) -> None:
    """Somebody answers that it failed. The step after it never begins."""
    with story.server.clock.held():
        arn, token = asked(story, train("After", DependsOn=["Ask"]))
        failure = "SendPipelineExecutionStepFailure"
        story.call(failure, CallbackToken=token, FailureReason="nobody is here", ClientRequestToken="a" * 32)
    story.ended(arn)


@path(CALLBACK, "A stop sends a second message, and the execution waits for the answer: StopPipelineExecution")
def callback_stopped(story: PipelineStory) -> None:
    """The execution is stopped while it waits. It ends when the callback is answered."""
    with story.server.clock.held():
        arn, token = asked(story, train("After", DependsOn=["Ask"]))
        story.call("StopPipelineExecution", PipelineExecutionArn=arn, ClientRequestToken="s" * 32)
        queue = story.client("sqs").get_queue_url(QueueName="asks")["QueueUrl"]
        second: list[dict[str, Any]] = []
        while not second:
            second = story.client("sqs").receive_message(QueueUrl=queue, WaitTimeSeconds=1).get("Messages", [])
        story.notes("receives", json.loads(second[0]["Body"]))
        story.call("SendPipelineExecutionStepSuccess", CallbackToken=token, ClientRequestToken="a" * 32)
    story.ended(arn)


@path(
    'OutputParameters of a Lambda step by type, a failure is not tried again: developer guide, "Lambda step"',
    "The function runs for real, so its time is not the test's",
)
def lambda_steps(story: PipelineStory) -> None:
    """A function computes, a condition uses its output, and another function raises an error."""
    story.tells_time = False
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr(
            "f.py", "def h(event, context):\n    return {'twice': 2 * event['n'], 'good': event['n'] > 0}\n"
        )
        archive.writestr("g.py", "def h(event, context):\n    raise ValueError('not ' + event['what'])\n")
    for name, handler in (("twice", "f.h"), ("broken", "g.h")):
        story.client("lambda").create_function(
            FunctionName=name, Runtime="python3.11", Role=ROLE, Handler=handler, Code={"ZipFile": code.getvalue()}
        )
    arn = "arn:aws:lambda:us-east-1:123456789012:function"
    outputs = [{"OutputName": "twice", "OutputType": "Integer"}, {"OutputName": "good", "OutputType": "Boolean"}]
    twice = step("Twice", "Lambda", {"n": get("Parameters.N")}, FunctionArn=f"{arn}:twice", OutputParameters=outputs)
    broken = step("Broken", "Lambda", {"what": join("-", "here", get("Steps.Twice.OutputParameters['twice']"))},
                  FunctionArn=f"{arn}:broken")  # fmt: skip
    check = condition("Check", [compare("Equals", get("Steps.Twice.OutputParameters['good']"), True)], [broken])
    story.create(definition(twice, check, parameters=[parameter("N", "Integer", 3)]))
    story.ended(story.start())


@path(
    'A group is made if it does not exist; versions count from 1: developer guide, "RegisterModel step"',
    "moto keeps models, packages and groups: sagelet's documentation",
)
def register_model(story: PipelineStory) -> None:
    """Two executions register two versions of a trained model. The first one is approved."""
    container = {"Image": "images/serve:1", "ModelDataUrl": get("Steps.Fit.ModelArtifacts.S3ModelArtifacts")}
    inference = {
        "Containers": [container],
        "SupportedContentTypes": ["text/csv"],
        "SupportedResponseMIMETypes": ["text/csv"],
    }
    register = {
        "ModelPackageGroupName": "group",
        "ModelApprovalStatus": "PendingManualApproval",
        "InferenceSpecification": inference,
    }
    fit = train("Fit")
    fit["Arguments"]["OutputDataConfig"] = {"S3OutputPath": "s3://steps/out"}
    story.create(definition(fit, step("Register", "RegisterModel", register)))
    packages = []
    for _ in range(2):
        steps = story.ended(story.start())
        packages.append(steps["Register"]["Metadata"]["RegisterModel"]["Arn"])
    approved = {"ModelPackageArn": packages[0], "ModelApprovalStatus": "Approved"}
    story.call("UpdateModelPackage", **approved)
    keeps = ("ModelPackageGroupName", "ModelPackageVersion", "ModelApprovalStatus", "InferenceSpecification")
    story.call("DescribeModelPackage", ModelPackageName=packages[0], keeps=keeps)
    listed = story.client("sagemaker").list_model_packages(ModelPackageGroupName="group")["ModelPackageSummaryList"]
    kept = [{name: value for name, value in one.items() if name not in OF_MOTO} for one in listed]
    story.notes("lists model packages", sorted(kept, key=lambda one: str(one["ModelPackageVersion"])))


@path("What SDK v2.255 writes for @step functions: tests/data/pipeline_definitions/v2-functions.json")
def functions(story: PipelineStory) -> None:
    """Two `@step` functions leave their results in S3, where a condition reads them."""
    results = {"one": {"a": [2]}, "two": 1}
    s3 = story.client("s3")
    s3.create_bucket(Bucket="bucket")
    for prefix in ("r", "u"):
        s3.put_object(Bucket="bucket", Key=f"{prefix}/file", Body=b"as the SDK uploads it")

    @story.server.train
    def work(job: Job) -> None:
        job.clock.advance(JOB_S)
        arguments = job.request["AlgorithmSpecification"]["ContainerArguments"]
        name = arguments[arguments.index("--pipeline_step_name") + 1]
        key = job.request["OutputDataConfig"]["S3OutputPath"].removeprefix("s3://bucket/")
        body = json.dumps({"Result": results[name], "Exception": None}).encode()
        s3.put_object(Bucket="bucket", Key=f"{key}/results.json", Body=body)

    story.create((DATA / "pipeline_definitions" / "v2-functions.json").read_text())
    arn = story.start(PipelineParameters=[{"Name": "N", "Value": "4"}])
    steps = story.ended(arn)
    name = steps["two"]["Metadata"]["TrainingJob"]["Arn"].rpartition("/")[2]
    story.call("DescribeTrainingJob", TrainingJobName=name, keeps=("AlgorithmSpecification", "OutputDataConfig"))


# --- rules of executions ----------------------------------------------------------------------------------------------


@path(
    "The newest run with the same arguments that succeeded and has not expired gives its result: developer guide, "
    '"Caching pipeline steps"',
)
def cache(story: PipelineStory) -> None:
    """The second execution reuses both steps, another parameter only the first. After ExpireAfter, all run again."""
    cached = {"CacheConfig": {"Enabled": True, "ExpireAfter": "PT1H"}}
    fit = train("Fit", hyperparameters={"rate": get("Parameters.Rate")}, DependsOn=["Clean"], **cached)
    story.create(definition(prepare("Clean", **cached), fit, parameters=[parameter("Rate", default="1")]))
    story.ended(story.start())
    story.ended(story.start())
    story.ended(story.start(PipelineParameters=[{"Name": "Rate", "Value": "2"}]))
    story.server.clock.advance(3600)
    story.ended(story.start())


@path('The steps before the selected ones keep the results of the source: developer guide, "Selective execution"')
def selective_execution(story: PipelineStory) -> None:
    """Only the step in the middle runs again. The step after it is left out."""
    steps = (
        train("A"),
        train("B", hyperparameters={"of": get("Steps.A.TrainingJobName")}),
        train("C", DependsOn=["B"]),
    )
    story.create(definition(*steps))
    first = story.start()
    story.ended(first)
    selection = {"SourcePipelineExecutionArn": first, "SelectedSteps": [{"StepName": "B"}]}
    second = story.start(SelectiveExecutionConfig=selection)
    steps_of_second = story.ended(second)
    name = steps_of_second["B"]["Metadata"]["TrainingJob"]["Arn"].rpartition("/")[2]
    story.call("DescribeTrainingJob", TrainingJobName=name, keeps=("HyperParameters",))


@path(
    'IntervalSeconds, BackoffRate, MaxAttempts: developer guide, "Retry policy for pipeline steps"',
    "The fault is sagelet's own, by a tag",
)
def retry_policy(story: PipelineStory) -> None:
    """No capacity, three times: waits of one and of two minutes between the attempts. Then the step has failed."""
    policy = {"ExceptionType": ["SageMaker.CAPACITY_ERROR"], "IntervalSeconds": 60, "BackoffRate": 2, "MaxAttempts": 2}
    story.create(definition(prepare("Unlucky", Tags=faults.tags(faults.capacity_error()), RetryPolicies=[policy])))
    story.ended(story.start())


@path("RetryPipelineExecution takes up what did not succeed, with the same parameters: API reference")
def retry_of_an_execution(story: PipelineStory) -> None:
    """A job fails, and works when the execution is tried again. What had succeeded does not run again."""
    codes = [1, 0]

    @story.server.process(job="*-Flaky-*")
    def flaky(job: ProcessingJob) -> int:
        job.clock.advance(JOB_S)
        return codes.pop(0)

    story.create(
        definition(train("Before"), prepare("Flaky", DependsOn=["Before"]), train("After", DependsOn=["Flaky"]))
    )
    arn = story.start()
    story.ended(arn)
    story.call("RetryPipelineExecution", PipelineExecutionArn=arn, ClientRequestToken="r" * 32)
    story.server.wait_execution(arn, "Succeeded")
    story.ended(arn)
    story.call("RetryPipelineExecution", PipelineExecutionArn=arn, ClientRequestToken="s" * 32)


@path("MaxParallelExecutionSteps: API reference of ParallelismConfiguration")
def parallelism(story: PipelineStory) -> None:
    """Four independent steps: all at once, and then two at a time."""
    story.create(definition(*(train(name) for name in "ABCD")))
    story.ended(story.start())
    story.ended(story.start(ParallelismConfiguration={"MaxParallelExecutionSteps": 2}))


@pytest.mark.parametrize("name", PATHS)
def test_the_client_sees_what_is_recorded(name: str, tmp_path: Path) -> None:
    play, rules = PATHS[name]
    with PipelineStory(tmp_path) as story:
        play(story)
        about = " ".join((play.__doc__ or "").split())
        compare_file(RECORDED / f"{name}.json", {"about": about, "rules": [*rules], **story.transcript()})


def test_every_recorded_transcript_has_a_path() -> None:
    assert {file.stem for file in RECORDED.iterdir()} == PATHS.keys()
