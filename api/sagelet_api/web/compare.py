"""The page that compares jobs: a picker, what they ask for, their figures, and their curves over each other."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import quote, urlencode

from sagelet_api.comparison.view import view
from sagelet_api.control.compare import anyway_asked_for, keys_asked_for, steps_asked_for
from sagelet_api.web import PREFIX
from sagelet_api.web.curves import TIME, Chart, axes, charts, curves, over
from sagelet_api.web.differences import side_by_side
from sagelet_api.web.listing import Asked, listing
from sagelet_api.web.site import AccountRegion, Site, TemplateValues, account_region, context
from sagelet_engine.comparison.comparing import MOST_JOBS, CannotCompare, NotComparable
from sagelet_engine.comparison.result import Job
from sagelet_engine.model.job import JobKey, JobStatus
from sagelet_engine.model.training import TrainingJob

if TYPE_CHECKING:
    from flask import Blueprint


class Drawn(TypedDict):
    """What `charts.js` draws."""

    #: What the horizontal axis may count, and what it counts.
    axes: list[str]
    axis: str
    #: By section.
    charts: dict[str, list[Chart]]


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, render_template, request

    routes = Blueprint(
        "compare",
        "sagelet_api.comparison",
        template_folder="templates",
        static_folder="static",
        static_url_path=f"{PREFIX}/compare/static",
    )

    @routes.get(f"{PREFIX}/compare")
    def page() -> Any:
        """Shows the comparison: `?job=A&job=B&first=B&anyway=1&steps=N`. With `pick`, or without two jobs: the picker,
        `&q=&status=&token=`."""
        jobs = _jobs(site)
        values: TemplateValues = {**_picker(site, jobs), "picking": len(jobs) < 2 or "pick" in request.args}
        status = 200
        if not values["picking"]:
            found, status = _figures(site, [job.key for job in jobs])
            values |= {**found, "sides": side_by_side(jobs), "names": _names(jobs)}
        return render_template("compare.html", **values), status

    @routes.get(f"{PREFIX}/compare/curves")
    def drawn() -> Drawn:
        """Returns charts of all jobs' metrics for `charts.js`. `?over=`: time, sample, or a metric of progress."""
        jobs = _jobs(site)[:MOST_JOBS]
        found = [
            replace(curve, job=name, rank=rank)
            for rank, (job, name) in enumerate(zip(jobs, _names(jobs), strict=True))
            for curve in curves(site.engine, job)
        ]
        possible = axes(found)
        axis = request.args.get("over", TIME)
        axis = axis if axis in possible else TIME
        return {"axes": possible, "axis": axis, "charts": charts(over(found, axis), axis)}

    return routes


def _jobs(site: Site) -> list[TrainingJob]:
    """Returns the jobs of the request, `first` in front. Raises a 404 for a missing job."""
    from flask import request

    jobs = [site.engine.jobs.get(key) for key in dict.fromkeys(keys_asked_for(site.engine))]
    first = request.args.get("first", "")
    return sorted(jobs, key=lambda job: job.key.name != first and job.key.arn != first) if first else jobs


def _figures(site: Site, keys: Sequence[JobKey]) -> tuple[TemplateValues, int]:
    """Returns template values and an HTTP status: the comparison, or the reason why there is none."""
    from flask import request

    try:
        comparison = site.engine.reports.compare(keys, anyway=anyway_asked_for(), steps=steps_asked_for())
    except CannotCompare as error:
        return {"error": str(error)}, 400
    except NotComparable as error:
        query = urlencode([*request.args.items(multi=True), ("anyway", "1")])
        return {"differences": error.differences, "all_the_same": f"?{query}"}, 200
    return {"view": view(comparison), "link": _link}, 200


def _picker(site: Site, jobs: Sequence[TrainingJob]) -> TemplateValues:
    """Returns the jobs that are chosen, and those that a search finds beside them."""
    from flask import request

    asked = Asked.of(request.args)
    found = listing(site.engine, context(), asked)
    chosen = {job.id for job in jobs}
    return {
        "chosen": jobs,
        "asked": asked,
        "found": [job for job in found.jobs if job.id not in chosen],
        "next_token": found.next_token,
        "statuses": [status.value for status in JobStatus],
        "value_of": lambda job: job.key.name if _is_here(job) else job.key.arn,
    }


def _is_here(job: TrainingJob) -> bool:
    here = account_region()
    return (job.key.account, job.key.region) == (here.account, here.region)


def _names(jobs: Sequence[TrainingJob]) -> list[str]:
    """Returns the jobs' names, with account and region if two have the same name."""
    names = [job.key.name for job in jobs]
    return [
        job.key.name if names.count(job.key.name) == 1 else f"{job.key.name} ({job.key.account}, {job.key.region})"
        for job in jobs
    ]


def _link(job: Job) -> str:
    query = AccountRegion(job.account, job.region).query
    return f"{PREFIX}/jobs/{quote(job.name)}" + (f"?{urlencode(query)}" if query else "")
