"""Every operation, endpoint and page with inputs that grow: neither work nor answer grows faster.

Operations are those that sagelet serves (`OwnServices`, S3's routes, the paths of the control endpoints and the pages),
so a new one is walked as soon as it exists. Its input grows as botocore models it (`support/growing_bodies.py`).
"""

import gc
import json
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from sagelet_api import control, web
from sagelet_api.control.state import LIMITS
from sagelet_api.protocol.s3.request import routes, service_model
from sagelet_api.protocol.validation import rule_book
from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ACCOUNT, ApiWorld
from support.growing_bodies import DEEPEST, Bodies, as_json, deep, xml
from support.growth import Grown
from support.growth import faults as faults_of
from support.pipelines import definition, fail
from support.tuning import definition as trial
from support.tuning import tuning_request
from support.world import IMAGE, request

GROUP = "/aws/sagemaker/TrainingJobs"
#: Values that lead past the first check.
KNOWN: dict[str, Any] = {
    **request("a-job"),
    **{name: value for name, value in tuning_request("tune").items() if name.startswith("Hyper")},
    "ResourceArn": f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-job/a-job",
    "resourceArn": f"arn:aws:logs:us-east-1:{ACCOUNT}:log-group:{GROUP}",
    "TrainingImage": IMAGE,
    "ImageUri": IMAGE,
    "Resource": "TrainingJob",
    "logGroupName": GROUP,
    "logStreamName": "a-job/algo-1-1",
    "retentionInDays": 7,
    "TrialComponentName": "a-job-aws-training-job",
    "S3Uri": "s3://in/data",
    "TrainingJobDefinition": trial(),
    "PipelineName": "pipe",
    "PipelineDefinition": definition(fail("s", "x")),
    "ClientRequestToken": "t" * 32,
    "PipelineExecutionArn": f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:pipeline/pipe/execution/abcdefghijkl",
}
#: Those of them that a body has although its model does not require them.
OPTIONAL = ("PipelineDefinition", "PipelineExecutionArn", "logGroupName", "TrainingJobDefinition")
#: Bodies of operations that no model describes.
NO_MODEL = (
    Grown("unknown members", lambda units: {f"m{number}": 1 for number in range(units)}),
    Grown("nested", deep),
)
#: What sagelet answers where it failed. moto's failures are moto's.
FAILED = b"sagelet failed"
#: How many times as large the larger input is.
TIMES = 4
TARGETS = {"sagemaker": "SageMaker", "logs": "Logs_20140328"}
FORM = "application/x-www-form-urlencoded"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiWorld]:
    bridge = MotoBridge()
    # Jobs are made, and one of them runs: what runs beside the calls costs time.
    with ApiWorld(tmp_path_factory.mktemp("world"), bridge, max_jobs=1) as running:
        running.stream("a-job", ["loss=1", "a line"])
        for operation in ("CreatePipeline", "StartPipelineExecution"):
            body = Bodies(KNOWN, OPTIONAL).least(rule_book("sagemaker").input_shape(operation))
            status, answer = running.call(operation, body)
            assert status == 200, answer
        running.client("s3").create_bucket(Bucket="bucket")
        running.client("s3").put_object(Bucket="bucket", Key="key", Body=b"bytes")
        # moto's logs are loaded by the first operation that is moto's.
        running.ask("POST", "/", b"{}", service="logs", x_amz_target="Logs_20140328.DescribeQueries")
        # What is there now is not looked at again by the collections before each measurement.
        gc.freeze()
        yield running
        gc.unfreeze()
    bridge.process.forget()


def operations(world: ApiWorld) -> Iterator[tuple[str, str]]:
    for service, table in world.sagelet.own.tables.items():
        for operation in table:
            yield service, operation


# --- the walks --------------------------------------------------------------------------------------------------------


#: With inputs of some KB a call holds little.
faults = partial(faults_of, size=len, times=TIMES, free_held=1024**2)
#: Beginnings of the names of operations that take away what others need. They are walked last.
LAST = ("Delete", "Stop")


def call_of(world: ApiWorld, wrong: list[str], name: str, method: str = "POST", path: str = "/",
            **request: str) -> Callable[[bytes], bytes]:  # fmt: skip
    """Returns a call with a body. What sagelet fails at is wrong too."""

    def call(data: bytes) -> bytes:
        answer = world.ask(method, path, data, **request)[2]
        if FAILED in answer:
            wrong.append(f"{name}: sagelet failed")
        return answer

    return call


