"""`sagelet interrupt`: a spot interruption of a running job."""

import click

from sagelet_api.cli.control_client import ask, job_url, server_options


@click.command()
@click.argument("name")
@server_options
def interrupt(name: str, endpoint: str, account: str, region: str) -> None:
    """Interrupt the managed spot job NAME: SIGTERM, the grace, a last sync of checkpoints; then it starts again."""
    answer = ask("POST", job_url(endpoint, account, region, name, "interrupt"))
    click.echo(f"{name}: {answer['SecondaryStatus']} in its attempt {answer['Attempt']}")
