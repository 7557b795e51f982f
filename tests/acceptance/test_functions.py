"""Lambda's Invoke as AWS answers it, with functions that run for real on both runtimes."""

import base64
import io
import json
import uuid
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.on_runtimes import by_processes
from support.server import ROLE, SageletProcess, until

MODULE = """
import ctypes, os, sys, time

def echo(event, context):
    print("hello", event)
    return {"event": event, "request": context.aws_request_id}

def prints(event, context):
    for number in range(event["lines"]):
        print(f"line {number:05}")

def raises(event, context):
    inner(event)

def inner(event):
    raise ValueError(f"no {event['what']} here")

def leaves(event, context):
    sys.exit(event["code"])

def crashes(event, context):
    ctypes.string_at(0)

def hangs(event, context):
    print("begun", flush=True)
    time.sleep(600)

def returns_a_set(event, context):
    return {1}

def puts(event, context):
    import boto3
    boto3.client("s3").put_object(Bucket=event["bucket"], Key=event["key"], Body=b"put")
"""
RAISED = """raise ValueError(f"no {event['what']} here")"""


@pytest.fixture
def functions(server: SageletProcess) -> Any:
    return server.client("lambda")


@pytest.fixture
def make(functions: Any) -> Callable[..., str]:
    def made(handler: str, **changes: Any) -> str:
        name = f"f-{uuid.uuid4().hex[:8]}"
        code = io.BytesIO()
        with zipfile.ZipFile(code, "w") as archive:
            archive.writestr("f.py", MODULE)
            archive.writestr("needs.py", "import not_there")
            archive.writestr("wrong.py", "def h(:")
        functions.create_function(
            FunctionName=name,
            Role=ROLE,
            Code={"ZipFile": code.getvalue()},
            **{"Runtime": "python3.11", "Handler": handler, "Timeout": 30, **changes},
        )
        return name

    return made


def invoke(functions: Any, name: str, event: Any = None, **asked: Any) -> tuple[dict[str, Any], Any]:
    """Returns the answer and its payload."""
    answer = functions.invoke(FunctionName=name, Payload=json.dumps(event), **asked)
    payload = answer["Payload"].read()
    return answer, json.loads(payload) if payload else None


def test_an_answer_with_its_log(server: SageletProcess, functions: Any, make: Callable[..., str]) -> None:
    name = make("f.echo")
    answer, payload = invoke(functions, name, {"a": 1}, LogType="Tail")
    request = answer["ResponseMetadata"]["RequestId"]
    assert payload == {"event": {"a": 1}, "request": request}
    assert (answer["StatusCode"], answer["ExecutedVersion"]) == (200, "$LATEST")
    assert "FunctionError" not in answer
    first, *rest, last, report = base64.b64decode(answer["LogResult"]).decode().splitlines()
    assert first == f"START RequestId: {request} Version: $LATEST"
    assert rest == ["hello {'a': 1}"]
    assert last == f"END RequestId: {request}"
    [whole] = server.client("logs").describe_log_streams(logGroupName=f"/aws/lambda/{name}")["logStreams"]
    events = server.client("logs").get_log_events(
        logGroupName=f"/aws/lambda/{name}", logStreamName=whole["logStreamName"], startFromHead=True
    )["events"]
    assert [event["message"] for event in events] == [first, *rest, last, report]
    fields = dict(field.split(": ") for field in report.removeprefix("REPORT ").split("\t"))
    assert fields["RequestId"] == request
    assert fields["Memory Size"] == "128 MB"
    assert 0 < float(fields["Duration"].split()[0]) <= float(fields["Billed Duration"].split()[0])
    assert int(fields["Max Memory Used"].split()[0]) > 0


@by_processes
def test_the_log_s_last_4_kib_and_only_if_asked_for(functions: Any, make: Callable[..., str]) -> None:
    name = make("f.prints")
    answer, payload = invoke(functions, name, {"lines": 1000}, LogType="Tail")
    tail = base64.b64decode(answer["LogResult"]).decode()
    assert (payload, len(tail)) == (None, 4096)
    assert "line 00999\nEND RequestId" in tail
    assert "line 00000" not in tail
    assert "LogResult" not in invoke(functions, name, {"lines": 1})[0]


def test_an_exception_has_a_stack_trace(functions: Any, make: Callable[..., str]) -> None:
    answer, payload = invoke(functions, make("f.raises"), {"what": "word"}, LogType="Tail")
    assert (answer["StatusCode"], answer["FunctionError"]) == (200, "Unhandled")
    stack = payload.pop("stackTrace")
    assert payload == {
        "errorMessage": "no word here",
        "errorType": "ValueError",
        "requestId": answer["ResponseMetadata"]["RequestId"],
    }
    assert [frame.splitlines()[1].strip() for frame in stack] == ["inner(event)", RAISED]
    assert ["in raises" in stack[0], "in inner" in stack[1]] == [True, True]
    log = base64.b64decode(answer["LogResult"]).decode()
    assert "[ERROR] ValueError: no word here\nTraceback (most recent call last):\n" in log


