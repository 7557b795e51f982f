"""The control endpoints under /_sagelet/, for people and scripts. Unsigned; the request guard's other rules apply."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sagelet_api.auth.people import page_text, shown
from sagelet_api.control import health
from sagelet_api.control.throttling import Throttling
from sagelet_api.protocol.aws_errors import MISSING_HEADER
from sagelet_api.protocol.calls import Environ, StartResponse
from sagelet_engine.base.errors import JobNotFound, OrchestrationNotFound
from sagelet_engine.base.loading import Late
from sagelet_engine.base.wire import JsonObject

if TYPE_CHECKING:
    from flask import Blueprint, Flask, Response

    from sagelet_engine.engine import Engine


#: Bodies of these requests are a few words.
MAX_BODY = 64 * 1024


class ControlApp:
    """A WSGI app that answers for the server's health, and passes everything else to a Flask app.

    The Flask app is made on its first request, because Flask takes long to load. `parts` make further blueprints.
    """

    def __init__(self, engine: "Engine", throttling: Throttling, *parts: Callable[[], "Blueprint"]) -> None:
        self._engine = engine
        self.flask: Late[Flask] = Late(lambda: create_app(engine, throttling, *(make() for make in parts)))

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == health.PATH:
            return health.answer_health(self._engine, environ, start_response)
        return self.flask()(environ, start_response)


def create_app(engine: "Engine", throttling: Throttling, *parts: "Blueprint") -> "Flask":
    from flask import Flask, Response, request
    from werkzeug.exceptions import HTTPException, NotFound

    from sagelet_api.control import compare, faults, jobs, places, tuning

    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    parts_of_engine = (compare.blueprint, jobs.blueprint, jobs.of_processing, places.blueprint, tuning.blueprint)
    own = (faults.blueprint(engine, throttling), *(make(engine) for make in parts_of_engine))
    for part in (*own, *parts):
        app.register_blueprint(part)

    def refuse(error: HTTPException) -> "tuple[JsonObject, int, dict[str, str]] | Response":
        if isinstance(request.routing_exception, NotFound):
            if request.method in ("GET", "HEAD") and "text/html" in request.headers.get("Accept", ""):
                # Somebody has typed the path into a browser: the text is the one of any other path.
                text = page_text(f"sagelet has no page at {shown(request.path)}.", request.host_url.rstrip("/"))
                return Response(text, 404, {"Cache-Control": "no-store"}, content_type="text/plain; charset=utf-8")
            where = f"{request.path} is not a control endpoint (`sagelet docs control-api`)"
            return {"error": error.name, "message": f"{where}. The web page is {request.host_url}"}, 404, {}
        # A job may also lack something else, such as a report.
        missing = isinstance(error.__cause__, (JobNotFound, OrchestrationNotFound))
        headers = {MISSING_HEADER: "true"} if missing else {}
        return {"error": error.name, "message": error.description}, error.code or 500, headers

    app.register_error_handler(HTTPException, refuse)
    # The Application logs and answers a failure.
    app.config["PROPAGATE_EXCEPTIONS"] = True
    return app
