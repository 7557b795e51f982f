"""Pipelines and their executions through boto3 and a real server."""

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.pipelines.steps import CallbackStep, JobStep
from sagelet_engine.store.orchestration_codecs import PIPELINE_EXECUTION
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.pipelines import (
    ROLE,
    compare,
    condition,
    definition,
    fail,
    get,
    join,
    json_get,
    parameter,
    step,
    train,
)
from support.processing import processing_request, result
from support.world import until

ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:pipeline/"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("b", "k", b"1")
        yield running


def create(world: ApiWorld, text: str, name: str = "Pipe", **more: Any) -> dict[str, Any]:
    given = {"PipelineName": name, "PipelineDefinition": text, "RoleArn": ROLE, "ClientRequestToken": "t" * 32, **more}
    answer: dict[str, Any] = world.sagemaker.create_pipeline(**given)
    return answer


def start(world: ApiWorld, name: str = "Pipe", parameters: dict[str, str] | None = None, **more: Any) -> str:
    values = [{"Name": key, "Value": value} for key, value in (parameters or {}).items()]
    more.setdefault("ClientRequestToken", uuid.uuid4().hex)
    answer = world.sagemaker.start_pipeline_execution(PipelineName=name, PipelineParameters=values, **more)
    return str(answer["PipelineExecutionArn"])


def status(world: ApiWorld, arn: str) -> str:
    return str(world.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)["PipelineExecutionStatus"])


def steps(world: ApiWorld, arn: str) -> dict[str, dict[str, Any]]:
    """Returns the steps by name, in the order in which they began."""
    listed = world.sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn, SortOrder="Ascending")
    return {one["StepName"]: one for one in listed["PipelineExecutionSteps"]}


def statuses(world: ApiWorld, arn: str) -> dict[str, str]:
    return {name: one["StepStatus"] for name, one in steps(world, arn).items()}


def job_of(world: ApiWorld, arn: str, name: str) -> str:
    """Waits until a Training step has its job, and returns the job's name."""
    prefix = f"pipelines-{arn.rpartition('/')[2]}-{name}-"

    def found() -> str | None:
        summaries = world.sagemaker.list_training_jobs(NameContains=prefix)["TrainingJobSummaries"]
        running = [one["TrainingJobName"] for one in summaries if one["TrainingJobStatus"] == "InProgress"]
        return running[0] if running else None

    return str(until(found))


def end(world: ApiWorld, arn: str, name: str, code: int = 0) -> str:
    job = job_of(world, arn, name)
    host = world.host(job)
    until(lambda: world.job(job).launched)
    host.end(code)
    world.ended(job)
    return job


def post_control(world: ApiWorld, path: str, body: dict[str, Any]) -> int:
    answer = urllib3.request("POST", f"http://127.0.0.1:{world.port}{path}", json=body, retries=False)
    return answer.status


def refused(call: Any, **parameters: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    return caught.value.response["Error"]["Code"], caught.value.response["Error"]["Message"]


# --- the life of an execution -----------------------------------------------------------------------------------------


def test_steps_run_one_after_the_other_with_each_others_properties(world: ApiWorld) -> None:
    first = train("first", hyperparameters={"epochs": get("Parameters.Epochs"), "run": get("Execution.PipelineName")})
    second = train("second", hyperparameters={"model": get("Steps.first.ModelArtifacts.S3ModelArtifacts")})
    text = definition(first, second, parameters=[parameter("Epochs", "Integer", 3)])
    assert create(world, text)["PipelineArn"] == f"{ARN}pipe"
    arn = start(world, parameters={"Epochs": "7"})
    assert arn.startswith(f"{ARN}pipe/execution/")
    assert len(arn.rpartition("/")[2]) == 12
    job = end(world, arn, "first")
    before = world.sagemaker.describe_training_job(TrainingJobName=job)
    assert before["HyperParameters"] == {"epochs": "7", "run": "Pipe"}
    after = end(world, arn, "second")
    shown = world.sagemaker.describe_training_job(TrainingJobName=after)
    assert shown["HyperParameters"]["model"] == before["ModelArtifacts"]["S3ModelArtifacts"]
    until(lambda: status(world, arn) == "Succeeded")
    found = steps(world, arn)
    assert [*found] == ["first", "second"]
    assert {one["StepStatus"] for one in found.values()} == {"Succeeded"}
    assert found["first"]["Metadata"]["TrainingJob"]["Arn"].endswith(f"training-job/{job}")
    assert found["first"]["EndTime"] >= found["first"]["StartTime"]
    listed = world.sagemaker.list_pipeline_parameters_for_execution(PipelineExecutionArn=arn)["PipelineParameters"]
    assert listed == [{"Name": "Epochs", "Value": "7"}]
    (summary,) = world.sagemaker.list_pipeline_executions(PipelineName="Pipe")["PipelineExecutionSummaries"]
    assert (summary["PipelineExecutionArn"], summary["PipelineExecutionStatus"]) == (arn, "Succeeded")


def test_the_names_of_its_job_and_of_the_experiment_are_values(world: ApiWorld) -> None:
    values = {"job": get("Execution.TrainingJobName"), "trial": get("PipelineExperimentConfig.TrialName")}
    given = json.loads(definition(train("a", hyperparameters=values)))
    given["PipelineExperimentConfig"] = {
        "ExperimentName": "e",
        "TrialName": join("-", "t", get("Execution.PipelineName")),
    }
    create(world, json.dumps(given))
    name = end(world, start(world), "a")
    shown = world.sagemaker.describe_training_job(TrainingJobName=name)
    assert shown["HyperParameters"] == {"job": name, "trial": "t-Pipe"}


@pytest.mark.parametrize(("value", "taken"), [("3", "small"), ("30", "large")])
def test_a_condition_chooses_the_branch(world: ApiWorld, value: str, taken: str) -> None:
    small = fail("small", join("-", "n", get("Parameters.N")))
    check = condition("check", [compare("LessThan", get("Parameters.N"), 10)], [small], fail("large", "too large"))
    create(world, definition(check, parameters=[parameter("N", "Integer", 1)]))
    arn = start(world, parameters={"N": value})
    until(lambda: status(world, arn) == "Failed")
    found = steps(world, arn)
    assert [*found] == ["check", taken]
    assert found["check"]["Metadata"] == {"Condition": {"Outcome": str(taken == "small").lower()}}
    message = "n-3" if taken == "small" else "too large"
    assert found[taken]["Metadata"] == {"Fail": {"ErrorMessage": message}}
    shown = world.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)
    assert shown["FailureReason"] == "Step failure: One or multiple steps failed."


