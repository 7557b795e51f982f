"""`sagelet fault` and `sagelet throttle`: cause faults for a job or a client, for tests."""

import click

from sagelet_api.cli.control_client import ask
from sagelet_api.cli.kind_rows import named
from sagelet_api.cli.options import json_option, server_options
from sagelet_api.cli.text import echo_json
from sagelet_api.cli.training_jobs import TRAINING
from sagelet_api.servers.server import Server


@click.command()
@named(TRAINING)
@click.argument("words", nargs=-1)
@click.option("--clear", is_flag=True, help="Remove the job's faults.")
@json_option
@server_options
def fault(name: str, words: tuple[str, ...], clear: bool, as_json: bool, server: Server) -> None:
    """Cause faults in a job on purpose.

    WORDS become its tag sagelet:fault; without WORDS, show them.

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
    if clear:
        answer = TRAINING.ask(server, name, "faults", "DELETE")
    elif words:
        answer = TRAINING.ask(server, name, "faults", "PUT", {"faults": " ".join(words)})
    else:
        answer = TRAINING.ask(server, name, "faults")
    if as_json:
        echo_json(answer)
        return
    click.echo(f"{name}: {answer['faults'] or 'no faults'}")


@click.command()
@click.argument("operation", required=False)
@click.argument("calls", type=int, default=1)
@click.option("--service", default="sagemaker", show_default=True, help="sagemaker or logs.")
@click.option("--clear", is_flag=True, help="End all throttling, in all accounts.")
@json_option
@server_options
def throttle(operation: str | None, calls: int, service: str, clear: bool, as_json: bool, server: Server) -> None:
    """Throttle calls of an operation.

    Answers the next CALLS calls of OPERATION ('*': of any) with ThrottlingException. Without OPERATION, show what is
    left.
    """
    if operation and clear:
        raise click.UsageError("Give either OPERATION or --clear")
    path = "faults/throttling"
    if clear:
        answer = ask(server, "DELETE", path)
    elif operation:
        whose = {"account": server.account, "region": server.region}
        body = {"operation": operation, "calls": calls, "service": service, **whose}
        answer = ask(server, "POST", path, body)
    else:
        answer = ask(server, "GET", path)
    if as_json:
        echo_json(answer)
        return
    for entry in answer["throttling"]:
        click.echo("{account} {region} {service} {operation}: calls left to throttle: {calls}".format(**entry))
    if not answer["throttling"]:
        click.echo("Nothing is throttled")
