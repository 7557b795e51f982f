"""`sagelet report`: what compiling did for a job."""

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sagelet_api.cli.control_client import ask
from sagelet_api.cli.options import Server, json_option, server_options
from sagelet_api.cli.output import console, echo_json
from sagelet_api.cli.training_jobs import JobName
from sagelet_engine.telemetry.compiler.report import CompilerReport
from sagelet_engine.telemetry.compiler.text import duration, size, summary
from sagelet_engine.telemetry.compiler.worker import Figures, Place

#: Lines of the tables of places, shapes and operations.
MOST = 10


@click.command()
@click.argument("name", metavar="JOB", type=JobName())
@json_option
@server_options
def report(name: str, as_json: bool, server: Server) -> None:
    """Show what compiling did for a job.

    Compilations, steps, transfers, graph breaks, by worker and by line of the script; also while it runs. --json gives
    the report as docs/reference/compiler-report.md describes it.
    """
    answer = ask("GET", server.job_url(name, "compiler-report"))
    if as_json:
        echo_json(answer)
        return
    show(CompilerReport.from_json(answer), console())


def show(found: CompilerReport, out: Console) -> None:
    state = "" if found.final else ", so far"
    how = f"compiled on {found.platform}" if found.compiled else "trained natively"
    how += f" (NOT COMPILED: {found.reason})" if found.reason else ""
    out.print(f"{found.job}: {how}, {len(found.workers)} worker(s){state}", markup=False)
    out.print(_figures(found))
    if len(found.workers) > 1:
        out.print(_workers(found))
    for table in _details(found.total):
        if table.row_count:
            out.print(table)
    if found.compiled:
        out.print(summary(found), markup=False)


def _figures(found: CompilerReport) -> Table:
    table = Table(show_header=False)
    for name, value in _rows(found.total, compiled=found.compiled):
        _add(table, name, value)
    return table


def _rows(total: Figures, *, compiled: bool) -> list[tuple[str, str]]:
    rows = [
        ("steps", f"{total.steps}"),
        ("first step", duration(total.first_step_seconds)),
        ("steady step", f"{duration(total.steady_step_seconds)} (95 %: {duration(total.step_seconds.p95)})"),
        ("samples per second", f"{total.samples_per_second:.4g}" if total.samples_per_second else "not known"),
        ("waited for input", duration(total.input_wait_seconds)),
        (f"peak memory ({total.memory.kind or '-'})", size(total.memory.peak_bytes)),
    ]
    if compiled:
        rows += _compiler_rows(total)
    if total.collectives.count:
        one = total.collectives
        exchanged = f"{one.count}, {size(one.bytes)}, {duration(one.seconds)}, {one.share:.0%} of the steps' time"
        rows.append(("collectives", exchanged))
    return rows


def _compiler_rows(total: Figures) -> list[tuple[str, str]]:
    steps = ", ".join(map(str, total.compiling_steps[:MOST]))
    cache = total.cache
    sent, fetched = total.transfers.to_device, total.transfers.from_device
    return [
        ("compilations", f"{total.compiles} in {duration(total.compile_seconds)}"),
        ("compiling steps", f"{total.compiling_step_count}: {steps}" if steps else "none"),
        ("compile cache", f"{cache.hits} hits, {cache.misses} misses" if cache.enabled else f"off: {cache.reason}"),
        ("executions", f"{total.executions} in {duration(total.execute_seconds)}"),
        ("graph breaks", f"{total.graph.breaks} ({total.graph.breaks_per_step:.3g} a step)"),
        ("to device", f"{sent.count} transfers, {size(sent.bytes)}"),
        ("from device", f"{fetched.count} transfers, {size(fetched.bytes)}"),
    ]


def _workers(found: CompilerReport) -> Table:
    table = Table("worker", "host", "steps", "compilations", "compiling", "steady step", "peak memory")
    for one in found.workers:
        _add(table,
            str(one.rank), one.host, str(one.steps), str(one.compiles), duration(one.compile_seconds),
            duration(one.steady_step_seconds), size(one.memory.peak_bytes),
        )  # fmt: skip
    return table


def _details(total: Figures) -> list[Table]:
    fallbacks = Table("operation on the CPU", "times")
    for operation, count in list(total.fallbacks.items())[:MOST]:
        _add(fallbacks, operation, str(count))
    shapes = Table("batch shape", "batches")
    for one in total.batch_shapes[:MOST]:
        _add(shapes, " x ".join(map(str, one.shape)), str(one.count))
    return [_places("value read", total.evaluations), _places("XLA tensors saved", total.saves), fallbacks, shapes]


def _add(table: Table, *cells: str) -> None:
    """As they are: what a script calls itself is no markup."""
    table.add_row(*map(Text, cells))


def _places(title: str, places: tuple[Place, ...]) -> Table:
    table = Table(title, "where", "by", "times", "took")
    for one in places[:MOST]:
        where = f"{one.file}:{one.line} {one.function}" if one.file else ""
        _add(table, one.call, where, one.via, str(one.count), duration(one.seconds))
    return table