def test_independent_steps_run_at_once_and_the_limit_holds(world: ApiWorld) -> None:
    create(world, definition(train("a"), train("b"), train("c", DependsOn=["a"])))
    both = start(world)
    until(lambda: [*statuses(world, both).values()] == ["Executing", "Executing"])
    one = start(world, ParallelismConfiguration={"MaxParallelExecutionSteps": 1})
    job_of(world, one, "a")
    assert [*statuses(world, one)] == ["a"]
    end(world, one, "a")
    until(lambda: statuses(world, one) == {"a": "Succeeded", "b": "Executing"})


def test_a_failed_step_lets_the_others_end_and_a_retry_takes_up_what_failed(world: ApiWorld) -> None:
    create(world, definition(train("good"), train("bad"), train("after", DependsOn=["bad"])))
    arn = start(world)
    end(world, arn, "bad", code=1)
    until(lambda: statuses(world, arn)["bad"] == "Failed")
    assert status(world, arn) == "Executing"
    end(world, arn, "good")
    until(lambda: status(world, arn) == "Failed")
    found = steps(world, arn)
    assert "after" not in found
    assert "AlgorithmError" in found["bad"]["FailureReason"]
    world.sagemaker.retry_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken="r" * 32)
    assert status(world, arn) == "Executing"
    end(world, arn, "bad")
    end(world, arn, "after")
    until(lambda: status(world, arn) == "Succeeded")
    code, text = refused(
        world.sagemaker.retry_pipeline_execution, PipelineExecutionArn=arn, ClientRequestToken="s" * 32
    )
    assert (code, "Succeeded" in text) == ("ConflictException", True)


def test_a_retry_may_change_the_limit(world: ApiWorld) -> None:
    bad = train("end")
    bad["Arguments"]["ResourceConfig"]["InstanceType"] = "ml.nonsense"
    create(world, definition(bad, train("a", DependsOn=["end"])))
    arn = start(world)
    until(lambda: status(world, arn) == "Failed")
    limit = {"MaxParallelExecutionSteps": 2}
    world.sagemaker.retry_pipeline_execution(
        PipelineExecutionArn=arn, ClientRequestToken="r" * 32, ParallelismConfiguration=limit
    )
    assert world.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)["ParallelismConfiguration"] == limit


def test_a_stop_stops_the_jobs(world: ApiWorld) -> None:
    create(world, definition(train("a"), train("b", DependsOn=["a"])))
    arn = start(world)
    job = job_of(world, arn, "a")
    world.host(job)
    world.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken="s" * 32)
    until(lambda: world.job(job).stop_ms is not None)
    world.host(job).end(0)
    until(lambda: status(world, arn) == "Stopped")
    assert statuses(world, arn) == {"a": "Stopped"}
    assert refused(world.sagemaker.stop_pipeline_execution, PipelineExecutionArn=arn, ClientRequestToken="o" * 32)[
        0
    ] == ("ConflictException")


def test_a_second_run_takes_its_steps_from_the_cache(world: ApiWorld) -> None:
    cached = {"CacheConfig": {"Enabled": True, "ExpireAfter": "PT1H"}}
    second_step = train("b", hyperparameters={"m": get("Steps.a.TrainingJobName")}, **cached)
    create(world, definition(train("a", **cached), second_step))
    first = start(world)
    end(world, first, "a")
    end(world, first, "b")
    until(lambda: status(world, first) == "Succeeded")
    second = start(world)
    until(lambda: status(world, second) == "Succeeded")
    found = steps(world, second)
    assert {one["CacheHitResult"]["SourcePipelineExecutionArn"] for one in found.values()} == {first}
    assert found["a"]["Metadata"] == steps(world, first)["a"]["Metadata"]
    world.clock.turn(3601)
    third = start(world)
    job_of(world, third, "a")


def test_throttling_reaches_the_calls_of_a_step_which_tries_again(world: ApiWorld) -> None:
    policy = {"ExceptionType": ["Step.THROTTLING"], "IntervalSeconds": 60, "MaxAttempts": 3}
    create(world, definition(train("a", RetryPolicies=[policy])))
    throttled = {"operation": "CreateTrainingJob", "calls": 2}
    assert post_control(world, "/_sagelet/faults/throttling", throttled) == 200
    arn = start(world)
    until(lambda: steps(world, arn).get("a", {}).get("FailureReason", "").startswith("ThrottlingException"))
    until(lambda: world.clock.turn(61) or steps(world, arn)["a"]["AttemptCount"] == 3)
    end(world, arn, "a")
    until(lambda: status(world, arn) == "Succeeded")


