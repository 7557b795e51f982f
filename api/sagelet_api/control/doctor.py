"""The control endpoint of the doctor."""

from typing import TYPE_CHECKING, Any

from sagelet_api.control.calls import known_job

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_engine.engine import Engine


def blueprint(engine: "Engine") -> "Blueprint":
    from flask import Blueprint

    routes = Blueprint("doctor", __name__, url_prefix="/_sagelet")

    @routes.get("/jobs/<name>/doctor")
    def findings(name: str) -> dict[str, Any]:
        """Returns the findings of docs/reference/doctor.md, the worst first. For a running job they are as of now."""
        with known_job(name) as key:
            job = engine.jobs.get(key)
            return {
                "TrainingJobName": job.key.name,
                "TrainingJobStatus": job.status.value,
                "findings": list(engine.reports.findings(key)),
            }

    return routes
