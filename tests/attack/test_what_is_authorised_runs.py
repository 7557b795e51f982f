"""For every service and protocol: the operation that is authorised is the operation that runs.

The requests are what botocore writes for each operation of each service that moto or sagelet answers, as a caller with
limits sends them, and the same with another operation's name wherever some reader might look for one. Both ends are
watched: the point where the caller is asked for a permission, and the last line of the dispatcher (moto's, S3's, the
front's own) before the operation runs; it does not.
"""

import io
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import quote, unquote

import pytest

from sagelet_api.app import Application
from sagelet_api.auth.iam_actions import actions_of
from sagelet_api.auth.request_guard import RequestGuard
from sagelet_api.protocol.aws_errors import AwsError
from sagelet_api.protocol.calls import HEADERS, Call, Environ
from sagelet_api.protocol.operation_names import models_of, signing_name_of
from sagelet_api.protocol.operations import RestOperation
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.s3 import service
from sagelet_engine.base.concurrency import ConcurrencyLimit
from sagelet_engine.base.loading import Late
from sagelet_engine.model.principal import owner
from support.protocol_requests import TWO_NAMES, Sent, confused, protocols_of, service_model, written

ACCOUNT, REGION = "123456789012", "us-east-1"
#: Operations of each service that are tried with each trick.
TRICKED = 3
#: Services with sagelet's own tables of operations. Each of their operations has a handler here.
OWN = ("sagemaker", "logs", "sts", "iam")


class Ran(AwsError):
    """Instead of running: what would have."""

    status = 418


class Door(RequestGuard):
    """Lets everybody in as a caller whose permissions must be checked."""

    def __init__(self, asked: list[str]) -> None:
        super().__init__()
        self._asked = asked

    def admit(self, call: Call, environ: Environ) -> Call:
        return call._replace(principal=owner(call.account), permit=lambda action, _resource: self._asked.append(action))


class Watched:
    """An application whose both ends are watched."""

    def __init__(self, bridge: MotoBridge, *, own: bool) -> None:
        self.asked: list[str] = []
        self.ran: list[str] = []
        services = {name: {one: self._handler(one) for one in models_of(name)[0].operations} for name in OWN}
        rest = [
            RestOperation("sagemaker", "PUT", "/BatchPutMetrics", "sagemaker-metrics", "BatchPutMetrics",
                          self._handler("BatchPutMetrics")),
            RestOperation("sagemaker", "POST", "/BatchGetMetrics", "sagemaker-metrics", "BatchGetMetrics",
                          self._handler("BatchGetMetrics")),
        ]  # fmt: skip
        self._app = Application(
            Door(self.asked), lambda *_: [], {}, services if own else {}, bridge.requests.wsgi,
            protocols={"s3": Late(lambda: service.S3Service(Anything(), Anything()))} if own else {},
            rest=rest if own else (), routes=bridge.requests.route, pages=lambda *_: [], hub=lambda *_: None,
            computing=ConcurrencyLimit(1),
        )  # fmt: skip

    def _handler(self, name: str) -> Any:
        def handle(_context: Any, _parameters: Any) -> Any:
            self.ran.append(name)
            raise Ran(name)

        return handle

    def send(self, signing_name: str, sent: Sent) -> int:
        self.asked.clear()
        self.ran.clear()
        answered: list[Any] = []
        list(self._app(_environ(signing_name, sent), lambda *response: answered.append(response)))
        return int(answered[0][0].split()[0])


class Anything:
    """Stands where nothing is looked at."""

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self

    account, region, name = ACCOUNT, REGION, "bucket"


def _environ(signing_name: str, sent: Sent) -> Environ:
    scope = f"{ACCOUNT}/20260101/{REGION}/{signing_name}/aws4_request"
    signed = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
    headers = {"host": "localhost", **sent.headers, "authorization": signed}
    given = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()}
    return {
        "REQUEST_METHOD": sent.method,
        "PATH_INFO": "%2F".join(unquote(part, "latin-1") for part in sent.path.replace("%2f", "%2F").split("%2F")),
        "QUERY_STRING": sent.query,
        "RAW_URI": sent.path,
        "REQUEST_URI": f"{quote(sent.path, safe='/%;:@!$&()*+,=~')}?{sent.query}",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "wsgi.input": io.BytesIO(sent.body),
        HEADERS: headers,
        **given,
        "CONTENT_TYPE": headers.get("content-type", ""),
        "CONTENT_LENGTH": str(len(sent.body)),
    }


@pytest.fixture(scope="module")
def moto() -> Iterator[Watched]:
    """moto behind the front for everything, up to where it would run the operation."""
    bridge = MotoBridge()
    bridge.process.partition(REGION)
    watched = Watched(bridge, own=False)
    backends, names = import_module("moto.backends"), set(import_module("moto.backends").list_of_moto_modules())

    def run(action: str) -> str:
        watched.ran.append(action)
        raise Ran(action)

    with pytest.MonkeyPatch.context() as patch:
        for one in ("moto.core.responses", "moto.dynamodb_v20111205.responses"):
            patch.setattr(import_module(one), "camelcase_to_underscores", run)
        # It looks through moto's directories for each request.
        patch.setattr(backends, "list_of_moto_modules", lambda: names)
        yield watched