def test_a_step_is_looked_at_again_if_the_answer_was_throttled(world: ApiWorld) -> None:
    throttled = {**train("a")["Arguments"], "Tags": [{"Key": "sagelet:fault", "Value": "throttling:2"}]}
    create(world, definition(step("a", "Training", throttled)))
    arn = start(world)
    end(world, arn, "a")
    until(lambda: world.clock.turn(2) or status(world, arn) != "Executing")
    assert status(world, arn) == "Succeeded"


def test_a_job_that_goes_on_is_not_described_again_and_again(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    look, looked = JobStep.look, []

    def noting(self: JobStep, calls: Any, execution: Any, run: Any) -> Any:
        looked.append(run.name)
        return look(self, calls, execution, run)

    monkeypatch.setattr(JobStep, "look", noting)
    create(world, definition(train("a"), train("b"), train("later", DependsOn=["a"])))
    arn = start(world)
    job_of(world, arn, "b")
    end(world, arn, "a")
    job_of(world, arn, "later")
    assert set(looked) == {"a"}
    end(world, arn, "b")
    end(world, arn, "later")
    until(lambda: status(world, arn) == "Succeeded")


def test_a_callback_waits_for_its_token(world: ApiWorld, bridge: MotoBridge) -> None:
    sqs = world.client("sqs")
    queue = sqs.create_queue(QueueName=f"q-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    ask = step("ask", "Callback", {"question": get("Parameters.Q")}, SqsQueueUrl=queue, OutputParameters=[
        {"OutputName": "answer", "OutputType": "String"}
    ])  # fmt: skip
    use = train("use", hyperparameters={"answer": get("Steps.ask.OutputParameters['answer']")})
    create(world, definition(ask, use, parameters=[parameter("Q", default="why")]))
    arn = start(world)
    messages = until(lambda: sqs.receive_message(QueueUrl=queue).get("Messages"))
    body = json.loads(messages[0]["Body"])
    assert body["arguments"] == {"question": "why"}
    assert (body["status"], body["pipelineExecutionArn"]) == ("Executing", arn)
    world.sagemaker.send_pipeline_execution_step_success(
        CallbackToken=body["token"], OutputParameters=[{"Name": "answer", "Value": "42"}], ClientRequestToken="c" * 32
    )
    job = end(world, arn, "use")
    assert world.sagemaker.describe_training_job(TrainingJobName=job)["HyperParameters"]["answer"] == "42"
    until(lambda: status(world, arn) == "Succeeded")
    send = world.sagemaker.send_pipeline_execution_step_failure
    assert refused(send, CallbackToken=body["token"], ClientRequestToken="d" * 32)[0] == "ConflictException"
    assert refused(send, CallbackToken="nobody0123", ClientRequestToken="d" * 32)[0] == "ResourceNotFound"
    # A call whose answer was lost is repeated by AWS's SDKs.
    again = world.sagemaker.send_pipeline_execution_step_success(
        CallbackToken=body["token"], ClientRequestToken="c" * 32
    )
    assert again["PipelineExecutionArn"] == arn


