"""GET /_sagelet/health. It loads neither Flask nor moto, because programs wait for it while a server starts."""

import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING

from sagelet_api.protocol.calls import Environ, StartResponse
from sagelet_engine.base.wire import JsonObject

if TYPE_CHECKING:
    from sagelet_engine.engine import Engine

PATH = "/_sagelet/health"
_REMEDY = (
    "A database is damaged or missing: `sagelet down`, then `sagelet check --repair`. One that is unavailable "
    "cannot be read just now: look at its disk"
)


def answer_health(engine: "Engine", environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answers 200, or 503 if a database cannot be used. The body is JSON in both cases."""
    method = environ["REQUEST_METHOD"]
    if method not in ("GET", "HEAD"):
        status, found = HTTPStatus.METHOD_NOT_ALLOWED, _refusal(method)
    else:
        status, found = _look(engine)
    body = json.dumps(found).encode() + b"\n"
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("Allow", "GET, HEAD"))
    start_response(f"{status.value} {status.phrase}", headers)
    return [] if method == "HEAD" else [body]


def _look(engine: "Engine") -> tuple[HTTPStatus, JsonObject]:
    found = dict(engine.health())
    if found.get("status", "ok") == "ok":
        return HTTPStatus.OK, found
    error = HTTPStatus.SERVICE_UNAVAILABLE
    return error, {**found, "error": error.phrase, "message": _REMEDY}


def _refusal(method: str) -> JsonObject:
    return {"error": HTTPStatus.METHOD_NOT_ALLOWED.phrase, "message": f"{PATH} answers GET, not {method}."}
