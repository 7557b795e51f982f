"""moto in sagelet's process starts no container and connects to nothing, on any request."""

import ast
import importlib
import io
import re
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from types import ModuleType
from typing import Any

import pytest
from botocore.exceptions import ClientError

from sagelet_api.services.moto import confined
from sagelet_api.services.moto.confined import SENDERS
from support.canary import Canary
from support.server import ROLE, until

#: Of moto's own tests, or of those who use it without a server.
TOOLS = {"moto.core.authorization", "moto.core.models", "moto.core.custom_responses_mock"}
#: Only these files are worth a parser's time.
SUSPICIOUS = re.compile(rb"requests\.(get|post|put|request|Session)\b|\(requests,|urlopen|subprocess|urllib3|from_env")
MakeClient = Callable[..., Any]


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Canary]:
    made = Canary()
    monkeypatch.setenv("DOCKER_HOST", f"tcp://{made.place}")
    yield made
    made.close()


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(ClientError) as raised:
        call()
    return str(raised.value.response["Error"]["Message"])


def test_sns_sends_nothing_to_a_url(client: MakeClient, canary: Canary) -> None:
    sns = client("sns")
    topic = sns.create_topic(Name="to-a-url")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=f"http://{canary.place}/latest/meta-data")
    assert "sends nothing to URLs" in refusal(lambda: sns.publish(TopicArn=topic, Message="m"))
    assert canary.visits == 0


def test_firehose_sends_nothing_to_a_url(client: MakeClient, canary: Canary) -> None:
    firehose = client("firehose")
    firehose.create_delivery_stream(
        DeliveryStreamName="to-a-url",
        HttpEndpointDestinationConfiguration={
            "EndpointConfiguration": {"Url": f"http://{canary.place}/"},
            "S3Configuration": {"RoleARN": ROLE, "BucketARN": "arn:aws:s3:::b"},
        },
    )
    refusal(lambda: firehose.put_record(DeliveryStreamName="to-a-url", Record={"Data": b"x"}))
    assert canary.visits == 0