def test_a_callback_is_answered_before_its_message_is_recorded(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who reads the queue may be faster than the server that has just sent."""
    queue = world.client("sqs").create_queue(QueueName=f"q-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    send, answer = CallbackStep._send, world.sagemaker.send_pipeline_execution_step_success

    def answered_at_once(self: CallbackStep, calls: Any, execution: Any, run: Any, token: str, word: str) -> None:
        send(self, calls, execution, run, token, word)
        answer(CallbackToken=token, ClientRequestToken="c" * 32)

    monkeypatch.setattr(CallbackStep, "_send", answered_at_once)
    create(world, definition(step("ask", "Callback", {"a": "b"}, SqsQueueUrl=queue)))
    arn = start(world)
    until(lambda: status(world, arn) == "Succeeded")
    assert steps(world, arn)["ask"]["Metadata"]["Callback"]["SqsQueueUrl"] == queue


def test_a_callback_may_fail(world: ApiWorld) -> None:
    queue = world.client("sqs").create_queue(QueueName=f"q-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    create(world, definition(step("ask", "Callback", {"a": "b"}, SqsQueueUrl=queue)))
    arn = start(world)
    token = until(lambda: steps(world, arn).get("ask", {}).get("Metadata", {}).get("Callback"))["CallbackToken"]
    send = world.sagemaker.send_pipeline_execution_step_failure
    for _ in range(2):
        send(CallbackToken=token, FailureReason="the answer is no", ClientRequestToken="f" * 32)
    until(lambda: status(world, arn) == "Failed")
    found = steps(world, arn)["ask"]
    assert (found["StepStatus"], found["FailureReason"]) == ("Failed", "the answer is no")
    # A retry asks again, with another token.
    world.sagemaker.retry_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken="r" * 32)
    other = until(lambda: steps(world, arn).get("ask", {}).get("Metadata", {}).get("Callback"))["CallbackToken"]
    assert other != token
    assert refused(send, CallbackToken=token, ClientRequestToken="g" * 32)[0] == "ResourceNotFound"


@pytest.mark.parametrize("stopped", [False, True])
def test_a_callback_that_nobody_answers_fails_after_seven_days(
    world: ApiWorld, bridge: MotoBridge, stopped: bool
) -> None:
    sqs = world.client("sqs")
    queue = sqs.create_queue(QueueName=f"q-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    create(world, definition(step("ask", "Callback", {"a": "b"}, SqsQueueUrl=queue)))
    arn = start(world)
    until(lambda: statuses(world, arn) == {"ask": "Executing"})
    token = steps(world, arn)["ask"]["Metadata"]["Callback"]["CallbackToken"]
    if stopped:
        world.sagemaker.stop_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken="s" * 32)
        until(lambda: steps(world, arn)["ask"]["StepStatus"] == "Stopping")
    world.clock.turn(7 * 86_400 - 60)
    assert steps(world, arn)["ask"]["StepStatus"] != "Failed"
    world.clock.turn(60)
    # Also before the orchestrator has looked again.
    send = world.sagemaker.send_pipeline_execution_step_success
    assert refused(send, CallbackToken=token, ClientRequestToken="c" * 32)[0] == "ConflictException"
    until(lambda: status(world, arn) == ("Stopped" if stopped else "Failed"))
    found = steps(world, arn)["ask"]
    assert (found["StepStatus"], found["FailureReason"]) == ("Failed", "The callback was not answered within 7 days.")
    assert refused(send, CallbackToken=token, ClientRequestToken="c" * 32)[0] == "ConflictException"


def test_models_are_made_and_registered(world: ApiWorld) -> None:
    image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:1.13.1-cpu-py39"
    group = f"group-{uuid.uuid4().hex[:8]}"
    model = step("Model-CreateModel", "Model", {
        "ExecutionRoleArn": ROLE,
        "PrimaryContainer": {"Image": image, "ModelDataUrl": get("Steps.train.ModelArtifacts.S3ModelArtifacts")},
    })  # fmt: skip
    register = step("register", "RegisterModel", {
        "ModelPackageGroupName": group,
        "ModelApprovalStatus": "PendingManualApproval",
        "InferenceSpecification": {
            "Containers": [{"Image": image, "ModelDataUrl": get("Steps.train.ModelArtifacts.S3ModelArtifacts")}],
            "SupportedContentTypes": ["text/csv"],
            "SupportedResponseMIMETypes": ["text/csv"],
        },
    })  # fmt: skip
    create(world, definition(train("train"), model, register))
    arn = start(world)
    end(world, arn, "train")
    until(lambda: status(world, arn) == "Succeeded")
    package = steps(world, arn)["register"]["Metadata"]["RegisterModel"]["Arn"]
    shown = world.sagemaker.describe_model_package(ModelPackageName=package)
    assert (shown["ModelPackageGroupName"], shown["ModelApprovalStatus"]) == (group, "PendingManualApproval")
    # SDK v2 names a step to create a model like this: its capitals stay in the model's name, not in the ARN.
    made = steps(world, arn)["Model-CreateModel"]["Metadata"]["Model"]["Arn"]
    assert world.sagemaker.describe_model(ModelName=made.rpartition("/")[2])["ModelArn"] == made


def test_a_selective_execution_reuses_the_other_steps(world: ApiWorld) -> None:
    create(world, definition(train("a"), train("b", hyperparameters={"m": get("Steps.a.TrainingJobName")}), train("c")))
    first = start(world)
    for name in ("a", "c", "b"):
        end(world, first, name)
    until(lambda: status(world, first) == "Succeeded")
    selected = {"SourcePipelineExecutionArn": first, "SelectedSteps": [{"StepName": "b"}]}
    second = start(world, SelectiveExecutionConfig=selected)
    end(world, second, "b")
    until(lambda: status(world, second) == "Succeeded")
    found = steps(world, second)
    assert [*found] == ["a", "b"]
    assert found["a"]["SelectiveExecutionResult"] == {"SourcePipelineExecutionArn": first}


# --- pipelines --------------------------------------------------------------------------------------------------------


def test_the_same_token_starts_one_execution(world: ApiWorld) -> None:
    create(world, definition(train("a")))
    assert start(world, ClientRequestToken="t" * 32) == start(world, ClientRequestToken="t" * 32)
    assert start(world, ClientRequestToken="u" * 32) != start(world, ClientRequestToken="t" * 32)


def test_a_repeated_call_with_the_same_token_happens_once(world: ApiWorld) -> None:
    first = create(world, definition(fail("end", "x")))
    assert create(world, definition(fail("end", "x")))["PipelineArn"] == first["PipelineArn"]
    code, _ = refused(create, world=world, text=definition(fail("end", "x")), ClientRequestToken="u" * 32)
    assert code == "ValidationException"
    arn = start(world)
    until(lambda: status(world, arn) == "Failed")
    for _ in range(2):
        world.sagemaker.retry_pipeline_execution(PipelineExecutionArn=arn, ClientRequestToken="r" * 32)
        until(lambda: status(world, arn) == "Failed")
    kept = world.engine._store.orchestrations.of(PIPELINE_EXECUTION).every(ACCOUNT, REGION)
    assert [one.retries for one in kept] == [1]


def test_aliases_of_versions(world: ApiWorld) -> None:
    """The rules are those of botocore's model."""
    sagemaker, one, two = world.sagemaker, definition(fail("one", "1")), definition(fail("two", "2"))
    create(world, one, PipelineVersionAliases=["stable", "first"])
    conflict = refused(
        sagemaker.update_pipeline, PipelineName="Pipe", PipelineDefinition=two, PipelineVersionAliases=["stable"]
    )
    assert (conflict[0], "stable" in conflict[1]) == ("ConflictException", True)
    code, text = refused(sagemaker.update_pipeline, PipelineName="Pipe", PipelineVersionAliases=["x"])
    assert (code, "UpdatePipelineVersion" in text) == ("ValidationException", True)
    sagemaker.update_pipeline(PipelineName="Pipe", PipelineDefinition=two, PipelineVersionAliases=["candidate"])
    arn = start(world, PipelineVersionAlias="stable")
    until(lambda: status(world, arn) == "Failed")
    assert [*steps(world, arn)] == ["one"]
    shown = sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)
    assert (shown["PipelineVersionId"], shown["PipelineVersionAliases"]) == (1, ["first", "stable"])
    other = start(world)
    pipeline = f"{ARN}pipe"
    sagemaker.update_pipeline_version(
        PipelineArn=pipeline,
        PipelineVersionId=1,
        PipelineVersionDisplayName="old",
        PipelineVersionAliasOperations={"Add": ["x"], "Remove": ["stable"]},
    )
    sagemaker.update_pipeline_version(
        PipelineArn=pipeline, PipelineVersionId=2, PipelineVersionDescription="new one",
        PipelineVersionAliasOperations={"Add": ["stable"]},
    )  # fmt: skip
    second = sagemaker.describe_pipeline(PipelineName="Pipe", PipelineVersionAlias="stable")
    assert json.loads(second["PipelineDefinition"])["Steps"][0]["Name"] == "two"
    assert second["PipelineVersionAliases"] == ["candidate", "stable"]
    assert second["PipelineVersionDescription"] == "new one"
    listed = sagemaker.list_pipeline_versions(PipelineName="Pipe")["PipelineVersionSummaries"]
    assert [one["PipelineVersionAliases"] for one in listed] == [["candidate", "stable"], ["first", "x"]]
    assert [one["LastExecutionPipelineExecutionArn"] for one in listed] == [other, arn]
    assert listed[1]["PipelineVersionDisplayName"] == "old"
    executions = sagemaker.list_pipeline_executions(PipelineName="Pipe", PipelineVersionAlias="x")
    assert [one["PipelineExecutionArn"] for one in executions["PipelineExecutionSummaries"]] == [arn]
    for call, words, code in (
        (sagemaker.describe_pipeline, {"PipelineVersionAlias": "none"}, "ResourceNotFound"),
        (sagemaker.list_pipeline_executions, {"PipelineVersionAlias": "none"}, "ResourceNotFound"),
        (sagemaker.describe_pipeline, {"PipelineVersionAlias": "x", "PipelineVersionId": 1}, "ValidationException"),
        (sagemaker.describe_pipeline, {"PipelineVersionId": 9}, "ResourceNotFound"),
    ):
        assert refused(call, PipelineName="Pipe", **words)[0] == code
    for operations, code in (
        ({"Add": ["12"]}, "ValidationException"),
        ({"Add": ["x"]}, "ConflictException"),
        ({"Remove": ["x"]}, "ResourceNotFound"),
    ):
        call = sagemaker.update_pipeline_version
        words = {"PipelineVersionId": 2, "PipelineVersionAliasOperations": operations}
        assert refused(call, PipelineArn=pipeline, **words)[0] == code


