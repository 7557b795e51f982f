"""The control endpoints of one job: the doctor's findings of any job; of a training job its progress, its compilations,
and a spot interruption.

`?account=&region=` say whose job it is.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING

from sagelet_api.control.calls import known_job
from sagelet_engine.base.errors import JobNotInterruptible
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.data.compilation import asks_for_compiler
from sagelet_engine.model.job import J
from sagelet_engine.model.training import TrainingJob

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_engine.engine import Engine
    from sagelet_engine.facets import JobsOf


def of_processing(engine: "Engine") -> "Blueprint":
    from flask import Blueprint

    routes = Blueprint("processing_jobs", __name__, url_prefix="/_sagelet/processing/<name>")
    _add_doctor(routes, engine, engine.processing, "ProcessingJob")
    return routes


def _add_doctor(routes: "Blueprint", engine: "Engine", jobs: "JobsOf[J]", noun: str) -> None:
    """`noun`: as in AWS's names."""

    @routes.get("/doctor")
    def findings(name: str) -> JsonObject:
        """Returns the findings of docs/reference/doctor.md, the worst first. For a running job they are as of now."""
        with known_job(name, jobs.kind) as key:
            status, found = jobs.get(key).status.value, engine.reports.findings(key)
        return {f"{noun}Name": name, f"{noun}Status": status, "findings": list(found)}


def blueprint(engine: "Engine") -> "Blueprint":
    from flask import Blueprint
    from werkzeug.exceptions import Conflict, NotFound

    routes = Blueprint("jobs", __name__, url_prefix="/_sagelet/jobs/<name>")
    _add_doctor(routes, engine, engine.jobs, "TrainingJob")

    @routes.get("/progress")
    def progress(name: str) -> JsonObject:
        """`text` is what a person reads, `compiling, step 1, 38 s`; empty while nothing is known.

        It is cheap, so it can be asked every second.
        """
        with known_job(name) as key:
            job = engine.jobs.get(key)
            status = {"TrainingJobName": job.key.name, "TrainingJobStatus": job.status.value}
            return {**status, "SecondaryStatus": job.secondary.value, **asdict(engine.reports.progress(key))}

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


def _compilation(job: TrainingJob) -> JsonObject:
    """Returns the state of compilation. `compiled` is null if the job does not ask for the compiler, and until its
    hosts know.
    """
    asked = asks_for_compiler(job.spec)
    if job.compilation is None:
        return {"asked": asked, "compiled": None, "platform": None, "reason": ""}
    return {"asked": asked, **asdict(job.compilation)}
