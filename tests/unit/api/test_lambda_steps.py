"""Lambda steps through boto3: moto keeps the functions, and a host of the fake runtime stands in for the process."""

import errno
import io
import json
import threading
import uuid
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.functions import package
from sagelet_engine.orchestration import orchestrator
from sagelet_engine.store.orchestrations import Kept
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.fakes import FakeHost
from support.pipelines import ROLE, definition, get, step, train
from support.world import until

OUTPUTS = [{"OutputName": "n", "OutputType": "Integer"}]
AGAIN = [{"ExceptionType": ["Step.SERVICE_FAULT"], "IntervalSeconds": 60, "MaxAttempts": 1}]


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def zipped() -> bytes:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("f.py", "def h(event, context): return event")
    return code.getvalue()


def make(world: ApiWorld, code: dict[str, Any] | None = None, **changes: Any) -> str:
    """Creates a function with a role that IAM does not have. Returns its ARN."""
    given = {
        "FunctionName": f"f-{uuid.uuid4().hex[:8]}",
        "Runtime": "python3.11",
        "Role": "arn:aws:iam::123456789012:role/nowhere",
        "Handler": "f.h",
        "Timeout": 900,
        "Code": code or {"ZipFile": zipped()},
        **changes,
    }
    return str(world.client("lambda").create_function(**given)["FunctionArn"])


def begin(world: ApiWorld, *steps: dict[str, Any]) -> str:
    world.sagemaker.create_pipeline(
        PipelineName="Pipe", PipelineDefinition=definition(*steps), RoleArn=ROLE, ClientRequestToken="t" * 32
    )
    return start(world)


def start(world: ApiWorld) -> str:
    return str(
        world.sagemaker.start_pipeline_execution(PipelineName="Pipe", ClientRequestToken=uuid.uuid4().hex)[
            "PipelineExecutionArn"
        ]
    )


def call(name: str, arn: Any, **more: Any) -> dict[str, Any]:
    return step(name, "Lambda", more.pop("Arguments", {}), FunctionArn=arn, **more)


def status(world: ApiWorld, arn: str) -> str:
    return str(world.sagemaker.describe_pipeline_execution(PipelineExecutionArn=arn)["PipelineExecutionStatus"])


def steps(world: ApiWorld, arn: str) -> dict[str, dict[str, Any]]:
    listed = world.sagemaker.list_pipeline_execution_steps(PipelineExecutionArn=arn)["PipelineExecutionSteps"]
    return {one["StepName"]: one for one in listed}


def host(world: ApiWorld, number: int = 0) -> FakeHost:
    """Waits for the process of a function."""

    def found() -> list[FakeHost]:
        return [one for ref, one in [*world.runtime.hosts.items()] if ref.startswith("function-")][number:]

    return until(found)[0]


def answer(one: FakeHost, exit_code: int = 0, **members: Any) -> None:
    """Ends a function as its process does."""
    (one.plan.hosts[0].opt_ml / "output" / "answer.json").write_text(json.dumps(members))
    one.end(exit_code)


def test_outputs_are_properties_of_later_steps(world: ApiWorld) -> None:
    arn = make(world, Environment={"Variables": {"WHO": "me"}})
    use = train("use", hyperparameters={"n": get("Steps.ask.OutputParameters['n']")})
    execution = begin(world, call("ask", arn, Arguments={"a": {"b": 1}}, OutputParameters=OUTPUTS), use)
    one = host(world)
    assert json.loads((one.plan.hosts[0].opt_ml / "input" / "event.json").read_text()) == {"a": {"b": 1}}
    assert one.plan.environment["WHO"] == "me"
    assert one.plan.environment["AWS_LAMBDA_FUNCTION_NAME"] in arn
    one.say("a line")
    answer(one, payload='{"n": 3, "more": 1}')
    found = until(lambda: steps(world, execution)["ask"]["StepStatus"] == "Succeeded" and steps(world, execution))
    assert found["ask"]["Metadata"] == {"Lambda": {"Arn": arn, "OutputParameters": [{"Name": "n", "Value": "3"}]}}
    # moto leaves out lines as old as those of this world's clock.
    group = one.plan.environment["AWS_LAMBDA_LOG_GROUP_NAME"]
    assert world.client("logs").describe_log_streams(logGroupName=group)["logStreams"]
    (job,) = until(lambda: world.sagemaker.list_training_jobs()["TrainingJobSummaries"])
    shown = world.sagemaker.describe_training_job(TrainingJobName=job["TrainingJobName"])
    assert shown["HyperParameters"]["n"] == "3"
    # Nothing is left.
    until(lambda: not [*(world.settings.data / "functions").iterdir()])
    assert [one for one in world.runtime.hosts if one.startswith("function-")] == []


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"payload": "{}"}, "ended, but it returned no n, which OutputParameters names"),
        ({"payload": '{"n": "3"}'}, 'ended, but n must be of type Integer, and it returned "3"'),
        ({"error": "ValueError", "message": "no"}, "failed: ValueError: no"),
        ({"timed_out": True}, "timed out"),
        ({}, "failed: Runtime.ExitError: Runtime exited with error: exit status 1"),
    ],
)
def test_a_failure_says_why(world: ApiWorld, members: dict[str, Any], reason: str) -> None:
    arn = make(world)
    execution = begin(world, call("ask", arn, OutputParameters=OUTPUTS, RetryPolicies=AGAIN))
    answer(host(world), 0 if "payload" in members else 1, **members)
    until(lambda: status(world, execution) == "Failed")
    assert steps(world, execution)["ask"]["FailureReason"] == f"The function {arn.rpartition(':')[2]} {reason}"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"Runtime": "nodejs20.x"}, "has nodejs20.x; functions in Python run here"),
        ({"FunctionName": "none", "missing": True}, "Function not found"),
    ],
)
def test_what_cannot_run_is_refused_by_name(world: ApiWorld, changes: dict[str, Any], reason: str) -> None:
    missing = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{uuid.uuid4().hex}"
    arn = missing if changes.pop("missing", False) else make(world, **changes)
    execution = begin(world, call("ask", arn))
    until(lambda: status(world, execution) == "Failed")
    assert reason in steps(world, execution)["ask"]["FailureReason"]