@pytest.mark.parametrize("service", sorted(TARGETS))
def test_every_operation_of_json(world: ApiWorld, service: str) -> None:
    book, bodies = rule_book(service), Bodies(KNOWN, OPTIONAL)
    wrong: list[str] = []
    own = sorted(
        (name for owner, name in operations(world) if owner == service), key=lambda name: name.startswith(LAST)
    )
    for operation in own:
        # A table also names operations of a service's other models, which sagelet refuses.
        shape = book.input_shape(operation) if operation in book.operations() else None
        call = call_of(world, wrong, operation, service=service, x_amz_target=f"{TARGETS[service]}.{operation}")
        for grown in bodies.grown(shape) if shape else NO_MODEL:
            wrong.extend(faults(as_json(grown, operation), call))
    assert wrong == []
    assert len(own) > 20


def test_every_operation_of_metrics(world: ApiWorld) -> None:
    wrong: list[str] = []
    for one in world.sagelet.own.rest:
        call = call_of(world, wrong, one.operation, one.method, one.path, service="sagemaker")
        for grown in Bodies(KNOWN, OPTIONAL).grown(rule_book(one.model).input_shape(one.operation)):
            wrong.extend(faults(as_json(grown, one.operation), call))
    assert wrong == []


def test_every_operation_of_forms(world: ApiWorld) -> None:
    wrong: list[str] = []
    walked = 0
    for service, operation in operations(world):
        if service in TARGETS:
            continue
        shape = rule_book(service).input_shape(operation)
        for name in ("Other", *(shape.members if shape else ())):
            for how, fields in FIELDS.items():

                def made(units: int, name: str = name, operation: str = operation, fields: Any = fields) -> bytes:
                    return urlencode([("Action", operation), *fields(name, units)]).encode()

                def call(data: bytes, service: str = service, operation: str = operation) -> bytes:
                    return call_of(world, wrong, operation, service=service, content_type=FORM)(data)

                wrong.extend(faults(Grown(f"{operation}: {name}, {how}", made), call))
                walked += 1
    assert wrong == []
    assert walked > 20


FIELDS: dict[str, Any] = {
    "letters": lambda name, units: [(name, "a" * units)],
    "JSON": lambda name, units: [(name, json.dumps({"Statement": [{}] * units}))],
    "items": lambda name, units: [(f"{name}.member.{number}.Key", "a") for number in range(1, units)],
    "fields": lambda name, units: [(f"{name}{number}", "a") for number in range(units)],
}


def documents(operation: str) -> Iterator[Grown]:
    """Yields documents of an operation of S3 that grow: of its own model, and of none."""
    yield Grown(f"{operation}: elements", lambda units: b"<A>" + b"<B a='1'>x</B>" * units + b"</A>")
    yield Grown(f"{operation}: nested", lambda units: b"<A>" * units + b"</A>" * units)
    shape = service_model().operation_model(operation).input_shape
    payload = shape.serialization.get("payload") if shape else None
    if payload is None:
        return
    body = shape.members[payload]
    if body.type_name == "structure":
        tag = body.serialization.get("name", body.name)
        yield Grown(f"{operation}: {tag}", lambda units: xml(body, tag, units).encode())
    else:
        policy = {"Version": "2012-10-17", "Statement": [{}]}
        yield Grown(f"{operation}: JSON", lambda units: json.dumps({**policy, "Statement": [{}] * units}).encode())


def test_every_operation_of_s3(world: ApiWorld) -> None:
    wrong: list[str] = []
    for route in (route for entries in routes().values() for route in entries):
        path = ("/", "/bucket", "/bucket/key")[route.depth]
        fixed = {name: value or "1" for name, value in route.query}
        headers = {name.replace("-", "_"): "a" for name in route.headers}

        def sent(query: dict[str, str], data: bytes = b"", path: str = path, route: Any = route,
                 headers: dict[str, str] = headers) -> bytes:  # fmt: skip
            encoded = urlencode(query, quote_via=quote)
            return call_of(world, wrong, route.operation, route.method, path, service="s3", query=encoded, **headers)(
                data
            )

        if route.method in ("PUT", "POST"):
            for grown in documents(route.operation):
                wrong.extend(faults(grown, partial(sent, fixed)))
        for name in (*(("prefix", "delimiter", "marker") if route.method == "GET" else ()), *fixed):

            def named(text: str, name: str = name, fixed: dict[str, str] = fixed, sent: Any = sent) -> bytes:
                answer: bytes = sent({**fixed, name: text})
                return answer

            grown = Grown(f"{route.operation}: query {name}", lambda units: "a/" * units)
            wrong.extend(faults(grown, named))
    assert wrong == []


@cache
def arguments(*packages: Any) -> list[str]:
    """Returns each name that a module of these packages reads of a request. Of none: pages and control endpoints."""
    names: set[str] = set()
    for file in (file for one in packages or (web, control) for file in Path(one.__file__).parent.glob("*.py")):
        names |= {*re.findall(r"\.get(?:list)?\(\s*\"(\w+)\"", file.read_text())}
    return sorted(names)


