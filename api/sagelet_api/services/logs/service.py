"""CloudWatch Logs for the streams and events of jobs, from the engine's own store."""

import re
from typing import Any

from sagelet_api.protocol import page_tokens
from sagelet_api.protocol.aws_errors import LogsInvalidParameter, LogsResourceNotFound
from sagelet_api.protocol.members import Output, Request
from sagelet_api.protocol.operations import Context, Handler, Operations, SharedOperation
from sagelet_api.services.logs.groups import GroupKey, LogGroupOperations, OtherGroups, group_key_of, is_job_log
from sagelet_api.services.logs.patterns import compile_pattern
from sagelet_engine.engine import Engine
from sagelet_engine.model.arns import arn
from sagelet_engine.model.log_events import LogEvent, LogStream

#: GetLogEvents: "as many log events as can fit in a response size of 1 MB, up to 10,000 log events".
PAGE_EVENTS = 10_000
PAGE_BYTES = 1_048_576
MAX_STREAMS = 50
#: FilterLogEvents looks at no more events than this for one page, so that it answers in time.
SCAN_EVENTS = 100_000
#: A time without an end that SQLite can still count up from.
FOR_EVER = 2**62

#: Direction and sequence number. AWS's tokens have the same length.
TOKEN = re.compile(r"([fb])/([0-9]{1,56})", re.ASCII)


class TrainingLogs:
    """Handlers: each takes the call and its validated request, returns the members of the answer."""

    def __init__(self, engine: Engine, others: OtherGroups) -> None:
        self._engine = engine
        self._groups = LogGroupOperations(engine, others)

    def describe_log_streams(self, context: Context, request: Request) -> Output:
        place = group_key_of(context, request)
        self._require_group(place)
        by_time = request.get("orderBy") == "LastEventTime"
        if by_time and "logStreamNamePrefix" in request:
            raise LogsInvalidParameter("Cannot order by LastEventTime with a logStreamNamePrefix.")
        limit = min(request.get("limit", MAX_STREAMS), MAX_STREAMS)
        streams = self._engine.logs.streams(
            context.account,
            context.region,
            request.get("logStreamNamePrefix", ""),
            kind=place[-1],
            by_time=by_time,
            descending=request.get("descending", False),
            after=_values(context, request, int, str),
            limit=limit + 1,
        )
        answer: Output = {"logStreams": [_stream(place, stream) for stream in streams[:limit]]}
        if len(streams) > limit:
            last = streams[limit - 1]
            answer["nextToken"] = page_tokens.encode(
                page_tokens.fingerprint(context, request), last.last_ms or 0, last.name
            )
        return answer

    def get_log_events(self, context: Context, request: Request) -> Output:
        """Returns a page by sequence numbers. So tokens stay valid, and the last forward token leads to later
        events.
        """
        group = group_key_of(context, request)
        stream = self._stream(group, request["logStreamName"])
        place = _place(request)
        backward = "below" in place or (not place and not request.get("startFromHead", False))
        events = self._engine.logs.events(
            stream,
            start_ms=max(request.get("startTime", 0), self._engine.log_groups.oldest_ms(*group)),
            end_ms=request.get("endTime", FOR_EVER),
            limit=min(request.get("limit", PAGE_EVENTS), PAGE_EVENTS),
            max_bytes=PAGE_BYTES,
            newest_first=backward,
            **place,
        )
        if backward:
            events.reverse()
        here = next(iter(place.values()), 0)
        return {
            "events": [_event(event) for event in events],
            "nextForwardToken": f"f/{events[-1].seq + 1 if events else here:056d}",
            "nextBackwardToken": f"b/{events[0].seq if events else here:056d}",
        }

    def filter_log_events(self, context: Context, request: Request) -> Output:
        """Returns matching events. A page may have fewer than `limit`, or none, and a nextToken, as on AWS if little
        matches.
        """
        matches = compile_pattern(request.get("filterPattern", ""))
        place = group_key_of(context, request)
        start_ms, end_ms = self._window(place, request)
        chosen = self._chosen(place, request, start_ms, end_ms)
        names = {stream.id: stream.name for stream in chosen}
        found = self._engine.logs.merged_events(
            chosen,
            start_ms=start_ms,
            end_ms=end_ms,
            after=_values(context, request, int, int, int) or (),
            matches=matches,
            scan=SCAN_EVENTS,
            limit=min(request.get("limit", PAGE_EVENTS), PAGE_EVENTS),
            max_bytes=PAGE_BYTES,
            newest_first=not request.get("startFromHead", True),
        )
        answer: Output = {
            "events": [
                {**_event(event), "logStreamName": names[stream_id], "eventId": f"{stream_id:019d}{event.seq:037d}"}
                for stream_id, event in found.events
            ],
            "searchedLogStreams": [],
        }
        if found.place is not None:
            answer["nextToken"] = page_tokens.encode(page_tokens.fingerprint(context, request), *found.place)
        return answer

    def delete_log_stream(self, context: Context, request: Request) -> None:
        place = group_key_of(context, request)
        self._require_group(place)
        self._engine.log_groups.delete_stream(self._stream(place, request["logStreamName"]))

    def operations(self) -> Operations:
        """The table for the front."""
        handlers: dict[str, Handler] = {
            "DescribeLogStreams": self.describe_log_streams,
            "GetLogEvents": self.get_log_events,
            "FilterLogEvents": self.filter_log_events,
            "DeleteLogStream": self.delete_log_stream,
        }
        shared = {name: SharedOperation(handler, is_job_log) for name, handler in handlers.items()}
        return {**self._groups.operations(), **shared}

    def _window(self, place: GroupKey, request: Request) -> tuple[int, int]:
        """Returns the times that FilterLogEvents asks for. Its endTime is included, unlike that of GetLogEvents."""
        oldest = self._engine.log_groups.oldest_ms(*place)
        return max(request.get("startTime", 0), oldest), min(request.get("endTime", FOR_EVER), FOR_EVER) + 1

    def _chosen(self, place: GroupKey, request: Request, start_ms: int, end_ms: int) -> list[LogStream]:
        """Returns the streams that FilterLogEvents asks for, without those that have no event in its window."""
        self._require_group(place)
        names, prefix = request.get("logStreamNames"), request.get("logStreamNamePrefix")
        if names and prefix:
            raise LogsInvalidParameter("Parameters logStreamNames and logStreamNamePrefix are mutually exclusive.")
        if names:
            chosen = [self._stream(place, name) for name in dict.fromkeys(names)]
        else:
            chosen = self._engine.logs.streams(*place[:2], prefix or "", kind=place[-1])
        return [
            stream
            for stream in chosen
            if stream.first_ms is not None and stream.first_ms < end_ms and (stream.last_ms or 0) >= start_ms
        ]

    def _require_group(self, place: GroupKey) -> None:
        if not self._engine.log_groups.exists(*place):
            raise LogsResourceNotFound("The specified log group does not exist.")

    def _stream(self, place: GroupKey, name: str) -> LogStream:
        stream = self._engine.logs.stream(*place[:2], name, place[-1])
        if stream is None:
            raise LogsResourceNotFound("The specified log stream does not exist.")
        return stream