def test_lists_are_filtered_sorted_and_cut(world: ApiWorld) -> None:
    sagemaker = world.sagemaker
    for name in ("Beta", "alpha"):
        create(world, definition(fail("end", "x")), name=name)
        world.clock.turn(60)
    names = lambda **words: [one["PipelineName"] for one in sagemaker.list_pipelines(**words)["PipelineSummaries"]]  # noqa: E731
    assert names() == ["alpha", "Beta"]
    assert names(SortBy="Name", SortOrder="Ascending") == ["alpha", "Beta"]
    assert names(SortOrder="Ascending") == ["Beta", "alpha"]
    assert names(PipelineNamePrefix="al") == ["alpha"]
    assert names(ManagedBy="AWS") == []
    assert names(ManagedBy="CUSTOMER") == ["alpha", "Beta"]
    first = sagemaker.list_pipelines(MaxResults=1)
    assert names(MaxResults=1, NextToken=first["NextToken"]) == ["Beta"]
    created = {one["PipelineName"]: one["CreationTime"] for one in sagemaker.list_pipelines()["PipelineSummaries"]}
    assert names(CreatedAfter=created["Beta"]) == ["alpha"]
    assert names(CreatedBefore=created["alpha"]) == ["Beta"]
    arns = []
    for _ in range(3):
        arns.append(start(world, "alpha"))
        world.clock.turn(60)
    executions = lambda **words: [  # noqa: E731
        one["PipelineExecutionArn"]
        for one in sagemaker.list_pipeline_executions(PipelineName="alpha", **words)["PipelineExecutionSummaries"]
    ]
    assert executions() == arns[::-1]
    assert executions(SortOrder="Ascending") == arns
    assert executions(SortBy="PipelineExecutionArn", SortOrder="Ascending") == sorted(arns)
    started = sagemaker.describe_pipeline_execution(PipelineExecutionArn=arns[1])["CreationTime"]
    assert executions(CreatedAfter=started) == [arns[2]]
    assert executions(CreatedBefore=started) == [arns[0]]
    token = sagemaker.list_pipeline_executions(PipelineName="alpha", MaxResults=2)["NextToken"]
    assert executions(MaxResults=2, NextToken=token) == [arns[0]]
    sagemaker.update_pipeline(PipelineName="alpha", PipelineDefinition=definition(fail("end", "y")))
    versions = lambda **words: [  # noqa: E731
        one["PipelineVersionId"]
        for one in sagemaker.list_pipeline_versions(PipelineName="alpha", **words)["PipelineVersionSummaries"]
    ]
    assert versions() == [2, 1]
    assert versions(SortOrder="Ascending") == [1, 2]
    assert versions(CreatedAfter=created["alpha"]) == [2]
    assert versions(CreatedBefore=started) == [1]
    token = sagemaker.list_pipeline_versions(PipelineName="alpha", MaxResults=1)["NextToken"]
    assert versions(MaxResults=1, NextToken=token) == [1]


