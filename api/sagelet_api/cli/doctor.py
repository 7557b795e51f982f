"""`sagelet doctor`: what in a job costs time or made it fail, and what to write instead."""

import json
from typing import Any

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from sagelet_api.cli.control_client import ask, job_url, server_options
from sagelet_engine.doctor.text import place

COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}


@click.command()
@click.argument("job")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@server_options
def doctor(job: str, as_json: bool, endpoint: str, account: str, region: str) -> None:
    """What the doctor finds in JOB: rules of AWS's best practices for compiled training, on its report and script.

    Also while the job runs.
    """
    answer = ask("GET", job_url(endpoint, account, region, job, "doctor"))
    if as_json:
        click.echo(json.dumps(answer, indent=2))
        return
    show(answer, Console(highlight=False))


def show(answer: dict[str, Any], console: Console) -> None:
    findings = answer["findings"]
    name, status = answer["TrainingJobName"], answer["TrainingJobStatus"]
    count = f"{len(findings)} finding{'s' if len(findings) > 1 else ''}" if findings else "no findings"
    console.print(Text(f"{name} ({status}): {count}"))
    for finding in findings:
        console.print()
        head = Text.assemble(
            (finding["severity"], f"bold {COLOURS[finding['severity']]}"), " ", (finding["rule"], "bold"), " ",
            place(finding),
        )  # fmt: skip
        console.print(head)
        for title in ("seen", "why", "instead"):
            console.print(Padding(Text.assemble((f"{title}: ", "dim"), finding[title]), (0, 0, 0, 2), expand=False))
        # In one piece, for a terminal to open it.
        console.print(Text.assemble("  ", ("AWS: ", "dim"), finding["source"]), soft_wrap=True)
