"""The control endpoints under /_sagelet/, for people and scripts. Unsigned; the request guard's other rules apply."""

from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sagelet_api.control.calls import known_job
from sagelet_api.control.throttling import Throttling
from sagelet_api.loading import LOADING
from sagelet_api.protocol.calls import WsgiApp
from sagelet_engine.base.errors import JobNotInterruptible
from sagelet_engine.data.compilation import asks_for_compiler
from sagelet_engine.model.training import TrainingJob

if TYPE_CHECKING:
    from flask import Blueprint, Flask

    from sagelet_engine.engine import Engine


#: Bodies are a few words.
MAX_BODY = 64 * 1024


def control_app(engine: "Engine", throttling: Throttling, *parts: Callable[[], "Blueprint"]) -> WsgiApp:
    """A WSGI app that is made on its first request: Flask takes longer to load than the rest of the server.

    `parts` make blueprints to add.
    """

    @lru_cache(maxsize=1)
    def app() -> "Flask":
        with LOADING:
            return create_app(engine, throttling, *(make() for make in parts))

    return lambda environ, start_response: app()(environ, start_response)


def _compilation(job: TrainingJob) -> dict[str, Any]:
    """`compiled` is null where the job asks for no compiler, and until its hosts know."""
    asked = asks_for_compiler(job.spec)
    if job.compilation is None:
        return {"asked": asked, "compiled": None, "platform": None, "reason": ""}
    return {"asked": asked, **asdict(job.compilation)}


def create_app(engine: "Engine", throttling: Throttling, *parts: "Blueprint") -> "Flask":
    from flask import Flask, request
    from werkzeug.exceptions import Conflict, HTTPException, NotFound

    from sagelet_api.control import compare as control_compare
    from sagelet_api.control import doctor as control_doctor
    from sagelet_api.control import progress as control_progress
    from sagelet_api.control.faults import blueprint

    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY
    own = (
        blueprint(engine, throttling),
        control_compare.blueprint(engine),
        control_doctor.blueprint(engine),
        control_progress.blueprint(engine),
    )
    for part in (*own, *parts):
        app.register_blueprint(part)

    @app.get("/_sagelet/health")
    def health() -> tuple[dict[str, Any], int]:
        found = engine.health()
        if found.get("status", "ok") == "ok":
            return found, 200
        remedy = (
            "A database is damaged or missing: `sagelet down`, then `sagelet check --repair`. One that is unavailable "
            "cannot be read just now: look at its disk"
        )
        return {**found, "error": "Service Unavailable", "message": remedy}, 503

    @app.post("/_sagelet/jobs/<name>/interrupt")
    def interrupt(name: str) -> dict[str, Any]:
        """A spot interruption, now. `?account=&region=` say whose job it is."""
        with known_job(name) as key:
            try:
                job = engine.jobs.interrupt(key)
            except JobNotInterruptible as error:
                raise Conflict(str(error)) from error
        return {"TrainingJobArn": job.key.arn, "SecondaryStatus": job.secondary.value, "Attempt": job.attempt}

    @app.get("/_sagelet/jobs/<name>/compilation")
    def compilation(name: str) -> dict[str, Any]:
        """What became of a job's wish to be compiled. `?account=&region=` say whose job it is."""
        with known_job(name) as key:
            return _compilation(engine.jobs.get(key))

    @app.get("/_sagelet/jobs/<name>/compiler-report")
    def compiler_report(name: str) -> dict[str, Any]:
        """What compiling did for the job, so far or in all (docs/reference/compiler-report.md)."""
        with known_job(name) as key:
            report = engine.reports.compiler(key)
        if report is None:
            raise NotFound(f"No worker of {name} has reported yet: a report begins with a worker's first training step")
        return report.to_json()

    def refuse(error: HTTPException) -> tuple[dict[str, Any], int]:
        if isinstance(request.routing_exception, NotFound):
            where = f"{request.path} is no control endpoint (docs/reference/control-api.md)"
            return {"error": error.name, "message": f"{where}. The web page is {request.host_url}"}, 404
        return {"error": error.name, "message": error.description}, error.code or 500

    app.register_error_handler(HTTPException, refuse)
    # A failure is the Application's to log and to answer.
    app.config["PROPAGATE_EXCEPTIONS"] = True
    return app
