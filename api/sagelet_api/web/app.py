"""The pages as a WSGI app: blueprints, headers that guard them, errors that can be read."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sagelet_api.protocol.aws_errors import AwsError
from sagelet_api.protocol.calls import Environ, StartResponse
from sagelet_api.web import PREFIX
from sagelet_engine.base.loading import Late

if TYPE_CHECKING:
    from flask import Flask, Response

    from sagelet_api.web.site import Site, TemplateValues

_log = logging.getLogger(__name__)

#: Bodies are forms: a CreateTrainingJob request, as AWS takes it at most.
MAX_BODY = 5 * 1024 * 1024
#: Only sagelet's own files may be scripts, styles or pictures, none is inside a page's text, and nobody may frame a
#: page.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # `no-referrer` would make a form's Origin `null`, which the request guard refuses.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class WebApp:
    """A WSGI app that is made on its first request, because Flask takes longer to load than the rest of the server."""

    def __init__(self, make_site: "Callable[[], Site]") -> None:
        self.flask: Late[Flask] = Late(lambda: create_app(make_site()))

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        return self.flask()(environ, start_response)


def create_app(site: "Site") -> "Flask":
    from flask import Flask

    from sagelet_api.display import add_filters, shown, visible_json
    from sagelet_api.web import (
        actions,
        archives,
        artifacts,
        charts,
        code,
        compare,
        events,
        job,
        login,
        logs,
        objects,
        pages,
        pipelines,
        processing,
        tuning,
    )  # fmt: skip

    app = Flask(__name__, static_url_path=f"{PREFIX}/static")
    app.config["MAX_CONTENT_LENGTH"] = app.config["MAX_FORM_MEMORY_SIZE"] = MAX_BODY
    # The Application logs and answers a failure.
    app.config["PROPAGATE_EXCEPTIONS"] = True
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    # All that a template or a script of a page shows comes by here.
    app.jinja_env.finalize = shown
    app.json = visible_json(app)
    add_filters(app)
    modules = (
        login, pages, events, job, logs, charts, objects, archives, artifacts, actions, code, compare,
        pipelines, processing, tuning,
    )  # fmt: skip
    for module in modules:
        app.register_blueprint(module.blueprint(site))
    app.after_request(_guard)
    _add_errors(app)
    app.context_processor(_surroundings)
    return app


def _surroundings() -> "TemplateValues":
    """Returns what every template uses. `at` makes links that stay in the account and region."""
    from flask import url_for

    from sagelet_api.web.site import account_region

    here = account_region()

    def at(endpoint: str, **values: Any) -> str:
        return url_for(endpoint, **{**here.query, **values})

    return {"at": at, "place": here, "prefix": PREFIX}


def _guard(response: "Response") -> "Response":
    from flask import request

    from sagelet_api.web.site import is_static

    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    # A browser checks sagelet's own files each time (ETag). Data is never cached.
    response.headers["Cache-Control"] = "no-cache" if is_static(request.endpoint) else "no-store"
    return response


def _add_errors(app: "Flask") -> None:
    from flask import render_template, request
    from werkzeug.exceptions import HTTPException

    def shown(status: int, title: str, text: str) -> tuple[Any, int]:
        if request.accept_mimetypes.best_match(["text/html", "application/json"]) == "application/json":
            return {"error": title, "message": text}, status
        return render_template("error.html", status=status, title=title, text=text), status

    def refuse(error: HTTPException) -> Any:
        if error.code is None or error.code < 400:
            return error
        return shown(error.code, error.name, error.description or "")

    def refuse_as_aws(error: AwsError) -> tuple[Any, int]:
        return shown(error.status, error.code, error.message)

    app.register_error_handler(HTTPException, refuse)
    app.register_error_handler(AwsError, refuse_as_aws)