def test_steps_and_parameters_are_cut_into_pages(world: ApiWorld) -> None:
    made = [condition(f"c{n}", [compare("Equals", 1, 1)], []) for n in range(3)]
    create(world, definition(*made, parameters=[parameter(f"P{n}", default=str(n)) for n in range(3)]))
    arn = start(world)
    until(lambda: status(world, arn) == "Succeeded")
    for operation, member, name in (
        ("list_pipeline_execution_steps", "PipelineExecutionSteps", "StepName"),
        ("list_pipeline_parameters_for_execution", "PipelineParameters", "Name"),
    ):
        first = getattr(world.sagemaker, operation)(PipelineExecutionArn=arn, MaxResults=2)
        rest = getattr(world.sagemaker, operation)(PipelineExecutionArn=arn, MaxResults=2, NextToken=first["NextToken"])
        assert len({one[name] for one in first[member] + rest[member]}) == 3
        assert "NextToken" not in rest


@pytest.mark.parametrize("order", ["Ascending", "Descending"])
def test_pages_of_steps_follow_the_order_in_which_the_steps_began(world: ApiWorld, order: str) -> None:
    # The last of the definition begins first.
    needs = {f"c{n}": {"DependsOn": [f"c{n + 1}"]} if n < 4 else {} for n in range(5)}
    create(world, definition(*(condition(name, [compare("Equals", 1, 1)], [], **more) for name, more in needs.items())))
    arn = start(world)
    until(lambda: status(world, arn) == "Succeeded")
    names, token = [], {}
    while True:
        page = world.sagemaker.list_pipeline_execution_steps(
            PipelineExecutionArn=arn, MaxResults=2, SortOrder=order, **token
        )
        names += [one["StepName"] for one in page["PipelineExecutionSteps"]]
        if "NextToken" not in page:
            break
        token = {"NextToken": page["NextToken"]}
    began = ["c4", "c3", "c2", "c1", "c0"]
    assert names == (began if order == "Ascending" else began[::-1])


def test_names_and_limits_of_an_execution(world: ApiWorld) -> None:
    more = {"PipelineDisplayName": "Shown", "PipelineDescription": "what it is"}
    create(world, definition(train("a")), **more, ParallelismConfiguration={"MaxParallelExecutionSteps": 3})
    shown = world.sagemaker.describe_pipeline(PipelineName="Pipe")
    assert {name: shown[name] for name in more} == more
    assert shown["ParallelismConfiguration"] == {"MaxParallelExecutionSteps": 3}
    given = {"PipelineExecutionDisplayName": "run", "PipelineExecutionDescription": "why"}
    arn = start(world, **given, MlflowExperimentName="m")
    described = world.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)
    assert {name: described[name] for name in given} == given
    assert described["ParallelismConfiguration"] == {"MaxParallelExecutionSteps": 3}
    changed = {**given, "PipelineExecutionDescription": "because"}
    world.sagemaker.update_pipeline_execution(
        PipelineExecutionArn=arn, **changed, ParallelismConfiguration={"MaxParallelExecutionSteps": 1}
    )
    described = world.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)
    assert {name: described[name] for name in given} == changed
    assert described["ParallelismConfiguration"] == {"MaxParallelExecutionSteps": 1}
    world.sagemaker.update_pipeline(PipelineName="Pipe", PipelineDescription="now", RoleArn=f"{ROLE}2")
    shown = world.sagemaker.describe_pipeline(PipelineName="Pipe")
    assert (shown["PipelineDescription"], shown["RoleArn"]) == ("now", f"{ROLE}2")


def test_a_definition_from_s3(world: ApiWorld) -> None:
    world.objects.put("texts", "definition.json", definition(fail("end", "x")).encode())
    given = {"PipelineName": "Pipe", "RoleArn": ROLE, "ClientRequestToken": "t" * 32}
    where = {"Bucket": "texts", "ObjectKey": "definition.json"}
    call = world.sagemaker.create_pipeline
    for place, says in (
        ({**where, "ObjectKey": "none"}, "does not exist"),
        ({**where, "VersionId": "1"}, "keep one version"),
    ):
        code, text = refused(call, PipelineDefinitionS3Location=place, **given)
        assert (code, says in text) == ("ValidationException", True)
    call(PipelineDefinitionS3Location=where, **given)
    text = world.sagemaker.describe_pipeline(PipelineName="Pipe")["PipelineDefinition"]
    assert json.loads(text)["Steps"][0]["Name"] == "end"
    world.objects.put("texts", "definition.json", definition(fail("other", "x")).encode())
    update = world.sagemaker.update_pipeline(PipelineName="Pipe", PipelineDefinitionS3Location=where)
    assert update["PipelineVersionId"] == 2
    code, text = refused(start, world=world, RoleArn=ROLE)
    assert (code, "RoleArn" in text) == ("ValidationException", True)