def _place(request: Request) -> dict[str, int]:
    """Returns where a page of GetLogEvents starts: at a sequence number, or right before one. Empty without a token."""
    if "nextToken" not in request:
        return {}
    match = TOKEN.fullmatch(request["nextToken"])
    number = int(match[2]) if match else 2**62
    if match is None or number >= 2**62:
        raise _invalid_token()
    return {"at_least" if match[1] == "f" else "below": number}


def _values(context: Context, request: Request, *kinds: type[str] | type[int]) -> tuple[Any, ...] | None:
    """Returns the values in the request's nextToken, or None if it has none."""
    if "nextToken" not in request:
        return None
    values = page_tokens.decode(request["nextToken"], str, *kinds)
    if values is None or values[0] != page_tokens.fingerprint(context, request):
        raise _invalid_token()
    return values[1:]


def _invalid_token() -> LogsInvalidParameter:
    return LogsInvalidParameter("The specified nextToken is invalid.")


def _event(event: LogEvent) -> Output:
    return {"timestamp": event.time_ms, "message": event.text, "ingestionTime": event.ingested_ms}


def _stream(place: GroupKey, stream: LogStream) -> Output:
    account, region, kind = place
    answer: Output = {
        "logStreamName": stream.name,
        "creationTime": stream.created_ms,
        "arn": arn("logs", region, account, f"log-group:{kind.log_group}:log-stream:{stream.name}"),
        "uploadSequenceToken": str(stream.events),
        "storedBytes": 0,
    }
    times = {
        "firstEventTimestamp": stream.first_ms,
        "lastEventTimestamp": stream.last_ms,
        "lastIngestionTime": stream.ingested_ms,
    }
    return answer | {name: time for name, time in times.items() if time is not None}
