"""The page of a comparison, and the form that asks for one."""

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from sagelet_api.comparison.view import view
from sagelet_api.control.compare import anyway_asked_for, keys_asked_for
from sagelet_api.web import PREFIX
from sagelet_api.web.site import Place, Site, place
from sagelet_engine.comparison.comparing import CannotCompare, NotComparable
from sagelet_engine.comparison.result import Job
from sagelet_engine.model.listing import JobQuery
from sagelet_engine.model.training import TrainingJob

if TYPE_CHECKING:
    from flask import Blueprint

#: Jobs that the form proposes, newest first.
PROPOSED = 100


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, render_template, request

    routes = Blueprint(
        "compare",
        "sagelet_api.comparison",
        template_folder="templates",
        static_folder="static",
        static_url_path=f"{PREFIX}/compare/static",
    )

    def form(**values: Any) -> str:
        asked = request.args.getlist("job")
        return render_template("compare.html", asked=asked, proposed=_proposed(site), **values)

    @routes.get(f"{PREFIX}/compare")
    def page() -> Any:
        """`?job=A&job=B&anyway=1`; without two jobs: the form."""
        keys = keys_asked_for(site.engine)
        if len(keys) < 2:
            return form()
        try:
            comparison = site.engine.reports.compare(keys, anyway=anyway_asked_for())
        except CannotCompare as error:
            return form(error=str(error)), 400
        except NotComparable as error:
            query = urlencode([*request.args.items(multi=True), ("anyway", "1")])
            return form(differences=error.differences, all_the_same=f"?{query}"), 409
        return form(view=view(comparison), link=_link)

    return routes


def _link(job: Job) -> str:
    query = Place(job.account, job.region).query
    return f"{PREFIX}/jobs/{quote(job.name)}" + (f"?{urlencode(query)}" if query else "")


def _proposed(site: Site) -> list[TrainingJob]:
    here = place()
    query = JobQuery(here.account, here.region, ascending=False, limit=PROPOSED)
    return site.engine.jobs.page(query).jobs
