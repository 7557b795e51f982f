"""`sagelet hub serve`: the hub of a data directory, where no server runs."""

import signal
import threading
from collections.abc import Iterable
from pathlib import Path

import click

from sagelet_api.aws_errors import AwsError
from sagelet_api.hub.readers import Anybody
from sagelet_api.hub.service import PREFIX, Hub
from sagelet_api.protocol import Environ, StartResponse, parse_call
from sagelet_api.replies import error_reply, send
from sagelet_api.security import FrontDoor, guarded
from sagelet_api.server import Server
from sagelet_engine.errors import SettingsError
from sagelet_engine.hub.access import PATH
from sagelet_engine.hub.store import HubStore

_HOST = "127.0.0.1"


class HubAlone:
    """A WSGI application with the rules of the front door, and the hub behind it."""

    def __init__(self, store: HubStore) -> None:
        self._door = FrontDoor()
        self._hub = Hub(store, Anybody())

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        call = parse_call(environ)
        start = guarded(call, start_response, file=self._door.shows_here(call))
        try:
            self._door.check_origin(call)
            if not call.path.startswith(PREFIX) or self._door.is_apart(call):
                start("404 Only the hub is here", [("Content-Length", "0")])
                return []
            return self._hub(call, environ, start)
        except AwsError as error:
            return send(call, error_reply(call, error), start)


def serve_alone(data: Path, port: int) -> None:
    """Returns when it is interrupted. Raises SettingsError."""
    if not HubStore(data).root.is_dir():
        raise SettingsError(f"--data {data}: has no hub yet; `sagelet hub add` makes it")
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    server = Server(HubAlone(HubStore(data)), _HOST, port)
    server.start()
    click.echo(f"HF_ENDPOINT={server.endpoint}{PATH}")
    over.wait()
    server.stop()
