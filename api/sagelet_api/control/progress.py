"""The control endpoint of a job's progress. It is cheap, so it may be asked every second."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sagelet_api.control.calls import known_job

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_engine.engine import Engine


def blueprint(engine: "Engine") -> "Blueprint":
    from flask import Blueprint

    routes = Blueprint("progress", __name__, url_prefix="/_sagelet")

    @routes.get("/jobs/<name>/progress")
    def progress(name: str) -> dict[str, Any]:
        """Returns the progress. `text` is for people, `compiling, step 1, 38 s`; empty while nothing is known."""
        with known_job(name) as key:
            job = engine.jobs.get(key)
            return {
                "TrainingJobName": job.key.name,
                "TrainingJobStatus": job.status.value,
                "SecondaryStatus": job.secondary.value,
                **asdict(engine.reports.progress(key)),
            }

    return routes
