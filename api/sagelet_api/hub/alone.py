"""`sagelet hub serve`: the hub of a data directory without a server."""

from collections.abc import Iterable
from pathlib import Path

import click

from sagelet_api.auth.request_guard import RequestGuard
from sagelet_api.ending import EndRequests
from sagelet_api.http.server import Server
from sagelet_api.hub.readers import Anybody
from sagelet_api.hub.service import Hub
from sagelet_api.hub.upstream import NotAsked
from sagelet_api.protocol.aws_errors import AwsError
from sagelet_api.protocol.calls import Environ, StartResponse, parse_call
from sagelet_api.protocol.replies import error_reply, send
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.hub.access import PATH, PREFIX
from sagelet_engine.hub.store import HubStore

_HOST = "127.0.0.1"


class HubAlone:
    """A WSGI application that serves the hub behind the rules of the request guard."""

    def __init__(self, store: HubStore) -> None:
        self._guard = RequestGuard()
        self._hub = Hub(store, Anybody(), NotAsked("`sagelet hub serve` without a server asks no real Hub"))

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        call = parse_call(environ)
        start = self._guard.guarded(call, start_response)
        try:
            self._guard.check_origin(call)
            if not call.path.startswith(PREFIX) or self._guard.is_apart(call):
                start("404 Only the hub is here", [("Content-Length", "0")])
                return []
            return self._hub(call, environ, start)
        except AwsError as error:
            return send(call, error_reply(call, error), start)


def serve_alone(data: Path, port: int) -> None:
    """Serves the hub until it is interrupted. Raises SettingsError."""
    if not HubStore(data).root.is_dir():
        raise SettingsError(f"--data {data}: has no hub yet; `sagelet hub add` makes it")
    end = EndRequests()
    server = Server(HubAlone(HubStore(data)), _HOST, port)
    server.start()
    click.echo(f"HF_ENDPOINT={server.endpoint}{PATH}")
    try:
        end.wait()
    finally:
        server.stop()