def test_a_lost_process_is_retried_by_the_policy(world: ApiWorld) -> None:
    execution = begin(world, call("ask", make(world), RetryPolicies=AGAIN))
    for _ in range(3):
        lost = host(world)
        del world.runtime.hosts[lost.handle.ref]
        lost.end(1)
        until(lambda lost=lost: host(world) is not lost)
    # Hosts that vanish are launched again; this one says that it was lost.
    answer(host(world), payload="{}")
    until(lambda: status(world, execution) == "Succeeded")
    assert steps(world, execution)["ask"]["AttemptCount"] == 1


@pytest.mark.parametrize(("members", "expected"), [({"payload": "1"}, "Stopped"), ({"timed_out": True}, "Failed")])
def test_a_stop_waits_for_the_function(world: ApiWorld, members: dict[str, Any], expected: str) -> None:
    """By the API reference of StopPipelineExecution."""
    execution = begin(world, call("ask", make(world)), train("later", DependsOn=["ask"]))
    one = host(world)
    world.sagemaker.stop_pipeline_execution(PipelineExecutionArn=execution, ClientRequestToken="s" * 32)
    until(lambda: steps(world, execution)["ask"]["StepStatus"] == "Stopping")
    assert (status(world, execution), one.signals) == ("Stopping", [])
    answer(one, **members)
    until(lambda: status(world, execution) == expected)
    assert steps(world, execution).keys() == {"ask"}


def test_a_restart_finds_the_function(world: ApiWorld) -> None:
    execution = begin(world, call("ask", make(world), OutputParameters=OUTPUTS))
    one = host(world)
    until(lambda: steps(world, execution)["ask"]["StepStatus"] == "Executing")
    key = one.plan.job_id
    world.restart()
    assert host(world) is one
    answer(one, payload='{"n": 1}')
    until(lambda: not world.engine.orchestrator.drives_any)
    assert world.runtime.launches[key] == 1


def test_a_cache_hit_needs_the_same_function(world: ApiWorld) -> None:
    arn = make(world)
    cached = {"CacheConfig": {"Enabled": True, "ExpireAfter": "P1D"}, "OutputParameters": OUTPUTS}
    first = begin(world, call("ask", arn, **cached))
    answer(host(world), payload='{"n": 7}')
    until(lambda: status(world, first) == "Succeeded")
    second = start(world)
    until(lambda: status(world, second) == "Succeeded")
    found = steps(world, second)["ask"]
    assert found["CacheHitResult"]["SourcePipelineExecutionArn"] == first
    assert found["Metadata"]["Lambda"]["OutputParameters"] == [{"Name": "n", "Value": "7"}]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "needs FunctionArn"),
        ({"FunctionArn": ["a"]}, "FunctionArn must be a text"),
        ({"FunctionArn": "a", "OutputParameters": [{"OutputName": "a", "OutputType": "List"}]}, "OutputType of each"),
        ({"FunctionArn": "a", "OutputParameters": [{"OutputType": "String"}]}, "needs OutputName"),
    ],
)
def test_a_definition_that_cannot_run_is_refused(world: ApiWorld, given: dict[str, Any], why: str) -> None:
    with pytest.raises(ClientError, match=why):
        begin(world, step("ask", "Lambda", {}, **given))


