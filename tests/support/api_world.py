"""The engine on fakes behind a real server, for tests through boto3."""

import io
import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import urllib3

from sagelet_api.app import Application
from sagelet_api.auth.authentication import Authentication
from sagelet_api.auth.authorization import Authorization
from sagelet_api.auth.callers import Callers
from sagelet_api.auth.request_guard import RequestGuard
from sagelet_api.control.endpoints import control_app
from sagelet_api.control.throttling import Throttling
from sagelet_api.protocol.calls import HEADERS
from sagelet_api.services.lambda_functions import LambdaFunctions, LambdaRequests
from sagelet_api.services.local_calls import LocalCalls
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.own_services import OwnServices
from sagelet_api.services.s3.opening import open_s3
from sagelet_api.services.sagemaker.state_events import StateEvents
from sagelet_api.web.app import web_app
from sagelet_api.web.sessions import Sessions
from sagelet_api.web.site import Site
from sagelet_engine.hub.store import HubStore
from sagelet_engine.model.functions import Functions
from sagelet_engine.model.log_events import LogEvent, LogStream
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.model.principal import Authorize
from sagelet_engine.model.runtime import Line
from sagelet_engine.model.service_calls import ServiceCalls
from sagelet_engine.model.sinks import StatusSink
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.state.garbage import Garbage, Rules, collect_garbage
from support.front import front
from support.world import World, until

if TYPE_CHECKING:
    from flask import Blueprint

ACCOUNT, REGION = "123456789012", "us-east-1"
#: The beginning of the ids of invocations that a request waits for, or nobody.
INVOKED = "function-invoke"

#: Makes no second try, and follows no redirection.
_AS_IT_IS: Any = {"retries": False, "redirect": False}


