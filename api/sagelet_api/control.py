"""The control endpoints under /_sagelet/, for people and scripts: no signature, but the front door's other rules."""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from sagelet.errors import JobNotFound, JobNotInterruptible
from sagelet.jobs.record import JobKey, TrainingJob
from sagelet_api.credentials import DEFAULT_ACCOUNT, DEFAULT_REGION
from sagelet_api.protocol import WsgiApp

if TYPE_CHECKING:
    from flask import Flask


class Controlled(Protocol):
    """What the control endpoints ask of the engine."""

    def health(self) -> dict[str, Any]:
        """JSON-ready: version, runtime, gpus, counts of jobs by status."""
        ...

    def interrupt(self, key: JobKey) -> TrainingJob:
        """Takes a managed spot job's instances away. Raises JobNotFound, JobNotInterruptible."""
        ...


def control_app(engine: Controlled) -> WsgiApp:
    """A WSGI app that is made on its first request: Flask takes longer to load than the rest of the server."""

    @lru_cache(maxsize=1)
    def app() -> "Flask":
        return create_app(engine)

    return lambda environ, start_response: app()(environ, start_response)


def create_app(engine: Controlled) -> "Flask":
    from flask import Flask, request
    from werkzeug.exceptions import Conflict, HTTPException, NotFound

    app = Flask(__name__)

    @app.get("/_sagelet/health")
    def health() -> dict[str, Any]:
        return engine.health()

    @app.post("/_sagelet/jobs/<name>/interrupt")
    def interrupt(name: str) -> dict[str, Any]:
        """A spot interruption, now. `?account=&region=` say whose job it is."""
        account = request.args.get("account", DEFAULT_ACCOUNT)
        region = request.args.get("region", DEFAULT_REGION)
        try:
            job = engine.interrupt(JobKey(account, region, name))
        except JobNotFound as error:
            raise NotFound(f"Account {account} has no training job {name} in {region}") from error
        except JobNotInterruptible as error:
            raise Conflict(str(error)) from error
        return {"TrainingJobArn": job.key.arn, "SecondaryStatus": job.secondary.value, "Attempt": job.attempt}

    def refuse(error: HTTPException) -> tuple[dict[str, Any], int]:
        return {"error": error.name, "message": error.description}, error.code or 500

    app.register_error_handler(HTTPException, refuse)
    # A failure is the Application's to log and to answer.
    app.config["PROPAGATE_EXCEPTIONS"] = True
    return app
