"""The log of a job, a window at a time, because a million lines are too many to send at once."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sagelet_api.web import PREFIX
from sagelet_api.web.site import Site
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.engine import Engine
from sagelet_engine.model.job import Job
from sagelet_engine.model.log_events import LogEvent, LogStream

if TYPE_CHECKING:
    from flask import Blueprint, Response

#: The most lines of a window, and its most bytes.
LIMIT = 500
MAX_BYTES = 1024 * 1024
#: Characters of a line that are shown. The file has all of them.
MAX_LINE = 4000
#: Lines that one search looks at before it answers. The page continues from there.
SCAN = 100_000
#: The most lines that one search finds.
MOST_FOUND = 200


def streams_of(engine: Engine, job: Job) -> list[LogStream]:
    """Returns the log streams of a job, attempt by attempt and host by host (algo-2 before algo-10)."""
    streams = engine.logs.streams(job.key.account, job.key.region, f"{job.key.name}/", kind=job.key.kind)
    own = [stream for stream in streams if stream.job_id == job.id]
    return sorted(own, key=lambda stream: (len(stream.host), stream.host, stream.created_ms, stream.id))


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, Response, render_template, request

    routes = Blueprint("log", __name__, url_prefix=f"{PREFIX}/jobs/<name>/log")

    @routes.get("")
    def page(name: str) -> str:
        """Shows the log of the host in `?stream=`, or of the first host. The page's script fetches the lines."""
        job = site.job(name)
        streams = streams_of(site.engine, job)
        chosen = _chosen(streams, request.args.get("stream", ""))
        lines = [] if chosen is None else window(site.engine, chosen, max(0, chosen.events - LIMIT), chosen.events)
        return render_template("log.html", job=job, tab="log", streams=streams, chosen=chosen, lines=lines)

    @routes.get("/lines")
    def lines(name: str) -> JsonObject:
        """Returns up to LIMIT lines from `?stream=&from=` on. With `below`, returns the last lines before that one."""
        stream = _stream(site, name)
        below = request.args.get("below", type=int)
        start = max(0, below - LIMIT) if below is not None else request.args.get("from", 0, type=int)
        end = below if below is not None else start + LIMIT
        return {"total": stream.events, "lines": window(site.engine, stream, start, end, back=below is not None)}

    @routes.get("/find")
    def find(name: str) -> JsonObject:
        """Returns lines that contain a text, from `?stream=&q=&from=`. `next` is where to continue, null at the end."""
        stream = _stream(site, name)
        start = max(0, request.args.get("from", 0, type=int))
        found = site.engine.logs.find(stream, request.args.get("q", ""), at_least=start, scan=SCAN, limit=MOST_FOUND)
        over = found.next >= stream.events
        return {
            "total": stream.events,
            "lines": [_line(event) for event in found.events],
            "next": None if over else found.next,
        }

    @routes.get("/file")
    def file(name: str) -> "Response":
        """Returns the whole log of a host as text."""
        stream = _stream(site, name)
        answer = Response(_text(site.engine, stream), mimetype="text/plain")
        answer.headers.set("Content-Disposition", "attachment", filename=f"{stream.name.replace('/', '-')}.log")
        return answer

    return routes


def _chosen(streams: Sequence[LogStream], name: str) -> LogStream | None:
    return next((stream for stream in streams if stream.name == name), streams[0] if streams else None)


def _stream(site: Site, name: str) -> LogStream:
    from flask import request
    from werkzeug.exceptions import NotFound

    wanted = request.args.get("stream", "")
    for stream in streams_of(site.engine, site.job(name)):
        if stream.name == wanted:
            return stream
    raise NotFound(f"The training job {name} has no log stream {wanted}.")


def window(
    engine: Engine, stream: LogStream, start: int, end: int, *, back: bool = False
) -> list[tuple[int, int, str]]:
    """Returns number, time in ms and text of lines. `back`: if not all of them fit, the last ones."""
    found = engine.logs.events(stream, at_least=start, below=end, limit=LIMIT, max_bytes=MAX_BYTES, newest_first=back)
    return [_line(event) for event in (reversed(found) if back else found)]


def _line(event: LogEvent) -> tuple[int, int, str]:
    text = event.text
    if len(text) > MAX_LINE:
        text = f"{text[:MAX_LINE]} ... ({len(text) - MAX_LINE:,} characters more are in the file)"
    return event.seq, event.time_ms, text


def _text(engine: Engine, stream: LogStream) -> Iterator[bytes]:
    start = 0
    while events := engine.logs.events(stream, at_least=start, limit=10 * LIMIT, max_bytes=MAX_BYTES):
        yield "".join(f"{event.text}\n" for event in events).encode("utf-8", "replace")
        start = events[-1].seq + 1
