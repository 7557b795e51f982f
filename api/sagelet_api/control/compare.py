"""The control endpoint of comparisons."""

import re
from typing import TYPE_CHECKING

from sagelet_api.control.calls import no_such_job, place_asked_for
from sagelet_engine.base.errors import JobNotFound
from sagelet_engine.base.number_text import whole_number_in
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.comparison.comparing import CannotCompare, NotComparable
from sagelet_engine.comparison.payback import MOST_STEPS
from sagelet_engine.model.job import JobKey

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_engine.engine import Engine


_ARN = re.compile(r"arn:aws[a-z-]*:sagemaker:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):training-job/(?P<name>[^/]+)")


def job_key(name_or_arn: str, account: str, region: str) -> JobKey:
    """Returns the key of a job, by its name in an account and region, or by its ARN, which contains both."""
    match = _ARN.fullmatch(name_or_arn)
    return JobKey(match["account"], match["region"], match["name"]) if match else JobKey(account, region, name_or_arn)


def keys_asked_for(engine: "Engine") -> list[JobKey]:
    """Returns the jobs of the request's query, `?job=A&job=B&account=&region=`. Raises a 404 for a missing job."""
    from flask import request

    account, region = place_asked_for()
    keys = [job_key(name, account, region) for name in request.args.getlist("job") if name]
    for key in keys:
        try:
            engine.jobs.get(key)
        except JobNotFound as error:
            raise no_such_job(key) from error
    return keys


def anyway_asked_for() -> bool:
    """True for `?anyway=1`: also compare jobs that are not comparable."""
    from flask import request

    return request.args.get("anyway", "") not in ("", "0", "false")


def steps_asked_for() -> int | None:
    """Returns the number of `?steps=N`: the length of a training whose bill is asked for. Raises a 400."""
    from flask import request
    from werkzeug.exceptions import BadRequest

    text = request.args.get("steps", "").strip()
    if not text:
        return None
    steps = whole_number_in(text)
    if steps is None or not 1 <= steps <= MOST_STEPS:
        raise BadRequest(f"steps: a number of steps, from 1 to {MOST_STEPS:,}")
    return steps


def blueprint(engine: "Engine") -> "Blueprint":
    from flask import Blueprint
    from werkzeug.exceptions import BadRequest, Conflict

    routes = Blueprint("compare", __name__, url_prefix="/_sagelet")

    @routes.get("/compare")
    def compare() -> JsonObject:
        """Compares jobs with the first of them (docs/how-to/compare.md)."""
        try:
            return engine.reports.compare(
                keys_asked_for(engine), anyway=anyway_asked_for(), steps=steps_asked_for()
            ).to_json()
        except CannotCompare as error:
            raise BadRequest(str(error)) from error
        except NotComparable as error:
            raise Conflict(str(error)) from error

    return routes