@by_processes
@pytest.mark.parametrize(
    ("handler", "error", "message"),
    [
        ("needs.h", "Runtime.ImportModuleError", "Unable to import module 'needs': No module named 'not_there'"),
        ("nobody.h", "Runtime.ImportModuleError", "Unable to import module 'nobody': No module named 'nobody'"),
        ("f.nothing", "Runtime.HandlerNotFound", "Handler 'nothing' missing on module 'f'"),
        ("wrong.h", "Runtime.UserCodeSyntaxError", "Syntax error in module 'wrong': "),
        ("f.returns_a_set", "Runtime.MarshalError", "Unable to marshal response: Object of type set is not JSON "),
    ],
)
def test_what_the_runtime_reports(
    functions: Any, make: Callable[..., str], handler: str, error: str, message: str
) -> None:
    answer, payload = invoke(functions, make(handler))
    assert answer["FunctionError"] == "Unhandled"
    assert payload["errorType"] == error
    assert payload["errorMessage"].startswith(message)
    assert payload["requestId"] == answer["ResponseMetadata"]["RequestId"]
    assert len(payload["stackTrace"]) == (1 if handler == "wrong.h" else 0)


@pytest.mark.parametrize(
    ("handler", "event", "said"),
    [
        ("f.leaves", {"code": 3}, "Runtime exited with error: exit status 3"),
        ("f.leaves", {"code": 0}, "Runtime exited without providing a reason"),
        ("f.crashes", {}, "Runtime exited with error: signal: segmentation fault"),
    ],
)
def test_a_process_that_ends(
    functions: Any, make: Callable[..., str], handler: str, event: dict[str, Any], said: str
) -> None:
    answer, payload = invoke(functions, make(handler), event, LogType="Tail")
    request = answer["ResponseMetadata"]["RequestId"]
    assert answer["FunctionError"] == "Unhandled"
    assert payload == {"errorType": "Runtime.ExitError", "errorMessage": f"RequestId: {request} Error: {said}"}
    log = base64.b64decode(answer["LogResult"]).decode()
    assert log.endswith("\tStatus: error\tError Type: Runtime.ExitError\n")


def test_a_function_whose_time_is_over(functions: Any, make: Callable[..., str]) -> None:
    answer, payload = invoke(functions, make("f.hangs", Timeout=1), LogType="Tail")
    request = answer["ResponseMetadata"]["RequestId"]
    said = "Task timed out after 1.00 seconds"
    assert answer["FunctionError"] == "Unhandled"
    assert payload == {"errorType": "Sandbox.Timedout", "errorMessage": f"RequestId: {request} Error: {said}"}
    log = base64.b64decode(answer["LogResult"]).decode()
    assert "begun\n" in log
    assert f"{request} {said}\nEND RequestId: {request}\nREPORT " in log
    assert "Duration: 1000.00 ms\tBilled Duration: 1000 ms\t" in log


@by_processes
def test_a_call_that_does_not_wait(server: SageletProcess, functions: Any, make: Callable[..., str]) -> None:
    s3, bucket = server.client("s3"), f"later-{uuid.uuid4().hex[:8]}"
    s3.create_bucket(Bucket=bucket)
    answer, payload = invoke(
        functions, make("f.puts"), {"bucket": bucket, "key": "k"}, InvocationType="Event", LogType="Tail"
    )
    assert (answer["StatusCode"], payload) == (202, None)
    assert answer.keys().isdisjoint({"LogResult", "ExecutedVersion", "FunctionError"})
    until(lambda: "Contents" in s3.list_objects_v2(Bucket=bucket))


@by_processes
def test_a_dry_run_and_what_is_refused(functions: Any, make: Callable[..., str]) -> None:
    name = make("f.hangs")
    answer, payload = invoke(functions, name, InvocationType="DryRun")
    assert (answer["StatusCode"], payload) == (204, None)
    for kind in ("RequestResponse", "Event", "DryRun"):
        with pytest.raises(ClientError, match="Function not found") as caught:
            invoke(functions, "nobody", InvocationType=kind)
        assert caught.value.response["Error"]["Code"] == "ResourceNotFoundException"
    for asked, member in (({"InvocationType": "Maybe"}, "invocationType"), ({"LogType": "All"}, "logType")):
        with pytest.raises(ClientError, match=f"at '{member}' failed to satisfy constraint"):
            invoke(functions, name, **asked)
    with pytest.raises(ClientError, match="Could not parse request body into json"):
        functions.invoke(FunctionName=name, Payload=b"{")
    with pytest.raises(ClientError, match="Request must be smaller than 1048576 bytes") as large:
        invoke(functions, name, "x" * 1_048_576, InvocationType="Event")
    assert large.value.response["Error"]["Code"] == "RequestTooLargeException"


@by_processes
def test_a_version_that_is_published(functions: Any, make: Callable[..., str]) -> None:
    name = make("f.echo")
    version = functions.publish_version(FunctionName=name)["Version"]
    answer, payload = invoke(functions, name, 1, Qualifier=version)
    assert (answer["ExecutedVersion"], payload["event"]) == (version, 1)