class ApiWorld(World):
    """Used as `with ApiWorld(root, bridge) as world`. `world.sagemaker` and `world.logs` call its server."""

    def __init__(self, root: Path, bridge: MotoBridge, **settings: Any) -> None:
        self._bridge = bridge
        #: The scopes of the resets that were asked for.
        self.resets: list[str] = []
        self._authorization = Authorization(bridge.iam, enforce_iam=bool(settings.get("enforce_iam")))
        self._calls = LocalCalls(bridge.requests.wsgi, self._authorization)
        super().__init__(root, **settings)
        own = self.own = OwnServices(self.engine, bridge, self.settings)
        throttling = Throttling()
        self._calls.serve(own.tables, throttling.check_making)
        self._http = urllib3.PoolManager()
        #: The object store of the S3 API. The jobs of this world have a stand-in.
        self.s3 = open_s3(self.settings, self.clock, bridge.beside_s3, self._authorization)
        control = control_app(self.engine, throttling, self.state_endpoints)
        callers = Callers(self.engine.keys, self.engine.jobs, bridge.iam)
        guard = RequestGuard((), Authentication(callers, self._authorization, everywhere=self.settings.auth))
        self.sessions = Sessions(self.engine.keys)
        made = own.sagemaker()
        operations = (made.jobs, made.tuning, made.pipelines)
        pages = web_app(lambda: Site(self.engine, *operations, self.s3.store, self.sessions))
        self._application = Application(
            guard,
            control,
            throttling.checks(),
            own.tables,
            LambdaRequests(
                bridge.requests.wsgi,
                self.engine.functions,
                self.objects,
                bridge.functions,
                enforce_iam=self.settings.enforce_iam,
            ),
            protocols={"s3": self.s3.service},
            rest=own.rest,
            pages=pages,
            routes=bridge.requests.route,
        )
        self._stack = ExitStack()

    def state_endpoints(self) -> "Blueprint":
        """Returns the control endpoints of the data directory, as `serve.py` puts them together. A reset is noted."""
        from sagelet_api.control import state

        def collect(rules: Rules, dry_run: bool) -> Garbage:
            hub = HubStore(self.settings.data)
            return collect_garbage(self.engine, self.s3.store, hub, rules, dry_run=dry_run)

        def empty(account: str) -> tuple[int, int]:
            self._bridge.iam.forget(account)
            return self.engine.stop_all(account), self.s3.store.delete_buckets(account)

        return state.blueprint(self.settings.data, self.resets.append, collect, empty)

    def make_calls(self) -> ServiceCalls:
        return self._calls

    def make_authorize(self) -> Authorize:
        return self._authorization

    def make_functions(self) -> Functions:
        return LambdaFunctions(self._bridge.functions, lambda: self.engine.keys, self._authorization)

    def make_statuses(self) -> StatusSink:
        return StateEvents(self._bridge.events)

    def __enter__(self) -> "ApiWorld":
        self._front = self._stack.enter_context(front(self._application))
        self.sagemaker = self.client("sagemaker")
        self.logs = self.client("logs")
        return self

    def __exit__(self, *_error: object) -> None:
        self._end_functions()
        self._http.clear()
        self._stack.close()
        self.engine.close()
        self.s3.close()

    def _end_functions(self) -> None:
        """Ends the functions that nobody ended: a thread looks for the end of each, a hundred times a second."""

        def none_is_left() -> bool:
            running = [host for ref, host in [*self.runtime.hosts.items()] if ref.startswith(INVOKED)]
            for host in running:
                host.end(0)
            return not running

        until(none_is_left)

    @property
    def port(self) -> int:
        return self._front.port

    def client(self, service: str, region: str = REGION, account: str = ACCOUNT) -> Any:
        """Returns a client that validates nothing and never repeats a call, so that the server's answers are seen."""
        return self._front.client(service, region, account, parameter_validation=False)

    def post(self, operation: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Sends a SageMaker call as JSON with any types in the body. boto3 itself would refuse wrong types."""
        headers = {
            "Authorization": _authorization(ACCOUNT),
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"SageMaker.{operation}",
        }
        answer = self._http.request("POST", self._front.endpoint, body=json.dumps(body), headers=headers, retries=False)
        return answer.status, json.loads(answer.data or "{}")

    def call(self, operation: str, body: dict[str, Any], account: str = ACCOUNT) -> tuple[int, dict[str, Any]]:
        """Does the same as `post` in this process and without a socket, for thousands of calls."""
        status, _, answer = self.ask(
            "POST", "/", json.dumps(body).encode(), account=account, x_amz_target=f"SageMaker.{operation}"
        )
        return status, json.loads(answer or "{}")

    def ask(
        self,
        method: str,
        path: str,
        content: bytes,
        *,
        service: str = "sagemaker",
        account: str = ACCOUNT,
        query: str = "",
        content_type: str = "application/x-amz-json-1.1",
        **headers: str,
    ) -> tuple[int, dict[str, str], bytes]:
        """Sends any signed request, in this process and without a socket. `_` in a header's name stands for `-`."""
        own = {"host": "localhost", "authorization": _authorization(account, service)}
        given = {**own, **{name.replace("_", "-"): value for name, value in headers.items()}}
        lengths = {"content-type": content_type, "content-length": str(len(content))}
        answered: list[Any] = []
        answer = self._application(
            {
                "REQUEST_METHOD": method,
                "PATH_INFO": path.encode().decode("latin-1"),
                "QUERY_STRING": query,
                "RAW_URI": quote(path),
                "REQUEST_URI": f"{quote(path)}?{query}",
                "SERVER_NAME": "localhost",
                "SERVER_PORT": "80",
                "wsgi.url_scheme": "http",
                "CONTENT_TYPE": content_type,
                "CONTENT_LENGTH": str(len(content)),
                "wsgi.input": io.BytesIO(content),
                HEADERS: {**lengths, **given},
                **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in given.items()},
            },
            lambda *response: answered.extend(response[:2]),
        )
        return int(answered[0].split()[0]), dict(answered[1]), b"".join(answer)

    def page(self, path: str, method: str = "GET", **headers: str) -> urllib3.BaseHTTPResponse:
        """Requests a page as a browser does. Follows no redirection. `_` in a header's name stands for `-`."""
        asked = {"Accept": "text/html", **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self._http.request(method, f"{self._front.endpoint}{path}", headers=asked, **_AS_IT_IS)

    def send_form(self, path: str, fields: dict[str, str], **headers: str) -> urllib3.BaseHTTPResponse:
        """Sends a form as one of sagelet's pages does, with its Origin."""
        asked = {"Accept": "text/html", "Origin": self._front.endpoint}
        asked |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self._http.request_encode_body(
            "POST", f"{self._front.endpoint}{path}", fields, asked, encode_multipart=False, **_AS_IT_IS
        )

    def stream(self, name: str, texts: Sequence[str] = (), *, start_ms: int = 1_000, step_ms: int = 1) -> LogStream:
        """Makes a log stream with these lines, of a new job that never runs."""
        job = self.waiting_job(name)
        made = self.engine._store.open_stream(job, "algo-1", f"{name}/algo-1-1", start_ms)
        return self.say(made, texts, start_ms=start_ms, step_ms=step_ms)

    def say(self, stream: LogStream, texts: Sequence[str], *, start_ms: int, step_ms: int = 1) -> LogStream:
        lines = [Line(start_ms + number * step_ms, text, str(number)) for number, text in enumerate(texts)]
        events = [LogEvent(line.time_ms, line.text) for line in lines]
        return self.engine._store.append_output(stream, events, "p", [], start_ms)

    def fill_inputs(self, body: dict[str, Any]) -> None:
        """Puts an object under every S3 prefix that a CreateTrainingJob body reads from."""
        for channel in body.get("InputDataConfig", []):
            uri = S3Uri.parse(channel["DataSource"]["S3DataSource"]["S3Uri"])
            self.objects.put(uri.bucket, f"{uri.key.rstrip('/')}/data.bin" if uri.key else "data.bin", b"1")

    def waiting_job(self, name: str) -> TrainingJob:
        """Makes a job that is in the store and that no scheduler knows."""
        from sagelet_engine.model.training import create
        from support.world import key, request

        job = create(key(name), f"id-{name}", request(name), {}, self.clock.now_ms())
        self.engine._store.insert(job)
        return job


def _authorization(account: str, service: str = "sagemaker") -> str:
    scope = f"{account}/20260101/{REGION}/{service}/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
