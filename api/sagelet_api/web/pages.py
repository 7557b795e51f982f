"""The list of jobs."""

from typing import TYPE_CHECKING, Any

from sagelet_api.web import PREFIX
from sagelet_api.web.listing import Asked, listing
from sagelet_api.web.site import Site, context, place, without
from sagelet_engine.model.job import JobStatus

if TYPE_CHECKING:
    from flask import Blueprint


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, redirect, render_template, request, url_for

    routes = Blueprint("pages", __name__)

    @routes.get("/")
    def jobs() -> str:
        """`?q=&status=&sort=&order=&token=`; `part=rows`: the table alone, for a page that is shown already."""
        asked = Asked.of(request.args)
        shown = listing(site.engine, context(), asked)
        template = "_jobs.html" if request.args.get("part") == "rows" else "jobs.html"
        return render_template(template, **_list_values(site, asked), shown=shown)

    @routes.get(f"{PREFIX}/")
    def home() -> Any:
        return redirect(url_for("pages.jobs", **place().query))

    return routes


def _list_values(site: Site, asked: Asked) -> dict[str, Any]:
    from flask import request

    here = place()
    counts = site.engine.jobs.counts(here.account, here.region)
    statuses = [(status.value, counts.get(status.value, 0)) for status in JobStatus]
    places = site.engine.jobs.places()
    if (here.account, here.region) not in places:
        places.append((here.account, here.region))
    query = without(request.args.to_dict(), "part")
    return {
        "asked": asked,
        "counts": statuses,
        "total": sum(counts.values()),
        "places": places,
        "query": query,
        "first": without(query, "token"),
        "statuses": without(query, "token", "status"),
        "sorts": without(query, "token", "sort", "order"),
    }
