"""HTTP servers and boto3 clients that tests use one after another.

A server takes 0.2 s to stop and a boto3 client 0.05 s to make, which is more than most tests take themselves. So tests
share servers, and each test has its own application behind the port.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import boto3
from botocore.config import Config

from sagelet_api.http.server import Server
from sagelet_api.protocol.calls import Environ, StartResponse, WsgiApp

#: Seconds in which running requests must end after their test has ended.
PATIENCE = 2.0


class Front:
    """A running server on a free port of 127.0.0.1. `serving` puts an application behind it."""

    def __init__(self) -> None:
        self._app: WsgiApp | None = None
        self._changed = threading.Condition()
        self._in_work = 0
        self._clients: dict[tuple[Any, ...], Any] = {}
        self._server = Server(self._answer, "127.0.0.1", 0)
        self._server.start()
        self.port, self.endpoint = self._server.port, self._server.endpoint

    def client(self, service: str, region: str, key: str, **config: Any) -> Any:
        """Returns a client that never repeats a call, so that the server's answers are seen. Clients are cached."""
        wish = (service, region, key, *sorted(config.items()))
        if wish not in self._clients:
            self._clients[wish] = boto3.client(
                service,
                endpoint_url=self.endpoint,
                region_name=region,
                aws_access_key_id=key,
                aws_secret_access_key="any",
                config=Config(retries={"total_max_attempts": 1}, max_pool_connections=64, **config),
            )
        return self._clients[wish]

    @contextmanager
    def serving(self, app: WsgiApp) -> Iterator[None]:
        """Puts `app` behind the port, and removes it when its running requests have ended."""
        self._app = app
        try:
            yield
        finally:
            with self._changed:
                self._app = None
                self._changed.wait_for(lambda: self._in_work == 0, PATIENCE)

    def stop(self) -> None:
        self._server.stop()

    def _answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        with self._changed:
            app = self._app
            self._in_work += app is not None
        if app is None:
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return []
        try:
            return _Answer(app(environ, start_response), self._ended)
        except BaseException:
            self._ended()
            raise

    def _ended(self) -> None:
        with self._changed:
            self._in_work -= 1
            self._changed.notify_all()


class _Answer:
    """An application's answer. It makes a call when the server has sent it."""

    def __init__(self, answer: Iterable[bytes], ended: Callable[[], None]) -> None:
        self._answer, self._ended = answer, ended

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._answer)

    def close(self) -> None:
        try:
            if hasattr(self._answer, "close"):
                self._answer.close()
        finally:
            self._ended()


_all: list[Front] = []
_free: list[Front] = []


@contextmanager
def front(app: WsgiApp) -> Iterator[Front]:
    """Yields a server with `app` behind it that no other test is using."""
    if not _free:
        _all.append(Front())
        _free.append(_all[-1])
    taken = _free.pop()
    with taken.serving(app):
        yield taken
    _free.append(taken)


class SharedServer(Server):
    """The server of a whole sagelet, on the port of a Front: starting and stopping it takes no time."""

    front: Front
    _stack: ExitStack | None = None

    def start(self) -> None:
        self._stack = ExitStack()
        self.front = self._stack.enter_context(front(self._app))
        self.port = self.front.port

    def stop(self) -> None:
        if self._stack is not None:
            self._stack.close()


def stop() -> None:
    """Stops all servers. Their threads would keep the process alive."""
    while _all:
        _all.pop().stop()
    _free.clear()
