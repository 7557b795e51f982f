"""The control endpoint of one processing job: the doctor's findings.

`?account=&region=` say whose job it is.
"""

from typing import TYPE_CHECKING

from sagelet_api.control.calls import known_job
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.job import JobKind

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_engine.engine import Engine


def blueprint(engine: "Engine") -> "Blueprint":
    from flask import Blueprint

    routes = Blueprint("processing_jobs", __name__, url_prefix="/_sagelet/processing/<name>")

    @routes.get("/doctor")
    def findings(name: str) -> JsonObject:
        """Returns the findings of docs/reference/doctor.md, the worst first. For a running job they are as of now."""
        with known_job(name, JobKind.PROCESSING) as key:
            job, found = engine.processing.get(key), engine.reports.findings(key)
        return {"ProcessingJobName": name, "ProcessingJobStatus": job.status.value, "findings": list(found)}

    return routes
