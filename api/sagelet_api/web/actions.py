"""The actions of a page on a job: stop, interrupt, run again. Each asks first, and is a POST from the page itself."""

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sagelet_api.bidirectional import escaped
from sagelet_api.protocol.aws_errors import AwsError, ValidationException
from sagelet_api.protocol.calls import parse_json
from sagelet_api.protocol.members import Parameters
from sagelet_api.protocol.validation import validate
from sagelet_api.web import PREFIX
from sagelet_api.web.site import Site, account_region, context, found
from sagelet_engine.base.errors import JobNotInterruptible
from sagelet_engine.model.training import TrainingJob

if TYPE_CHECKING:
    from flask import Blueprint

#: The most characters of a training job's name (botocore shape TrainingJobName).
MAX_NAME = 63


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, redirect, render_template, request, url_for

    routes = Blueprint("actions", __name__, url_prefix=f"{PREFIX}/jobs/<name>")

    def shown(name: str) -> Any:
        return redirect(url_for("job.overview", name=name, **account_region().query), 303)

    @routes.get("/stop")
    def ask_stop(name: str) -> str:
        return render_template("confirm.html", job=site.job(name), action="stop")

    @routes.post("/stop")
    def stop(name: str) -> Any:
        site.jobs.stop(context(), {"TrainingJobName": name})
        return shown(name)

    @routes.get("/interrupt")
    def ask_interrupt(name: str) -> str:
        return render_template("confirm.html", job=site.job(name), action="interrupt")

    @routes.post("/interrupt")
    def interrupt(name: str) -> Any:
        with found(name):
            try:
                site.engine.jobs.interrupt(account_region().key(name))
            except JobNotInterruptible as error:
                raise ValidationException(str(error)) from error
        return shown(name)

    @routes.get("/clone")
    def edit(name: str) -> str:
        job = site.job(name)
        name = free_name(name, lambda other: _exists(site, other))
        text = json.dumps({**request_of(job), "TrainingJobName": name}, indent=2, ensure_ascii=False)
        text = escaped(text)
        return render_template("clone.html", job=job, text=text)

    @routes.post("/clone")
    def create(name: str) -> Any:
        text = request.form.get("request", "")
        try:
            body = validate("sagemaker", "CreateTrainingJob", parse_json(text.encode()))
            site.jobs.create(context(), body)
        except AwsError as error:
            page = render_template("clone.html", job=site.job(name), text=escaped(text), error=error)
            return page, error.status
        return shown(body["TrainingJobName"])

    return routes


def request_of(job: TrainingJob) -> Parameters:
    """Returns the CreateTrainingJob request of a job, with its present tags."""
    tags = [{"Key": key, "Value": value} for key, value in job.tags.items()]
    return {**job.request, "Tags": tags} if tags else dict(job.request)


def free_name(name: str, taken: Callable[[str], bool]) -> str:
    """Returns a name that no job has: `train` -> `train-2`, `train-2` -> `train-3`."""
    counted = re.fullmatch(r"(.*?)-(\d{1,4})", name)
    stem, number = (counted[1], int(counted[2]) + 1) if counted else (name, 2)
    while taken(made := f"{stem[: MAX_NAME - len(str(number)) - 1].rstrip('-')}-{number}"):
        number += 1
    return made


def _exists(site: Site, name: str) -> bool:
    from werkzeug.exceptions import NotFound

    try:
        site.job(name)
    except NotFound:
        return False
    return True
