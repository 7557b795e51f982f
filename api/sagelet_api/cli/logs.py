"""`sagelet logs`: prints what the hosts of a job print."""

import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge

import click
from rich.console import Console
from rich.status import Status
from rich.text import Text

from sagelet_api.cli.aws_client import Aws
from sagelet_api.cli.control_client import ServerRefused
from sagelet_api.cli.kind_rows import described, named
from sagelet_api.cli.kinds import Job, Kind
from sagelet_api.cli.options import server_options
from sagelet_api.cli.output import console
from sagelet_api.cli.text import say
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.cli.wait import outcome, said_to_run_on
from sagelet_api.protocol.members import Parameters
from sagelet_api.servers.server import Server

#: Seconds between looks for new lines.
EVERY = 0.5
#: The most lines that GetLogEvents returns at once.
PAGE = 10_000
_STREAM = re.compile(r"/(algo-(\d+))")
_COLOURS = ("cyan", "magenta", "green", "yellow", "blue")


@dataclass(frozen=True, order=True)
class Line:
    time_ms: int
    host: str
    text: str


class Stream:
    """The log stream of one attempt of one host. It is read on from the last position."""

    def __init__(self, aws: Aws, group: str, name: str, tail: int | None) -> None:
        self._aws = aws
        self._group = group
        self._name = name
        found = _STREAM.search(name)
        self.host = found[1] if found else name
        self._token: Parameters = {}
        self._tail = tail

    def lines(self) -> Iterator[Line]:
        """Yields the lines since the last call. The first call yields only the last `tail` lines."""
        while True:
            first: Parameters = {"startFromHead": True}
            if self._tail is not None:
                first, self._tail = {"startFromHead": False, "limit": self._tail}, None
            page = self._aws.call(
                "logs", "get_log_events", logGroupName=self._group, logStreamName=self._name, **{**first, **self._token}
            )
            self._token = {"nextToken": page["nextForwardToken"]}
            for event in page["events"]:
                yield Line(event["timestamp"], self.host, event["message"])
            if not page["events"]:
                return


class JobLog:
    """All existing streams of a job."""

    def __init__(self, aws: Aws, job: str, host: int | None, tail: int | None, kind: Kind = TRAINING) -> None:
        self._aws = aws
        self.kind = kind
        self._prefix = f"{job}/" if host is None else f"{job}/algo-{host}-"
        self._tail = tail
        self.host = host
        self.streams: dict[str, Stream] = {}

    def look(self) -> None:
        """Adds new streams, of hosts and attempts."""
        try:
            pages = self._aws.pages(
                "logs", "describe_log_streams", logGroupName=self.kind.log_group, logStreamNamePrefix=self._prefix
            )
            names = [stream["logStreamName"] for page in pages for stream in page["logStreams"]]
        except ServerRefused as refused:
            # The log group is made with its first stream.
            if refused.code != "ResourceNotFoundException":
                raise
            return
        for name in names:
            if name not in self.streams:
                self.streams[name] = Stream(self._aws, self.kind.log_group, name, self._tail)

    def lines(self) -> Iterator[Line]:
        """Yields new lines of all hosts, in the order of time."""
        return merge(*(stream.lines() for stream in self.streams.values()))


