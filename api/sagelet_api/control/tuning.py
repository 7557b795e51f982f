"""The control endpoint of a tuning job: where its training jobs' programs came from.

`?account=&region=` say whose tuning job it is.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING

from sagelet_api.control.calls import place_asked_for
from sagelet_engine.base.errors import OrchestrationNotFound
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_engine.engine import Engine


def blueprint(engine: "Engine") -> "Blueprint":
    from flask import Blueprint
    from werkzeug.exceptions import NotFound

    routes = Blueprint("tuning", __name__, url_prefix="/_sagelet/tuning/<name>")

    @routes.get("/compilation")
    def compilation(name: str) -> JsonObject:
        """Counts the training jobs that compiled, and those that read every program from the compile cache."""
        account, region = place_asked_for()
        try:
            job = engine.orchestrations.get(OrchestrationKey(account, region, name, OrchestrationKind.TUNING))
        except OrchestrationNotFound as error:
            raise NotFound(
                f"Account {account} has no tuning job {name} in {region}: `sagelet tune list` lists them; --account "
                "and --region name others"
            ) from error
        ids = [trial.job_id for trial, _ in engine.orchestrations.trials(job)]
        found = engine.reports.compilations(engine.jobs.by_ids(ids).values())
        return {**asdict(found), "text": found.text}

    return routes