@pytest.fixture(scope="module")
def own() -> Iterator[Watched]:
    """The front's own tables and S3."""
    watched = Watched(MotoBridge(), own=True)
    kept = dict(service.HANDLERS)
    for name in kept:
        service.HANDLERS[name] = watched._handler(name)
    yield watched
    service.HANDLERS.update(kept)


def answered_by_moto() -> list[str]:
    """botocore's services that moto has, with the dependencies that are installed here."""
    index, response = import_module("moto.backend_index"), import_module("moto.core.responses").BaseResponse
    for name in {one for one, _ in index.backend_url_patterns}:
        try:
            import_module(f"moto.{name}.urls")
        except ModuleNotFoundError:
            continue
    names = {made.boto3_service_name for made in (one() for one in _subclasses(response))}
    return sorted(name for name in names if signing_name_of(name) not in (None, "s3"))


def _subclasses(kind: type) -> set[type]:
    return {one for child in kind.__subclasses__() for one in (child, *_subclasses(child))}


def check(watched: Watched, signing_name: str, sent: Sent, name: str, tally: Counter[str]) -> None:
    status = watched.send(signing_name, sent)
    told = f"{signing_name} {name} {sent}: asked for {watched.asked}, ran {watched.ran}, answered {status}"
    assert len(watched.ran) <= 1, told
    if sent.trick == TWO_NAMES and signing_name != "s3":
        assert (watched.ran, watched.asked) == ([], []), told
    if not watched.ran:
        assert status >= 400, told
        tally["refused"] += 1
        return
    tally["ran"] += 1
    # As it is spelled: policies are asked by this name.
    assert watched.asked[0].partition(":")[2] in names_of(signing_name), told
    assert watched.asked[:1] == [action_of(signing_name, _canonical(watched.ran[0], signing_name, watched.asked))], told


def action_of(signing_name: str, operation: str) -> str:
    return actions_of(signing_name, operation)[0].name


@cache
def names_of(signing_name: str) -> frozenset[str]:
    """Actions of all operations that requests for a service may be for."""
    found = {one for model in models_of(signing_name) for one in model.operations}
    return frozenset(action_of(signing_name, one).partition(":")[2] for one in found)


def _canonical(ran: str, signing_name: str, asked: list[str]) -> str:
    """Batch and Polly call an operation as its path does."""
    path_named = {"batch": lambda name: name.lower(), "polly": lambda name: _POLLY.get(name, "")}.get(signing_name)
    if path_named is None or not asked:
        return ran
    name = asked[0].partition(":")[2]
    return name if ran in (path_named(name), "tags") else ran


_POLLY = {
    **dict.fromkeys(("PutLexicon", "GetLexicon", "DeleteLexicon", "ListLexicons"), "lexicons"),
    "DescribeVoices": "voices",
    "SynthesizeSpeech": "speech",
}


def test_each_operation_of_each_service(moto: Watched) -> None:
    tally: Counter[str] = Counter()
    for name in answered_by_moto():
        model = service_model(name)
        signing_name = str(signing_name_of(name))
        for protocol in protocols_of(model):
            for one in model.operation_names:
                check(moto, signing_name, written(model.operation_model(one), protocol), one, tally)
                if moto.ran:
                    wanted = action_of(signing_name, one)
                    assert moto.asked[:1] == [wanted], (name, protocol, one, moto.asked, moto.ran)
    assert tally["ran"] > 4000, tally


def test_each_service_confused(moto: Watched) -> None:
    tally: Counter[str] = Counter()
    for name in answered_by_moto():
        confuse(moto, name, tally)
    assert tally["refused"] > 4000, tally


@pytest.mark.parametrize("name", [*OWN, "sagemaker-metrics", "s3"])
def test_what_is_ours(own: Watched, name: str) -> None:
    model, tally = service_model(name), Counter[str]()
    signing_name = str(signing_name_of(name))
    for protocol in protocols_of(model):
        for one in model.operation_names:
            check(own, signing_name, written(model.operation_model(one), protocol), one, tally)
    confuse(own, name, tally, len(model.operation_names) if name == "s3" else 10)
    assert tally["ran"] >= 2, tally


def test_the_table_of_services_is_botocores() -> None:
    """Of those that moto answers; a newer botocore may have others."""
    for name in answered_by_moto():
        model, metadata = service_model(name), service_model(name).metadata
        assert signing_name_of(name) == (metadata.get("signingName") or metadata["endpointPrefix"]).lower()
        row = next(one for one in models_of(str(signing_name_of(name))) if one.name == name)
        known = set(protocols_of(model))
        assert row.rest == any(protocol.startswith("rest") for protocol in known), name
        assert row.query == bool(known & {"query", "ec2"}), name
        by_name = bool(known & {"json", "smithy-rpc-v2-cbor"})
        assert row.prefix == (metadata["targetPrefix"] if by_name else None), name


def confuse(watched: Watched, name: str, tally: Counter[str], most: int = TRICKED) -> None:
    model = service_model(name)
    names = model.operation_names
    for protocol in protocols_of(model):
        for number, one in enumerate(names[:most]):
            other = names[(number + 1) % len(names)]
            target = f"{model.metadata.get('targetPrefix', 'X')}.{other}"
            for sent in confused(written(model.operation_model(one), protocol), other, target):
                check(watched, str(signing_name_of(name)), sent, one, tally)
