"""The pages of tuning jobs: the list, one with its trials and pictures, the best trial's code, stop and delete."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sagelet_api.display import clock, number
from sagelet_api.web import PREFIX
from sagelet_api.web.code import Text, job_texts, shown
from sagelet_api.web.lists import Heading, ListedKind, add_list
from sagelet_api.web.scatter import BOTTOM, DETAILED, HEIGHT, RIGHT, WIDTH, Scatter, pictures
from sagelet_api.web.site import Site, TemplateValues, account_region, context
from sagelet_api.web.snippets.boto3 import boto3_code
from sagelet_api.web.snippets.cli import cli_code
from sagelet_api.web.trials import counted, trials_of
from sagelet_engine.base.errors import JobNotFound
from sagelet_engine.comparison.comparing import MOST_JOBS
from sagelet_engine.model.orchestration import OrchestrationStatus
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.tuning import TuningJob, child_key

if TYPE_CHECKING:
    from flask import Blueprint

#: Parts of the page that its script fetches again while the page is open.
PARTS = {
    "head": "_tuning_head.html",
    "facts": "_tuning_facts.html",
    "pictures": "_tuning_pictures.html",
    "trials": "_tuning_trials.html",
}
#: Why a tuning job made no more training jobs, by the value of Ending.
ENDINGS = {
    "done": "no training job is left to make",
    "target-reached": "the objective has reached TargetObjectiveMetricValue",
    "not-improving": "MaxNumberOfTrainingJobsNotImproving training jobs in a row were no better",
    "max-runtime": "MaxRuntimeInSeconds is over",
    "converged": "the search has converged",
    "hopeless": "the first training jobs had no objective",
    "broken": "the search cannot go on",
}


def _best_so_far(job: TuningJob) -> str:
    return "-" if job.best is None or job.best.objective is None else number(job.best.objective)


def _objective(job: TuningJob) -> str:
    objective = job.spec.definitions[0].objective
    return f"{objective.type} {objective.metric}"


LISTED = ListedKind[TuningJob](
    words="tuning job",
    statuses=[status.value for status in OrchestrationStatus],
    headings=(
        Heading("Created", lambda job: clock(job.created_ms), "created", "created"),
        Heading("Strategy", lambda job: job.spec.strategy, ""),
        Heading("Training jobs", counted),
        Heading("Objective", _objective),
        Heading("Best so far", _best_so_far, "right"),
    ),
    jobs=lambda engine: engine.tuning,
    makers="HyperparameterTuner of the SageMaker SDK and CreateHyperParameterTuningJob make them",
)


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, redirect, render_template, request, url_for

    routes = Blueprint("tuning", __name__, url_prefix=f"{PREFIX}/tuning")

    add_list(routes, site, LISTED)

    @routes.get("/<name>")
    def overview(name: str) -> str:
        """Shows a tuning job. `part=`: only this one of PARTS."""
        job = site.tuning(name)
        part = request.args.get("part", "")
        shown_parts = (part,) if part in PARTS else tuple(PARTS)
        template = PARTS.get(part, "tuning.html")
        return render_template(template, **_values(site, job, shown_parts), tab="overview")

    @routes.get("/<name>/request")
    def code(name: str) -> str:
        job = site.tuning(name)
        endpoint = request.host_url.rstrip("/")
        best = _best(site, job)
        return render_template(
            "tuning_request.html",
            **_values(site, job, ("head",)),
            best=best,
            best_texts=[] if best is None else job_texts(best, endpoint),
            texts=_texts(job, endpoint),
            tab="request",
        )

    @routes.get("/<name>/<any(stop, delete):action>")
    def ask(name: str, action: str) -> str:
        return render_template("tuning_confirm.html", job=site.tuning(name), action=action)

    @routes.post("/<name>/stop")
    def stop(name: str) -> Any:
        site.tunings.stop(context(), {"HyperParameterTuningJobName": name})
        return redirect(url_for("tuning.overview", name=name, **account_region().query), 303)

    @routes.post("/<name>/delete")
    def delete(name: str) -> Any:
        site.tunings.delete(context(), {"HyperParameterTuningJobName": name})
        return redirect(url_for("tuning.listed", **account_region().query), 303)

    return routes


def _values(site: Site, job: TuningJob, parts: Collection[str]) -> TemplateValues:
    """Returns what these parts show. Some of it takes a look at each training job, and only one part needs it."""
    trials = trials_of(site.engine, job)
    values: TemplateValues = {"job": job, "trials": trials, "compared": trials.best_names[:MOST_JOBS]}
    if "facts" in parts:
        values |= {
            "bill": site.engine.tuning.bill(job),
            "compilations": site.engine.reports.compilations(trials.jobs),
            "ending": "" if job.ending is None else ENDINGS.get(job.ending.value, job.ending.value.replace("-", " ")),
            "ranges": [(one, list(_ranges(one.ranges))) for one in job.spec.definitions],
        }
    if "pictures" in parts:
        drawn = pictures(job, trials.trials)
        frame = {"width": WIDTH, "height": HEIGHT, "bottom": HEIGHT - BOTTOM, "right": WIDTH - RIGHT}
        values |= {"pictures": drawn, "frame": frame, "detailed": _points(drawn) <= DETAILED}
    return values


def _points(drawn: list[Scatter]) -> int:
    return sum(len(one.points) for one in drawn)


def _ranges(ranges: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """Yields name, kind, range and scale of each hyperparameter, as the request has them."""
    for member, kind in (("IntegerParameterRanges", "integer"), ("ContinuousParameterRanges", "continuous")):
        for one in ranges.get(member, ()):
            yield one["Name"], kind, f"{one['MinValue']} to {one['MaxValue']}", one.get("ScalingType", "Auto")
    for one in ranges.get("CategoricalParameterRanges", ()):
        yield one["Name"], "categorical", ", ".join(one["Values"]), ""


def _best(site: Site, job: TuningJob) -> TrainingJob | None:
    """Returns the best training job so far. None if there is none, or if it was deleted."""
    if job.best is None:
        return None
    try:
        return site.engine.jobs.get(child_key(job, job.best))
    except JobNotFound:
        return None


def _texts(job: TuningJob, endpoint: str) -> list[Text]:
    """Returns the request of the tuning job itself in each form."""
    tags = [{"Key": key, "Value": value} for key, value in job.tags.items()]
    wanted = {**job.request, "Tags": tags} if tags else dict(job.request)
    region, method = job.key.region, "create_hyper_parameter_tuning_job"
    return shown(
        ("tuning-json", "JSON", json.dumps(wanted, indent=2, ensure_ascii=False)),
        ("tuning-boto3", "boto3", boto3_code(wanted, region, endpoint, method)),
        ("tuning-aws-cli", "AWS CLI", cli_code(method.replace("_", "-"), wanted, region, endpoint)),
    )