def test_eventbridge_sends_nothing_to_a_url(
    client: MakeClient, canary: Canary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API destinations, also with moto's own switch for them."""
    monkeypatch.setenv("MOTO_EVENTS_INVOKE_HTTP", "true")
    events = client("events")
    connection = events.create_connection(
        Name="c", AuthorizationType="BASIC", AuthParameters={"BasicAuthParameters": {"Username": "u", "Password": "p"}}
    )
    destination = events.create_api_destination(
        Name="d",
        ConnectionArn=connection["ConnectionArn"],
        InvocationEndpoint=f"http://{canary.place}/",
        HttpMethod="GET",
    )
    events.put_rule(Name="r", EventPattern='{"source": ["mine"]}')
    events.put_targets(Rule="r", Targets=[{"Id": "1", "Arn": destination["ApiDestinationArn"], "RoleArn": ROLE}])
    entry = {"Source": "mine", "DetailType": "t", "Detail": "{}"}
    assert "sends nothing to URLs" in refusal(lambda: events.put_events(Entries=[entry]))
    assert canary.visits == 0


def test_lambda_starts_no_container(client: MakeClient, canary: Canary) -> None:
    code = io.BytesIO()
    with zipfile.ZipFile(code, "w") as archive:
        archive.writestr("f.py", "def h(event, context): return 1")
    client("iam").create_role(RoleName="runs", AssumeRolePolicyDocument="{}")
    functions = client("lambda")
    functions.create_function(
        FunctionName="f",
        Runtime="python3.11",
        Role="arn:aws:iam::123456789012:role/runs",
        Handler="f.h",
        Code={"ZipFile": code.getvalue()},
    )
    # sagelet runs the others.
    assert "starts no container" in refusal(lambda: functions.invoke_async(FunctionName="f", InvokeArgs=b"{}"))
    assert canary.visits == 0


def test_batch_starts_no_container(client: MakeClient, canary: Canary) -> None:
    """moto would start this one privileged, with all of the machine in it."""
    batch = client("batch")
    definition = batch.register_job_definition(
        jobDefinitionName="definition",
        type="container",
        containerProperties={
            "image": "busybox",
            "vcpus": 1,
            "memory": 128,
            "command": ["sh", "-c", "touch /host/tmp/mine"],
            "privileged": True,
            "volumes": [{"name": "root", "host": {"sourcePath": "/"}}],
            "mountPoints": [{"containerPath": "/host", "sourceVolume": "root", "readOnly": False}],
        },
    )["jobDefinitionArn"]
    queue = _queue(client, batch)
    job = batch.submit_job(jobName="job", jobQueue=queue, jobDefinition=definition)["jobId"]
    until(lambda: batch.describe_jobs(jobs=[job])["jobs"][0]["status"] in ("FAILED", "SUCCEEDED"))
    assert batch.describe_jobs(jobs=[job])["jobs"][0]["status"] == "FAILED"
    assert canary.visits == 0


def _queue(client: MakeClient, batch: Any) -> str:
    role = client("iam").create_role(RoleName="batch", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    environment = batch.create_compute_environment(
        computeEnvironmentName="unmanaged", type="UNMANAGED", state="ENABLED", serviceRole=role
    )["computeEnvironmentArn"]
    order = [{"order": 1, "computeEnvironment": environment}]
    queue = batch.create_job_queue(jobQueueName="queue", state="ENABLED", priority=1, computeEnvironmentOrder=order)
    return str(queue["jobQueueArn"])


def test_nothing_else_of_moto_leaves() -> None:
    """A release of moto that sends or starts something new must not be taken without a look at it."""
    import moto

    root = Path(moto.__file__).parent
    found: dict[str, set[str]] = {}
    for file in root.rglob("*.py"):
        if file.parent.name == "moto_proxy":  # A program of its own.
            continue
        source = file.read_bytes()
        if not SUSPICIOUS.search(source):
            continue
        module = ".".join(("moto", *file.relative_to(root).with_suffix("").parts))
        for kind in _ways_out(ast.parse(source)):
            found.setdefault(kind, set()).add(module)
    assert found.get("requests", set()) - TOOLS == SENDERS
    assert found.get("from_env") == {"moto.utilities.docker_utilities"}
    assert found.keys() <= {"requests", "from_env"}


def _ways_out(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == "requests" and node.attr in ("get", "post", "put", "request", "Session"):
                yield "requests"
            elif node.attr in ("from_env", "urlopen"):
                yield node.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
            if isinstance(node.args[0], ast.Name) and node.args[0].id == "requests":
                yield "requests"
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            yield from names & {"subprocess", "urllib.request", "urllib3"}


@pytest.fixture
def sender(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package whose module `sender` is imported to its half, and stays there until `go` is set."""
    package = tmp_path / "gated"
    package.mkdir()
    (package / "__init__.py").write_text("import threading\nhalf, go = threading.Event(), threading.Event()\n")
    (package / "sender.py").write_text("import gated\ngated.half.set()\ngated.go.wait(120)\nimport requests\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if not isinstance(one, confined._Finder)])
    monkeypatch.setattr(confined, "_CHANGED", frozenset({"gated.sender"}))
    yield importlib.import_module("gated")
    for name in ("gated", "gated.sender"):
        sys.modules.pop(name, None)


def test_a_module_that_another_thread_imports_is_changed_once_it_is_whole(
    sender: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of its import would put the library back."""
    go: Event = sender.go
    real_change, real_import = confined._change, confined.import_module

    def change(module: ModuleType) -> None:
        real_change(module)
        go.set()

    def import_module(name: str) -> ModuleType:
        if name == "gated.sender":
            go.set()
        return real_import(name)

    monkeypatch.setattr(confined, "_change", change)
    monkeypatch.setattr(confined, "import_module", import_module)
    importing = Thread(target=lambda: importlib.import_module("gated.sender"), daemon=True)
    importing.start()
    assert sender.half.wait(120)
    confined.confine()
    importing.join(120)
    assert isinstance(sender.sender.requests, confined._Requests)


def test_what_failed_to_be_confined_is_confined_by_the_next_call(
    sender: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender.go.set()
    importlib.import_module("gated.sender")
    with monkeypatch.context() as patch:
        patch.setattr(confined, "_change", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            confined.confine()
    confined.confine()
    assert isinstance(sender.sender.requests, confined._Requests)
