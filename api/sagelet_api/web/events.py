"""Server-sent news about the list of training jobs, a job and a tuning job, for open pages."""

from typing import TYPE_CHECKING

from sagelet_api.web import PREFIX
from sagelet_api.web.listing import Asked, listing
from sagelet_api.web.logs import streams_of
from sagelet_api.web.site import Site, account_region, context
from sagelet_api.web.streams import Streams
from sagelet_api.web.trials import state_of
from sagelet_engine.base.wire import JsonObject

if TYPE_CHECKING:
    from flask import Blueprint, Response


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, request

    routes = Blueprint("events", __name__, url_prefix=PREFIX)
    streams = Streams(site.engine.changes)

    @routes.get("/events")
    def jobs() -> "Response":
        """Sends news of the list that `?q=&status=&sort=&order=&token=` select, as on its page."""
        asked, caller = Asked.of(request.args), context()

        def look() -> tuple[str, JsonObject]:
            return listing(site.engine, caller, asked).fingerprint, {}

        return streams.answer(look)

    @routes.get("/tuning/<name>/events")
    def tuning(name: str) -> "Response":
        """Sends news of one tuning job and of its training jobs that run."""
        key = site.tuning(name).key
        return streams.answer(lambda: (state_of(site.engine, site.engine.tuning.get(key)), {}))

    @routes.get("/jobs/<name>/events")
    def job(name: str) -> "Response":
        """Sends news of one job: `version` changes with its record, `lines` says how many lines each log stream has."""
        key = account_region().key(name)
        site.job(name)

        def look() -> tuple[str, JsonObject]:
            job = site.engine.jobs.get(key)
            lines = {stream.name: stream.events for stream in streams_of(site.engine, job)}
            return f"{job.id}-{job.version}-{sum(lines.values())}", {"version": job.version, "lines": lines}

        return streams.answer(look)

    return routes