def test_versions_of_a_pipeline(world: ApiWorld) -> None:
    create(world, definition(fail("one", "1")))
    code, text = refused(create, world=world, text=definition(fail("one", "1")), name="PIPE")
    assert (code, "already exists" in text) == ("ValidationException", True)
    update = world.sagemaker.update_pipeline(PipelineName="Pipe", PipelineDefinition=definition(fail("two", "2")))
    assert update["PipelineVersionId"] == 2
    first = world.sagemaker.describe_pipeline(PipelineName="Pipe", PipelineVersionId=1)
    assert json.loads(first["PipelineDefinition"])["Steps"][0]["Name"] == "one"
    shown = world.sagemaker.describe_pipeline(PipelineName="Pipe")
    assert json.loads(shown["PipelineDefinition"])["Steps"][0]["Name"] == "two"
    assert (shown["PipelineStatus"], shown["PipelineName"]) == ("Active", "Pipe")
    arn = start(world, PipelineVersionId=1)
    until(lambda: status(world, arn) == "Failed")
    assert [*steps(world, arn)] == ["one"]
    kept = world.sagemaker.describe_pipeline_definition_for_execution(PipelineExecutionArn=arn)
    assert json.loads(kept["PipelineDefinition"])["Steps"][0]["Name"] == "one"
    versions = world.sagemaker.list_pipeline_versions(PipelineName="Pipe")["PipelineVersionSummaries"]
    assert [one["PipelineVersionId"] for one in versions] == [2, 1]
    (summary,) = world.sagemaker.list_pipelines()["PipelineSummaries"]
    assert summary["LastExecutionTime"] == shown.get("LastRunTime", summary["LastExecutionTime"])
    world.sagemaker.delete_pipeline(PipelineName="Pipe", ClientRequestToken="d" * 32)
    assert refused(world.sagemaker.describe_pipeline, PipelineName="Pipe") == (
        "ResourceNotFound", f"Pipeline '{ARN}pipe' does not exist."
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        (json.dumps({"Version": "1", "Steps": []}), "Version must be 2020-12-01"),
        (definition(), "Steps must have a step"),
        (definition(train("a"), train("a")), "same name"),
        (definition(train("a", DependsOn=["b"]), train("b", DependsOn=["a"])), "wait for each other: a, b"),
        (definition(train("a", DependsOn=["x"])), "depends on the step x"),
        (definition(train("a", hyperparameters={"x": get("Parameters.P")})), "refers to P"),
        (definition(train("a", hyperparameters={"x": get("Nothing.P")})), "is not a reference"),
        (definition(step("a", "Transform")), "does not run here: sagelet runs no batch transform"),
        (definition(step("a", "EMR")), "EMR cluster"),
        (definition(step("a", "Wonder")), "unknown type Wonder"),
        (definition(condition("a", [], [])), "needs Conditions"),
        (definition(train("a"), parameters=[parameter("P", "Integer", "x")]), "DefaultValue of parameter P"),
    ],
)
def test_a_definition_that_cannot_run_is_refused_when_it_is_created(world: ApiWorld, text: str, says: str) -> None:
    code, message = refused(create, world=world, text=text)
    assert code == "ValidationException"
    assert message.startswith("Unable to parse pipeline definition. ")
    assert says in message


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "has no default value"),
        ({"N": "x", "S": "a"}, "must be of type Integer"),
        ({"N": "1", "S": "c"}, "must be one of a, b"),
        ({"N": "1", "S": "a", "T": "1"}, "has no parameter T"),
    ],
)
def test_parameters_are_checked_at_the_start(world: ApiWorld, given: dict[str, str], says: str) -> None:
    create(world, definition(train("a"), parameters=[parameter("N", "Integer"), parameter("S", EnumValues=["a", "b"])]))
    code, message = refused(start, world=world, parameters=given)
    assert (code, says in message) == ("ValidationException", True)


def test_a_step_whose_request_is_refused_fails_with_the_reason(world: ApiWorld) -> None:
    bad = train("bad")
    bad["Arguments"]["ResourceConfig"]["InstanceType"] = "ml.nonsense"
    create(world, definition(bad))
    arn = start(world)
    until(lambda: status(world, arn) == "Failed")
    assert "ml.nonsense" in steps(world, arn)["bad"]["FailureReason"]


def test_tags(world: ApiWorld) -> None:
    arn = create(world, definition(train("a")), Tags=[{"Key": "k", "Value": "v"}])["PipelineArn"]
    world.sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": "l", "Value": "w"}])
    world.sagemaker.delete_tags(ResourceArn=arn, TagKeys=["k"])
    assert world.sagemaker.list_tags(ResourceArn=arn)["Tags"] == [{"Key": "l", "Value": "w"}]


