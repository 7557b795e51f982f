"""The control endpoint of comparisons."""

import re
from typing import TYPE_CHECKING, Any

from sagelet_engine.comparison.comparing import CannotCompare, NotComparable
from sagelet_engine.errors import JobNotFound
from sagelet_engine.jobs.record import JobKey

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_api.control import Controlled
    from sagelet_engine.comparison.result import Comparison

_ARN = re.compile(r"arn:aws[a-z-]*:sagemaker:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):training-job/(?P<name>[^/]+)")


def job_key(name_or_arn: str, account: str, region: str) -> JobKey:
    """A job by its name in an account and region, or by its ARN, which says both itself."""
    match = _ARN.fullmatch(name_or_arn)
    return JobKey(match["account"], match["region"], match["name"]) if match else JobKey(account, region, name_or_arn)


def asked_for(engine: "Controlled") -> "Comparison":
    """The comparison that the request's query names: `?job=A&job=B&account=&region=&anyway=1`.

    Raises HTTP errors: 400 for too few jobs, 404 for one that there is not, 409 where they are not comparable.
    """
    from flask import request
    from werkzeug.exceptions import BadRequest, Conflict, NotFound

    from sagelet_api.control import place_asked_for

    account, region = place_asked_for()
    keys = [job_key(name, account, region) for name in request.args.getlist("job")]
    try:
        for key in keys:
            engine.job(key)
    except JobNotFound as error:
        raise NotFound(f"Account {key.account} has no training job {key.name} in {key.region}") from error
    try:
        return engine.compare(keys, anyway=request.args.get("anyway", "") not in ("", "0", "false"))
    except CannotCompare as error:
        raise BadRequest(str(error)) from error
    except NotComparable as error:
        raise Conflict(str(error)) from error


def blueprint(engine: "Controlled") -> "Blueprint":
    from flask import Blueprint

    routes = Blueprint("compare", __name__, url_prefix="/_sagelet")

    @routes.get("/compare")
    def compare() -> dict[str, Any]:
        """Jobs against the first of them (docs/how-to/compare.md)."""
        return asked_for(engine).to_json()

    return routes
