"""A whole server on fakes, for tests through boto3."""

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import urllib3

from sagelet_api.protocol.calls import HEADERS
from sagelet_api.serve import Sagelet, Surroundings
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.engine import Engine
from sagelet_engine.machine.runtimes import Choice
from sagelet_engine.model.log_events import LogEvent, LogStream
from sagelet_engine.model.objects import ObjectStore, S3Uri
from sagelet_engine.model.principal import Authorize
from sagelet_engine.model.runtime import Line
from sagelet_engine.model.training import TrainingJob
from support.front import Front, SharedServer
from support.world import Fakes, until

ACCOUNT, REGION = "123456789012", "us-east-1"
#: The beginning of the ids of invocations that a request waits for, or nobody.
INVOKED = "function-invoke"

#: Makes no second try, and follows no redirection.
_AS_IT_IS: Any = {"retries": False, "redirect": False}


class ApiWorld(Fakes):
    """A whole server, composed as `sagelet up` does it. Used as `with ApiWorld(root, bridge) as world`.

    Time, hosts and the objects of jobs are fakes. `world.sagemaker` and `world.logs` call the server.
    """

    def __init__(self, root: Path, bridge: MotoBridge, **settings: Any) -> None:
        self._bridge = bridge
        #: The scopes of the resets that were asked for.
        self.resets: list[str] = []
        self._http = urllib3.PoolManager()
        super().__init__(root, **settings)

    def boot(self) -> Engine:
        self.compose().start()
        return self.sagelet.engine

    def compose(self) -> Sagelet:
        """Returns a server that is not started."""
        choice = Choice(self.runtime, "a test")
        surroundings = Surroundings(self.clock, choice, self._bridge, self._open_objects, SharedServer)
        self.sagelet = Sagelet(self.settings, surroundings, self.resets.append)
        return self.sagelet

    def _open_objects(self, authorize: Authorize) -> ObjectStore:
        self.objects.authorize = authorize
        return self.objects

    def close(self) -> None:
        self.sagelet.stop()

    def __enter__(self) -> "ApiWorld":
        self.sagemaker = self.client("sagemaker")
        self.logs = self.client("logs")
        return self

    def __exit__(self, *_error: object) -> None:
        self._end_functions()
        self._http.clear()
        self.close()

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
        return self.sagelet.server.port

    @property
    def endpoint(self) -> str:
        return self.sagelet.server.endpoint

    @property
    def front(self) -> Front:
        server = self.sagelet.server
        assert isinstance(server, SharedServer)
        return server.front

    def client(self, service: str, region: str = REGION, account: str = ACCOUNT) -> Any:
        """Returns a client that validates nothing and never repeats a call, so that the server's answers are seen."""
        return self.front.client(service, region, account, parameter_validation=False)

    def post(self, operation: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Sends a SageMaker call as JSON with any types in the body. boto3 itself would refuse wrong types."""
        headers = {
            "Authorization": _authorization(ACCOUNT),
            "Content-Type": "application/x-amz-json-1.1",
            "X-Amz-Target": f"SageMaker.{operation}",
        }
        answer = self._http.request("POST", self.endpoint, body=json.dumps(body), headers=headers, retries=False)
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
        answer = self.sagelet.application(
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
        return self._http.request(method, f"{self.endpoint}{path}", headers=asked, **_AS_IT_IS)

    def send_form(self, path: str, fields: dict[str, str], **headers: str) -> urllib3.BaseHTTPResponse:
        """Sends a form as one of sagelet's pages does, with its Origin."""
        asked = {"Accept": "text/html", "Origin": self.endpoint}
        asked |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self._http.request_encode_body(
            "POST", f"{self.endpoint}{path}", fields, asked, encode_multipart=False, **_AS_IT_IS
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