def test_invoke_runs_the_function_of_an_object_in_s3(world: ApiWorld) -> None:
    world.objects.put("code", "f.zip", zipped())
    functions = world.client("lambda")
    arn = make(world, {"S3Bucket": "code", "S3Key": "f.zip"})
    results: list[Any] = []
    caller = threading.Thread(
        target=lambda: results.append(functions.invoke(FunctionName=arn, Payload=json.dumps({"a": 1})))
    )
    caller.start()
    one = host(world)
    assert (one.plan.hosts[0].opt_ml / "task" / "f.py").exists()
    assert json.loads((one.plan.hosts[0].opt_ml / "input" / "event.json").read_text()) == {"a": 1}
    answer(one, 1, error="ValueError", message="no", stack=["  File f.py"])
    caller.join(60)
    (result,) = results
    assert (result["FunctionError"], result["ExecutedVersion"]) == ("Unhandled", "$LATEST")
    assert json.loads(result["Payload"].read()) == {
        "errorMessage": "no",
        "errorType": "ValueError",
        "requestId": result["ResponseMetadata"]["RequestId"],
        "stackTrace": ["  File f.py"],
    }
    assert functions.invoke(FunctionName=arn, InvocationType="DryRun")["StatusCode"] == 204
    with pytest.raises(ClientError, match="Function not found"):
        functions.invoke(FunctionName="nobody")
    with pytest.raises(ClientError, match="NoSuchKey"):
        make(world, {"S3Bucket": "code", "S3Key": "none"})


def test_health_counts_executions(world: ApiWorld) -> None:
    assert world.engine.health()["executions"] == {}
    execution = begin(world, call("ask", make(world)))
    answer(host(world), payload="1")
    until(lambda: status(world, execution) == "Succeeded")
    assert world.engine.health()["executions"] == {"Succeeded": 1}


def test_a_stop_waits_for_a_callback(world: ApiWorld) -> None:
    sqs = world.client("sqs")
    queue = sqs.create_queue(QueueName=f"q-{uuid.uuid4().hex[:8]}")["QueueUrl"]
    execution = begin(world, step("ask", "Callback", {"a": "b"}, SqsQueueUrl=queue), train("later", DependsOn=["ask"]))
    until(lambda: steps(world, execution).get("ask", {}).get("StepStatus") == "Executing")
    world.sagemaker.stop_pipeline_execution(PipelineExecutionArn=execution, ClientRequestToken="s" * 32)
    bodies: list[dict[str, Any]] = []

    def told() -> bool:
        messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        bodies.extend(json.loads(one["Body"]) for one in messages)
        return len(bodies) >= 2

    until(told)
    assert [one["status"] for one in bodies] == ["Executing", "Stopping"]
    assert bodies[0]["token"] == bodies[1]["token"]
    assert status(world, execution) == "Stopping"
    world.sagemaker.send_pipeline_execution_step_success(CallbackToken=bodies[0]["token"], ClientRequestToken="c" * 32)
    until(lambda: status(world, execution) == "Stopped")
    assert {name: one["StepStatus"] for name, one in steps(world, execution).items()} == {"ask": "Succeeded"}


@pytest.mark.parametrize("where", ["unpack", "update"])
def test_a_full_disk_is_one_line_at_a_time_and_the_step_runs_later(
    world: ApiWorld, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    """Either the files of a function cannot be written, or the record of the execution."""
    arn, left = make(world), [3]
    monkeypatch.setattr(orchestrator, "RETRY_SECONDS", 0.05)

    def full(error: Exception, real: Callable[..., Any]) -> Callable[..., Any]:
        def tried(*given: Any, **named: Any) -> Any:
            if left[0]:
                left[0] -= 1
                raise error
            return real(*given, **named)

        return tried

    if where == "unpack":
        error: Exception = OSError(errno.ENOSPC, "No space left on device")
        monkeypatch.setattr(package, "unpack", full(error, package.unpack))
    else:
        error = StoreUnavailable("the disk of the data directory is full")
        monkeypatch.setattr(Kept, "update", full(error, Kept.update))
    execution = begin(world, call("ask", arn))
    answer(host(world), payload="1")
    until(lambda: status(world, execution) == "Succeeded")
    said = [one for one in caplog.records if "goes on later" in one.message]
    assert len(said) == 3
    assert all(one.exc_info is None or one.exc_info is False for one in said)
    assert steps(world, execution)["ask"]["AttemptCount"] == 1
    assert [one.name for one in (world.settings.data / "functions").iterdir() if one.name.startswith(".")] == []
