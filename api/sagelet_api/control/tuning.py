"""The control endpoints of a tuning job: its bill, and where its training jobs' programs came from.

`?account=&region=` say whose tuning job it is.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING

from sagelet_api.control.calls import place_asked_for
from sagelet_engine.base.errors import OrchestrationNotFound
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind
from sagelet_engine.model.tuning import TuningJob

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_engine.engine import Engine


def blueprint(engine: "Engine") -> "Blueprint":
    from flask import Blueprint

    routes = Blueprint("tuning", __name__, url_prefix="/_sagelet/tuning/<name>")

    @routes.get("/bill")
    def bill(name: str) -> JsonObject:
        """Returns what AWS would charge for the training jobs, also for deleted ones."""
        found = engine.tuning.bill(_known(engine, name))
        return {**asdict(found), "as_of": found.as_of.isoformat()}

    @routes.get("/compilation")
    def compilation(name: str) -> JsonObject:
        """Counts the training jobs that compiled, and those that read every program from the compile cache."""
        ids = [trial.job_id for trial, _ in engine.tuning.trials(_known(engine, name))]
        found = engine.reports.compilations(engine.jobs.by_ids(ids).values())
        return {**asdict(found), "text": found.text}

    return routes


def _known(engine: "Engine", name: str) -> TuningJob:
    """Returns the tuning job that the request's path and place name. A missing one becomes a 404."""
    from werkzeug.exceptions import NotFound

    account, region = place_asked_for()
    try:
        return engine.tuning.get(OrchestrationKey(account, region, name, OrchestrationKind.TUNING))
    except OrchestrationNotFound as error:
        raise NotFound(
            f"Account {account} has no tuning job {name} in {region}: `sagelet tune list` lists them; --account and "
            "--region name others"
        ) from error
