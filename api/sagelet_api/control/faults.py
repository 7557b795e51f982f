"""The control endpoints of faults: faults of a job (its tag `sagelet:fault`), and calls to throttle."""

from typing import TYPE_CHECKING

from sagelet_api.control.calls import known_job
from sagelet_api.control.throttling import Throttled, Throttling, ThrottlingRefused
from sagelet_api.services.sagemaker.tags import MAX_TAGS
from sagelet_engine.base.errors import FaultError, TooManyTags
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model import faults
from sagelet_engine.model.training import TrainingJob

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_engine.engine import Engine


def blueprint(engine: "Engine", throttling: Throttling) -> "Blueprint":
    from flask import Blueprint

    routes = Blueprint("faults", __name__, url_prefix="/_sagelet")
    _add_jobs(routes, engine)
    _add_throttling(routes, throttling)
    return routes


def _add_jobs(routes: "Blueprint", engine: "Engine") -> None:
    from flask import request
    from werkzeug.exceptions import BadRequest, Conflict

    def shown(job: TrainingJob) -> JsonObject:
        return {"TrainingJobArn": job.key.arn, "faults": job.tags.get(faults.TAG, "")}

    @routes.get("/jobs/<name>/faults")
    def show(name: str) -> JsonObject:
        with known_job(name) as key:
            return shown(engine.jobs.get(key))

    @routes.put("/jobs/<name>/faults")
    def put(name: str) -> JsonObject:
        """Sets a job's faults from `{"faults": "starting:30 internal-server-error:2"}`, the words of the tag."""
        body = request.get_json(force=True, silent=True)
        words = body.get("faults") if isinstance(body, dict) else None
        if not isinstance(words, str):
            raise BadRequest(f'Give a JSON object such as {{"faults": {faults.EXAMPLE}}}')
        try:
            faults.parse(words)
        except FaultError as error:
            raise BadRequest(str(error)) from error
        with known_job(name) as key:
            if (job := engine.jobs.get(key)).terminal:
                raise Conflict(f"{name} is in status {job.status.value}: faults have no effect any more")
            try:
                engine.jobs.put_tags(key, {faults.TAG: words}, MAX_TAGS)
            except TooManyTags as error:
                raise Conflict(str(error)) from error
            return shown(engine.jobs.get(key))

    @routes.delete("/jobs/<name>/faults")
    def delete(name: str) -> JsonObject:
        with known_job(name) as key:
            engine.jobs.delete_tags(key, [faults.TAG])
            return shown(engine.jobs.get(key))


def _add_throttling(routes: "Blueprint", throttling: Throttling) -> None:
    from flask import request
    from werkzeug.exceptions import BadRequest

    @routes.get("/faults/throttling")
    def left() -> JsonObject:
        return {"throttling": throttling.left()}

    @routes.post("/faults/throttling")
    def throttle() -> JsonObject:
        """Throttles calls; see Throttled.read."""
        try:
            throttling.put(*Throttled.read(request.get_json(force=True, silent=True)))
        except ThrottlingRefused as error:
            raise BadRequest(str(error)) from error
        return left()

    @routes.delete("/faults/throttling")
    def clear() -> JsonObject:
        throttling.clear()
        return left()
