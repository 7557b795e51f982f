"""`sagelet doctor`: checks this machine, or finds what costs time in a job or made it fail, with the remedies."""

import os
import re
from collections.abc import Sequence
from dataclasses import asdict

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sagelet_api.cli.exit_codes import DONE, ERROR
from sagelet_api.cli.kind_rows import naming_its_kind
from sagelet_api.cli.kinds import JobName
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.output import console
from sagelet_api.cli.text import echo_json
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.servers.server import Server
from sagelet_engine.doctor.text import place
from sagelet_engine.machine.check import Check
from sagelet_engine.settings import DEFAULT_PORT
from sagelet_engine.telemetry.compiler.report import KeptFinding

COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


@click.command()
@click.argument("job", required=False, type=JobName(TRAINING))
@json_option
@click.pass_context
@server_options
def doctor(context: click.Context, job: str | None, as_json: bool, server: Server) -> None:
    """Check this machine, or what a job does wrong.

    Without JOB: Docker, image, packages, GPUs and NVIDIA's toolkit, disk, port, and the SDKs found, each with what to
    do about it; exits with 1 when something is missing that jobs need. With JOB: what in it costs time or made it
    fail, by AWS's best practices for compiled training; also while it runs.
    """
    if job is None:
        context.exit(_machine(server, as_json=as_json))
    with naming_its_kind(TRAINING, server, job):
        answer = TRAINING.ask(server, job, "doctor")
    if as_json:
        echo_json(answer)
        return
    show(answer["TrainingJobName"], answer["TrainingJobStatus"], answer["findings"], console())


def _machine(server: Server, *, as_json: bool) -> int:
    from sagelet_api.cli.sdks import check_sdks
    from sagelet_engine.machine.checks import check_machine

    out = console()
    with console(stderr=True).status("looking at this machine"):
        checks = [*check_machine(server.data, _port()), *check_sdks()]
    if as_json:
        echo_json([asdict(check) for check in checks])
    else:
        show_checks(checks, out)
    return DONE if all(check.good or not check.needed for check in checks) else ERROR


def _port() -> int:
    """Returns the port that `sagelet up` would take: SAGELET_PORT's, if that is a port."""
    given = os.environ.get("SAGELET_PORT", "")
    return int(given) if re.fullmatch(r"[1-9]\d{0,4}", given, re.ASCII) and int(given) < 65536 else DEFAULT_PORT


def show_checks(checks: Sequence[Check], out: Console) -> None:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for check in checks:
        mark = ("ok", "green") if check.good else ("BAD", "bold red") if check.needed else ("note", "yellow")
        found, remedy = Text(check.found), Text.assemble(("-> ", "dim"), check.remedy)
        if check.remedy and not out.is_terminal:
            # For programs, each check is one line.
            table.add_row(Text(*mark), check.name, Text(" ").join((found, remedy)))
            continue
        table.add_row(Text(*mark), check.name, found)
        if check.remedy:
            table.add_row("", "", remedy)
    out.print(table)
    bad = sum(not check.good and check.needed for check in checks)
    out.print(Text("Jobs can run here." if not bad else f"{bad} thing{'s' if bad > 1 else ''} to mend first."))


def show(name: str, status: str, findings: Sequence[KeptFinding], out: Console) -> None:
    """Prints the findings about a job of any kind."""
    count = f"{len(findings)} finding{'s' if len(findings) > 1 else ''}" if findings else "no findings"
    out.print(Text(f"{name} ({status}): {count}"))
    for finding in findings:
        out.print()
        head = Text.assemble(
            (finding["severity"], f"bold {COLOURS[finding['severity']]}"), " ", (finding["rule"], "bold"), " ",
            place(finding),
        )  # fmt: skip
        out.print(head)
        for title, text in (("seen", finding["seen"]), ("why", finding["why"]), ("instead", finding["instead"])):
            out.print(Padding(Text.assemble((f"{title}: ", "dim"), text), (0, 0, 0, 2), expand=False))
        # Unbroken, so that a terminal can open it.
        out.print(Text.assemble("  ", ("AWS: ", "dim"), finding["source"]), soft_wrap=True)
