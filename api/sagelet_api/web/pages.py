"""The list of jobs."""

from functools import partial
from typing import TYPE_CHECKING, Any

from sagelet_api.web import PREFIX, columns
from sagelet_api.web.listing import Asked, counts, listing
from sagelet_api.web.lists import by_status, kept, queried
from sagelet_api.web.site import Site, TemplateValues, account_region, context
from sagelet_engine.model.job import JobStatus

#: Other places that an empty list names.
MOST_ELSEWHERE = 5

if TYPE_CHECKING:
    from flask import Blueprint


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, make_response, redirect, render_template, request, url_for

    routes = Blueprint("pages", __name__)

    @routes.get("/")
    def jobs() -> Any:
        """Shows the list. `?q=&status=&sort=&order=&columns=&token=`; `part=rows`: only the table."""
        asked = Asked.of(request.args)
        shown = listing(site.engine, context(), asked)
        chosen = columns.chosen(request.args, request.cookies)
        values = {
            **_list_values(site, asked),
            "shown": shown,
            "columns": chosen,
            "rows": columns.rows(site.engine, shown.jobs, chosen),
        }
        if request.args.get("part") == "rows":
            return render_template("_jobs.html", **values)
        offers = columns.offers(shown.jobs, chosen)
        answer = make_response(render_template("jobs.html", **values, offers=offers))
        if columns.NAME in request.args:
            columns.remember(answer, chosen)
        return answer

    @routes.get(f"{PREFIX}/")
    def home() -> Any:
        return redirect(url_for("pages.jobs", **{**queried(), **account_region().query}))

    return routes


def _list_values(site: Site, asked: Asked) -> TemplateValues:
    here = account_region()
    found = counts(site.engine, context(), asked)
    statuses = [status.value for status in JobStatus]
    places = site.engine.jobs.places()
    elsewhere = [one for one in places if one != (here.account, here.region)]
    if (here.account, here.region) not in places:
        places.append((here.account, here.region))

    return {
        "listed": "pages.jobs",
        "news": "events.jobs",
        "words": "training job",
        "asked": asked,
        "statuses": statuses,
        "counts": by_status(statuses, found),
        "places": places,
        "elsewhere": elsewhere[:MOST_ELSEWHERE],
        "kept": partial(kept, even_empty=columns.NAME),
    }
