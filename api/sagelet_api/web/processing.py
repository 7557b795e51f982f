"""The pages of processing jobs: the list, and how one job went, with the end of its log."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from sagelet_api.display import clock
from sagelet_api.web import PREFIX
from sagelet_api.web.columns import hosts_text, instances_text, ran_text
from sagelet_api.web.lists import Heading, ListedKind, add_list
from sagelet_api.web.logs import LIMIT, streams_of, window
from sagelet_api.web.site import Site, TemplateValues, account_region, found
from sagelet_api.web.streams import Streams
from sagelet_api.web.timeline import timeline
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.job import JobKey, JobKind, JobStatus
from sagelet_engine.model.log_events import LogStream
from sagelet_engine.model.processing import ProcessingJob

if TYPE_CHECKING:
    from flask import Blueprint, Response

#: Parts of a job's page that its script fetches again while the page is open.
PARTS = {
    "head": "_processing_head.html",
    "timeline": "_timeline.html",
    "facts": "_processing_facts.html",
}


class HostLog(NamedTuple):
    """The last lines of a host: number, time in ms, text."""

    stream: LogStream
    lines: Sequence[tuple[int, int, str]]


LISTED = ListedKind[ProcessingJob](
    words="processing job",
    statuses=[status.value for status in JobStatus],
    headings=(
        Heading("Created", lambda job: clock(job.created_ms), "created", "created"),
        Heading("Ran for", ran_text, "right"),
        Heading("Instances", instances_text, "instances"),
        Heading("Message", lambda job: job.failure_reason or job.exit_message or "", "value reason"),
    ),
    jobs=lambda engine: engine.processing,
    makers="Processors of the SageMaker SDK and CreateProcessingJob make them",
)


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, render_template, request

    routes = Blueprint("processing", __name__, url_prefix=f"{PREFIX}/processing")
    streams = Streams(site.engine.changes)

    add_list(routes, site, LISTED)

    @routes.get("/<name>")
    def overview(name: str) -> str:
        """Shows a job. `part=`: only this one of PARTS."""
        template = PARTS.get(request.args.get("part", ""), "processing_job.html")
        return render_template(template, **_facts(site, _job(site, name)))

    @routes.get("/<name>/events")
    def events(name: str) -> "Response":
        """Sends news of one job, as of training jobs."""
        key = _job(site, name).key

        def look() -> tuple[str, JsonObject]:
            job = site.engine.processing.get(key)
            lines = {stream.name: stream.events for stream in streams_of(site.engine, job)}
            return f"{job.id}-{job.version}-{sum(lines.values())}", {"version": job.version, "lines": lines}

        return streams.answer(look)

    return routes


def _job(site: Site, name: str) -> ProcessingJob:
    """Returns the job in the account and region of the request. Raises werkzeug's NotFound."""
    here = account_region()
    with found(name):
        return site.engine.processing.get(JobKey(here.account, here.region, name, JobKind.PROCESSING))


def _facts(site: Site, job: ProcessingJob) -> TemplateValues:
    engine = site.engine
    logs = [
        HostLog(stream, window(engine, stream, max(0, stream.events - LIMIT), stream.events))
        for stream in streams_of(engine, job)
    ]
    return {
        "job": job,
        "ran": ran_text(job),
        "hosts": hosts_text(job),
        "command": " ".join([*job.spec.entrypoint, *job.spec.arguments]),
        "findings": engine.reports.findings(job.key) if job.terminal else (),
        "bill": engine.reports.bill(job),
        "execution": engine.pipelines.maker(job),
        "timeline": timeline(job, engine.now_ms()),
        "logs": logs,
    }