class Printer:
    """Writes lines and, on a terminal, a line below them that says what the job does."""

    def __init__(self, out: Console, *, as_json: bool, timestamps: bool) -> None:
        self._out = out
        self._as_json = as_json
        self._timestamps = timestamps
        self._status: Status | None = None

    def write(self, lines: Iterator[Line], several: bool) -> bool:
        """Writes lines. Returns whether there were any."""
        if self._as_json or not self._out.is_terminal:
            count = 0
            for line in lines:
                sys.stdout.write(self._plain(line, several) + "\n")
                count += 1
            sys.stdout.flush()
            return count > 0
        seen = False
        for line in lines:
            self._out.print(self._coloured(line, several), soft_wrap=True)
            seen = True
        return seen

    def tell(self, words: str) -> None:
        if self._as_json or not self._out.is_terminal:
            return
        if self._status is None:
            self._status = self._out.status("")
            self._status.start()
        self._status.update(Text(words))

    def close(self) -> None:
        if self._status is not None:
            self._status.stop()

    def _plain(self, line: Line, several: bool) -> str:
        if self._as_json:
            found = {"timestamp": line.time_ms, "host": line.host, "message": line.text}
            return json.dumps(found, ensure_ascii=False)
        return self._head(line, several) + line.text

    def _coloured(self, line: Line, several: bool) -> Text:
        number = int(line.host.rpartition("-")[2]) if line.host[-1:].isascii() and line.host[-1:].isdigit() else 0
        colour = _COLOURS[number % len(_COLOURS)]
        return Text.assemble((self._head(line, several), colour), Text.from_ansi(line.text))

    def _head(self, line: Line, several: bool) -> str:
        stamp = ""
        if self._timestamps:
            moment = time.gmtime(line.time_ms / 1000)
            stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', moment)}.{line.time_ms % 1000:03d}Z "
        return f"{stamp}{line.host}: " if several else stamp


def logs_command(kind: Kind) -> click.Command:
    """Returns the command that prints the log of a job of a kind."""

    @click.command("logs", help=_help(kind))
    @named(kind)
    @click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
    @click.option("--host", type=click.IntRange(min=1), help="Only the host algo-N.")
    @click.option("--tail", type=click.IntRange(1, PAGE), help="Begin with this many last lines of each host.")
    @click.option("-t", "--timestamps", is_flag=True, help="Print the time (UTC) of each line before it.")
    @click.option("--json", "as_json", is_flag=True, help="A JSON object a line: timestamp (ms), host, message.")
    @server_options
    def logs(
        name: str, follow: bool, host: int | None, tail: int | None, timestamps: bool, as_json: bool, server: Server
    ) -> None:
        aws = Aws(server)
        job = described(kind, aws, server, name)
        hosts = _host_count(kind, job)
        if host is not None and host > hosts:
            raise click.BadParameter(f"{name} has {hosts} host{'s' if hosts > 1 else ''}", param_hint="--host")
        printer = Printer(console(), as_json=as_json, timestamps=timestamps)
        log = JobLog(aws, name, host, tail, kind)
        job, seen = print_log(aws, server, job, log, printer, follow=follow)
        if not seen:
            click.echo(f"{name} ({kind.state(job)}) has printed nothing", err=True)
        elif follow:
            say(outcome(aws, job, kind) if kind is not TRAINING else f"{name}: {kind.status(job)}", err=True)

    return logs


def _help(kind: Kind) -> str:
    return (
        f"Print the log of a {kind.words}.\n\nPrints the lines of all hosts in the order of time, with the host before "
        "each line if there are several hosts."
    )


def print_log(aws: Aws, server: Server, job: Job, log: JobLog, printer: Printer, *, follow: bool) -> tuple[Job, bool]:
    """Prints the log, with `follow` to its end. Returns the job at the time of reading, and whether anything was
    printed.
    """
    kind = log.kind
    name = kind.name(job)
    several = _host_count(kind, job) > 1 and log.host is None
    try:
        seen = _print(printer, log, several)
        # All lines are stored before a status becomes terminal, so a later read finds all of them.
        with said_to_run_on([name] if follow else [], kind):
            while follow and not kind.has_ended(job):
                printer.tell(kind.doing(server, job))
                time.sleep(EVERY)
                job = described(kind, aws, server, name)
                seen = _print(printer, log, several) or seen
    finally:
        printer.close()
    return job, seen


def _print(printer: Printer, log: JobLog, several: bool) -> bool:
    log.look()
    return printer.write(log.lines(), several)


def _host_count(kind: Kind, job: Job) -> int:
    assert kind.hosts is not None, f"{kind.words}s have no log"
    return kind.hosts(job)


logs = logs_command(TRAINING)
