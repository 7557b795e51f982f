"""`sagelet report`: shows what compiling did for a job."""

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sagelet_api.cli.kind_rows import named, naming_its_kind
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import console
from sagelet_api.cli.text import echo_json
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.servers.server import Server
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.rows import other_rows, rows
from sagelet_engine.telemetry.compiler.text import counted, duration, heading, size, summary
from sagelet_engine.telemetry.compiler.worker import CallSite

#: Lines of the tables of places, shapes and operations.
MOST = 10


@click.command()
@named(TRAINING)
@json_option
@server_options
def report(name: str, as_json: bool, server: Server) -> None:
    """Show what compiling did for a job.

    Shows compilations, steps, transfers and graph breaks, by worker and by line of the script, also while it runs.
    --json gives the report as `sagelet docs compiler-report` describes it.
    """
    with naming_its_kind(TRAINING, server, name):
        answer = TRAINING.ask(server, name, "compiler-report")
    if as_json:
        echo_json(answer)
        return
    show(CompilerReport.from_json(answer), console())


def show(found: CompilerReport, out: Console) -> None:
    state = "" if found.final else ", so far"
    out.print(f"{found.job}: {heading(found)}, {counted(len(found.workers), 'worker')}{state}", markup=False)
    out.print(_figures(found))
    if len(found.workers) > 1:
        out.print(_workers(found))
    for table in (_others(found), *_details(found)):
        if table.row_count:
            out.print(table)
    if found.compiled:
        out.print(summary(found), markup=False)


def _figures(found: CompilerReport) -> Table:
    table = Table(show_header=False)
    for name, value in rows(found.total, compiled=found.compiled, by_inductor=found.compiler == "inductor"):
        _add(table, name, value)
    return table


def _others(found: CompilerReport) -> Table:
    table = Table("the same steps take", "by earlier job", "steady step", "compiling", "in all")
    for row in other_rows(found.others):
        _add(table, *row)
    return table


def _workers(found: CompilerReport) -> Table:
    table = Table("worker", "host", "steps", "compilations", "compiling", "steady step", "peak memory")
    for one in found.workers:
        _add(table,
            str(one.rank), one.host, str(one.steps), str(one.compiles), duration(one.compile_seconds),
            duration(one.steady_step_seconds), size(one.memory.peak_bytes),
        )  # fmt: skip
    return table


def _details(found: CompilerReport) -> list[Table]:
    total = found.total
    fallbacks = Table("part that runs natively" if found.compiler == "inductor" else "operation on the CPU", "times")
    for operation, count in list(total.fallbacks.items())[:MOST]:
        _add(fallbacks, operation, str(count))
    shapes = Table("batch shape", "batches")
    for one in total.batch_shapes[:MOST]:
        _add(shapes, " x ".join(map(str, one.shape)), str(one.count))
    waits = tuple(sorted(total.waits, key=lambda one: -one.seconds))
    return [_places("waited for the device", waits), _places("XLA tensors saved", total.saves), fallbacks, shapes]


def _add(table: Table, *cells: str) -> None:
    """Adds rows as they are: names in a script are not markup."""
    table.add_row(*map(Text, cells))


def _places(title: str, places: tuple[CallSite, ...]) -> Table:
    table = Table(title, "where", "by", "times", "took")
    for one in places[:MOST]:
        where = f"{one.file}:{one.line} {one.function}" if one.file else ""
        _add(table, one.call, where, one.via, str(one.count or ""), duration(one.seconds))
    return table