def test_events_say_how_an_execution_is(world: ApiWorld) -> None:
    sqs, events = world.client("sqs"), world.client("events")
    queue = sqs.create_queue(QueueName=f"e-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    rule = f"r-{uuid.uuid4().hex[:8]}"
    pattern = {"detail-type": ["SageMaker Model Building Pipeline Execution Status Change"]}
    events.put_rule(Name=rule, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=rule, Targets=[{"Id": "1", "Arn": arn}])
    create(world, definition(fail("end", "on purpose")))
    execution = start(world)
    found: list[Any] = []

    def both() -> bool:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
        found.extend(json.loads(one["Body"]) for one in answer.get("Messages", []))
        return len(found) == 2

    until(both)
    assert [one["detail"]["currentPipelineExecutionStatus"] for one in found] == ["Executing", "Failed"]
    assert found[1]["resources"] == [f"{ARN}pipe", execution]


def test_a_processing_step_and_what_it_wrote(world: ApiWorld) -> None:
    outputs = [result("evaluation", "s3://b/evaluation", "/opt/ml/processing/evaluation")]
    body = processing_request("x", ProcessingOutputConfig={"Outputs": outputs})
    del body["ProcessingJobName"]
    files = [{"PropertyFileName": "Report", "OutputName": "evaluation", "FilePath": "report.json"}]
    evaluate = step("evaluate", "Processing", body, PropertyFiles=files)
    good = compare("LessThan", json_get("evaluate", "Report", "metrics.mse['value']"), 6.0)
    uri = get("Steps.evaluate.ProcessingOutputConfig.Outputs['evaluation'].S3Output.S3Uri")
    check = condition("check", [good], [fail("low", join(":", "mse is low", uri))])
    create(world, definition(evaluate, check))
    arn = start(world)
    name = until(
        lambda: [one["ProcessingJobName"] for one in world.sagemaker.list_processing_jobs()["ProcessingJobSummaries"]]
    )[0]
    world.objects.put("b", "evaluation/report.json", json.dumps({"metrics": {"mse": {"value": 4.5}}}).encode())
    host = until(lambda: [*world.runtime.hosts.values()])[0]
    host.end(0)
    until(lambda: status(world, arn) == "Failed")
    found = steps(world, arn)
    assert found["evaluate"]["Metadata"]["ProcessingJob"]["Arn"].endswith(f"processing-job/{name}")
    assert found["low"]["Metadata"] == {"Fail": {"ErrorMessage": "mse is low:s3://b/evaluation"}}


def test_the_steps_of_no_execution_are_refused(world: ApiWorld) -> None:
    """botocore's model does not require the execution that every call of the operation is about."""
    status, answer = world.post("ListPipelineExecutionSteps", {})
    assert status == 400
    assert "Value null at 'pipelineExecutionArn' failed to satisfy constraint" in answer["message"]


def test_a_parameter_that_is_given_twice_is_refused(world: ApiWorld) -> None:
    create(world, definition(fail("Ends", "over"), parameters=[parameter("S", default="x")]))
    twice = [{"Name": "S", "Value": "a"}, {"Name": "S", "Value": "b"}]
    code, text = refused(
        world.sagemaker.start_pipeline_execution,
        PipelineName="Pipe", ClientRequestToken="s" * 32, PipelineParameters=twice,
    )[:2]  # fmt: skip
    assert (code, "Parameter S is given twice" in text) == ("ValidationException", True)


def test_a_fail_step_without_a_message_has_no_reason(world: ApiWorld) -> None:
    create(world, definition(step("Ends", "Fail", {})))
    arn = start(world)
    until(lambda: status(world, arn) == "Failed")
    shown = steps(world, arn)["Ends"]
    assert (shown["StepStatus"], "FailureReason" in shown) == ("Failed", False)


# --- experiments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("default", [True, False], ids=["default", "custom"])
def test_an_execution_is_a_trial_of_its_experiment(world: ApiWorld, default: bool) -> None:
    """What SDK v2's test_experiment.py asserts. The SDK writes the default as an expression, too."""
    name = f"exp-{uuid.uuid4().hex[:8]}"
    execution_id = get("Execution.PipelineExecutionId")
    config = {
        "ExperimentName": get("Execution.PipelineName") if default else name,
        "TrialName": execution_id if default else join("-", "my-trial", execution_id),
    }
    text = json.loads(definition(train("a", DependsOn=[]), fail("end", "x", DependsOn=["a"])))
    create(world, json.dumps({**text, "PipelineExperimentConfig": config}))
    sagemaker = world.sagemaker
    executions = [start(world), start(world)]
    for arn in executions:
        job = end(world, arn, "a")
        until(lambda arn=arn: status(world, arn) == "Failed")
        trial = arn.rpartition("/")[2] if default else f"my-trial-{arn.rpartition('/')[2]}"
        (component,) = sagemaker.list_trial_components(TrialName=trial)["TrialComponentSummaries"]
        assert component["TrialComponentName"] == f"{job.lower()}-aws-training-job"
        described = sagemaker.describe_trial_component(TrialComponentName=component["TrialComponentName"])
        assert described["DisplayName"] == "a"
        experiment = "Pipe" if default else name
        assert sagemaker.describe_trial(TrialName=trial)["ExperimentName"] == experiment
        shown = sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)["PipelineExperimentConfig"]
        assert shown == {"ExperimentName": experiment, "TrialName": trial}
    assert sagemaker.describe_experiment(ExperimentName="Pipe" if default else name)["ExperimentArn"]


def test_a_definition_without_an_experiment_has_none_and_a_refused_one_stops_nothing(world: ApiWorld) -> None:
    create(world, definition(fail("end", "x")))
    arn = start(world)
    until(lambda: status(world, arn) == "Failed")
    assert "PipelineExperimentConfig" not in world.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)
    with pytest.raises(ClientError, match="does not exist"):
        world.sagemaker.describe_experiment(ExperimentName=f"none-{uuid.uuid4().hex}")
    text = {**json.loads(definition(train("a"))), "PipelineExperimentConfig": {"ExperimentName": "bad name!"}}
    create(world, json.dumps(text), PipelineName="Other")
    other = start(world, "Other")
    end(world, other, "a")
    until(lambda: status(world, other) == "Succeeded")


def test_who_made_an_execution_and_its_role_are_shown(world: ApiWorld) -> None:
    create(world, definition(fail("end", "x")))
    arn = start(world)
    shown = world.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)
    caller = world.client("sts").get_caller_identity()["Arn"]
    assert shown["RoleArn"] == ROLE
    assert shown["CreatedBy"] == shown["LastModifiedBy"] == {"IamIdentity": {"Arn": caller}}
    pipeline = world.sagemaker.describe_pipeline(PipelineName="Pipe")
    assert pipeline["CreatedBy"] == pipeline["LastModifiedBy"] == {"IamIdentity": {"Arn": caller}}
