"""The control endpoint of comparisons."""

import re
from typing import TYPE_CHECKING, Any, Protocol

from sagelet_api.control_calls import Controlled, place_asked_for
from sagelet_engine.comparison.comparing import CannotCompare, NotComparable
from sagelet_engine.errors import JobNotFound
from sagelet_engine.jobs.record import JobKey, TrainingJob

if TYPE_CHECKING:
    from flask import Blueprint


class Jobs(Protocol):
    def job(self, key: JobKey) -> TrainingJob:
        """Raises JobNotFound."""
        ...


_ARN = re.compile(r"arn:aws[a-z-]*:sagemaker:(?P<region>[a-z0-9-]+):(?P<account>\d{12}):training-job/(?P<name>[^/]+)")


def job_key(name_or_arn: str, account: str, region: str) -> JobKey:
    """A job by its name in an account and region, or by its ARN, which says both itself."""
    match = _ARN.fullmatch(name_or_arn)
    return JobKey(match["account"], match["region"], match["name"]) if match else JobKey(account, region, name_or_arn)


def keys_asked_for(engine: Jobs) -> list[JobKey]:
    """The jobs of the request's query, `?job=A&job=B&account=&region=`. Raises a 404 for one that there is not."""
    from flask import request
    from werkzeug.exceptions import NotFound

    account, region = place_asked_for()
    keys = [job_key(name, account, region) for name in request.args.getlist("job") if name]
    for key in keys:
        try:
            engine.job(key)
        except JobNotFound as error:
            raise NotFound(f"Account {key.account} has no training job {key.name} in {key.region}") from error
    return keys


def anyway_asked_for() -> bool:
    """`?anyway=1`: also jobs that are not comparable."""
    from flask import request

    return request.args.get("anyway", "") not in ("", "0", "false")


def blueprint(engine: Controlled) -> "Blueprint":
    from flask import Blueprint
    from werkzeug.exceptions import BadRequest, Conflict

    routes = Blueprint("compare", __name__, url_prefix="/_sagelet")

    @routes.get("/compare")
    def compare() -> dict[str, Any]:
        """Jobs against the first of them (docs/how-to/compare.md)."""
        try:
            return engine.compare(keys_asked_for(engine), anyway=anyway_asked_for()).to_json()
        except CannotCompare as error:
            raise BadRequest(str(error)) from error
        except NotComparable as error:
            raise Conflict(str(error)) from error

    return routes
