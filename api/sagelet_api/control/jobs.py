"""The control endpoints of one job: its progress, its compilations, the doctor's findings, and a spot interruption.

`?account=&region=` say whose job it is.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING

from sagelet_api.control.calls import known_job
from sagelet_engine.base.errors import JobNotInterruptible
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.data.compilation import asks_for_compiler
from sagelet_engine.model.training import TrainingJob

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_engine.engine import Engine


def blueprint(engine: "Engine") -> "Blueprint":
    from flask import Blueprint
    from werkzeug.exceptions import Conflict, NotFound

    routes = Blueprint("jobs", __name__, url_prefix="/_sagelet/jobs/<name>")

    @routes.get("/progress")
    def progress(name: str) -> JsonObject:
        """`text` is what a person reads, `compiling, step 1, 38 s`; empty while nothing is known.

        It is cheap, so it can be asked every second.
        """
        with known_job(name) as key:
            job = engine.jobs.get(key)
            return {**_status(job), "SecondaryStatus": job.secondary.value, **asdict(engine.reports.progress(key))}

    @routes.get("/doctor")
    def findings(name: str) -> JsonObject:
        """Returns the findings of docs/reference/doctor.md, the worst first. For a running job they are as of now."""
        with known_job(name) as key:
            return {**_status(engine.jobs.get(key)), "findings": list(engine.reports.findings(key))}

    @routes.post("/interrupt")
    def interrupt(name: str) -> JsonObject:
        """A spot interruption, now."""
        with known_job(name) as key:
            try:
                job = engine.jobs.interrupt(key)
            except JobNotInterruptible as error:
                raise Conflict(str(error)) from error
        return {"TrainingJobArn": job.key.arn, "SecondaryStatus": job.secondary.value, "Attempt": job.attempt}

    @routes.get("/compilation")
    def compilation(name: str) -> JsonObject:
        """The outcome of a job's request to be compiled."""
        with known_job(name) as key:
            return _compilation(engine.jobs.get(key))

    @routes.get("/compiler-report")
    def compiler_report(name: str) -> JsonObject:
        """Returns what compiling did for the job, so far or in total (docs/reference/compiler-report.md)."""
        with known_job(name) as key:
            report = engine.reports.compiler(key)
        if report is None:
            raise NotFound(f"No worker of {name} has reported: a report begins with a worker's first training step")
        return report.to_json()

    return routes


def _status(job: TrainingJob) -> JsonObject:
    return {"TrainingJobName": job.key.name, "TrainingJobStatus": job.status.value}


def _compilation(job: TrainingJob) -> JsonObject:
    """Returns the state of compilation. `compiled` is null if the job does not ask for the compiler, and until its
    hosts know.
    """
    asked = asks_for_compiler(job.spec)
    if job.compilation is None:
        return {"asked": asked, "compiled": None, "platform": None, "reason": ""}
    return {"asked": asked, **asdict(job.compilation)}
