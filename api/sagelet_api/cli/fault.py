"""`sagelet fault` and `sagelet throttle`: what a job, or a client, is to meet in a test."""

import click

from sagelet_api.cli.control_client import ask, control_url, job_url, server_options


@click.command()
@click.argument("name")
@click.argument("words", nargs=-1)
@click.option("--clear", is_flag=True, help="The job meets no more faults.")
@server_options
def fault(name: str, words: tuple[str, ...], clear: bool, endpoint: str, account: str, region: str) -> None:
    """Let the job NAME meet faults: the tag sagelet:fault. Without WORDS, show them.

    \b
    starting:SECONDS                 a slow start
    insufficient-capacity:SECONDS    the same, for want of capacity
    unhealthy-instance:SECONDS       the same, for an instance that is replaced
    capacity-error                   the job fails with CapacityError
    internal-server-error[:TIMES][@SECONDS]
                                     InternalServerError, in the first TIMES attempts, after SECONDS of training
    throttling:CALLS                 the next DescribeTrainingJob calls for it are throttled
    """
    if words and clear:
        raise click.UsageError("Give either WORDS or --clear")
    url = job_url(endpoint, account, region, name, "faults")
    if clear:
        answer = ask("DELETE", url)
    elif words:
        answer = ask("PUT", url, {"faults": " ".join(words)})
    else:
        answer = ask("GET", url)
    click.echo(f"{name}: {answer['faults'] or 'no faults'}")


@click.command()
@click.argument("operation", required=False)
@click.argument("calls", type=int, default=1)
@click.option("--service", default="sagemaker", show_default=True, help="sagemaker or logs.")
@click.option("--clear", is_flag=True, help="Nothing is throttled any more, in any account.")
@server_options
def throttle(
    operation: str | None, calls: int, service: str, clear: bool, endpoint: str, account: str, region: str
) -> None:
    """Answer the next CALLS calls of OPERATION ('*': of any) with ThrottlingException. Without OPERATION, show them."""
    if operation and clear:
        raise click.UsageError("Give either OPERATION or --clear")
    url = control_url(endpoint, "faults/throttling")
    if clear:
        answer = ask("DELETE", url)
    elif operation:
        body = {"operation": operation, "calls": calls, "service": service, "account": account, "region": region}
        answer = ask("POST", url, body)
    else:
        answer = ask("GET", url)
    for entry in answer["throttling"]:
        click.echo("{account} {region} {service} {operation}: calls left to throttle: {calls}".format(**entry))
    if not answer["throttling"]:
        click.echo("Nothing is throttled")