TEXTS: dict[str, Any] = {
    "folders": lambda units: "s3://bucket/" + "a/" * units,
    "words": lambda units: "loss>1,a " * units,
}
#: Pages that are streams without an end.
STREAMS = ("events",)


def page_paths(world: ApiWorld) -> Iterator[tuple[str, str]]:
    """Yields methods and paths of the pages and the control endpoints, with the name of a job in their places."""
    for app in (world.sagelet.pages, world.sagelet.control):
        for rule in app.flask().url_map.iter_rules():
            if rule.rule.rpartition("/")[2] in STREAMS or rule.endpoint == "static":
                continue
            path = re.sub(r"<any\((\w+)[^>]*>", r"\1", rule.rule)
            path = re.sub(r"<(?:\w+:)?(\w+)>", lambda found: "a-job" if found[1] == "name" else "1", path)
            for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
                yield method, path


def test_every_page_and_control_endpoint(world: ApiWorld) -> None:
    wrong: list[str] = []
    walked = set()
    for method, path in page_paths(world):

        def call(sent: str, method: str = method, path: str = path) -> bytes:
            headers = {"accept": "text/html,application/json", "authorization": "", "origin": "http://localhost"}
            kind = "application/json" if path.startswith("/_sagelet/") and "/ui" not in path else FORM
            data = sent.encode() if method != "GET" else b""
            query = sent if method == "GET" else ""
            name = f"{method} {path}"
            return call_of(world, wrong, name, method, path, query=query, content_type=kind, **headers)(data)

        for how, make in TEXTS.items():

            def made(units: int, make: Any = make) -> str:
                # The server takes 64 KiB of a request line.
                text = make(units // 8)
                return urlencode([(name, text) for name in arguments()])

            wrong.extend(faults(Grown(f"{method} {path}: {how}", made), call))
            walked.add(path)
    assert wrong == []
    assert len(walked) > 40


#: Values of a JSON body's member that grow.
MEMBERS: dict[str, Any] = {
    "letters": lambda units: "a" * units,
    # Python reads no number of more digits.
    "digits": lambda units: int("9" * min(units, 4000)),
    "items": lambda units: ["a"] * units,
    "members": lambda units: {f"m{number}": number for number in range(units)},
    "nested": lambda units: deep(min(units, DEEPEST)),
}
#: Members that lead a control endpoint past its first check.
CONTROL = {"scope": "all", "account": "999999999999", "dry_run": True, "status": 500}


def test_every_control_endpoint_with_json(world: ApiWorld) -> None:
    """Those of the data directory come with their proof.

    Each name that a control endpoint reads grows by itself, and those of all pages grow at once.
    """
    wrong: list[str] = []
    walked = set()
    alone = {(name,) for name in (*arguments(control), *LIMITS, "Other")}
    for method, path in sorted({*page_paths(world)}):
        if method == "GET" or path.startswith("/_sagelet/ui") or not path.startswith("/_sagelet/"):
            continue

        def call(data: bytes, method: str = method, path: str = path) -> bytes:
            (world.settings.data / PROVEN).touch()
            return call_of(world, wrong, f"{method} {path}", method, path, content_type="application/json")(data)

        for names in sorted({*alone, tuple(arguments())}):
            for how, make in MEMBERS.items():

                def made(units: int, names: tuple[str, ...] = names, make: Any = make) -> bytes:
                    value = make(max(1, units // len(names)))
                    return json.dumps({**CONTROL, "proof": PROVEN, **dict.fromkeys(names, value)}).encode()

                wrong.extend(faults(Grown(f"{method} {path}: {', '.join(names)}, {how}", made), call))
                walked.add(path)
    assert wrong == []
    assert {"/_sagelet/gc", "/_sagelet/reset", "/_sagelet/empty-account"} < walked
    assert world.resets != []


PROVEN = ".proof-" + "0" * 32


def test_the_arguments_of_pages_are_found() -> None:
    assert {"uri", "job", "q", "stream", "access_key", "request"} <= {*arguments()}


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(lambda data: sum(one == other for one in data for other in data), id="work"),
        pytest.param(lambda data: [b"x" * 100 for _ in data], id="answer"),
        pytest.param(lambda data: len([bytes(100_000) for _ in data]), id="memory"),
    ],
)
def test_growth_is_seen(call: Callable[[bytes], Any]) -> None:
    def answer(data: bytes) -> bytes:
        made = call(data)
        return b"".join(made) if isinstance(made, list) else b""

    assert [*faults(Grown("units", lambda units: b"a" * units), answer, patience=0)] != []
