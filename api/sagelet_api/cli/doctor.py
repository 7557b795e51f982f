"""`sagelet doctor`: what in a job costs time or made it fail, and what to write instead."""

from typing import Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from sagelet_api.cli.control_client import ask
from sagelet_api.cli.options import Server, json_option, server_options
from sagelet_api.cli.output import console, echo_json
from sagelet_api.cli.training_jobs import JobName, known
from sagelet_engine.doctor.text import place

COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


@click.command()
@click.argument("job", type=JobName())
@json_option
@server_options
def doctor(job: str, as_json: bool, server: Server) -> None:
    """What in a job costs time or made it fail.

    AWS's best practices for compiled training, on the job's report and scripts; also while the job runs.
    """
    with known(server, job):
        answer = ask("GET", server.job_url(job, "doctor"))
    if as_json:
        echo_json(answer)
        return
    show(answer, console())


def show(answer: dict[str, Any], out: Console) -> None:
    findings = answer["findings"]
    name, status = answer["TrainingJobName"], answer["TrainingJobStatus"]
    count = f"{len(findings)} finding{'s' if len(findings) > 1 else ''}" if findings else "no findings"
    out.print(Text(f"{name} ({status}): {count}"))
    for finding in findings:
        out.print()
        head = Text.assemble(
            (finding["severity"], f"bold {COLOURS[finding['severity']]}"), " ", (finding["rule"], "bold"), " ",
            place(finding),
        )  # fmt: skip
        out.print(head)
        for title in ("seen", "why", "instead"):
            out.print(Padding(Text.assemble((f"{title}: ", "dim"), finding[title]), (0, 0, 0, 2), expand=False))
        # In one piece, for a terminal to open it.
        out.print(Text.assemble("  ", ("AWS: ", "dim"), finding["source"]), soft_wrap=True)
