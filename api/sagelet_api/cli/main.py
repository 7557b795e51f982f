"""The command `sagelet`."""

from collections.abc import Mapping, Sequence

import click

import sagelet_engine
from sagelet_api.cli.cache import cache
from sagelet_api.cli.compare import compare
from sagelet_api.cli.completion import completion
from sagelet_api.cli.demo import demo
from sagelet_api.cli.describe import describe
from sagelet_api.cli.doctor import doctor
from sagelet_api.cli.exit_codes import INTERRUPTED
from sagelet_api.cli.fault import fault, throttle
from sagelet_api.cli.image import image
from sagelet_api.cli.instances import instances
from sagelet_api.cli.job_actions import delete, interrupt, stop
from sagelet_api.cli.jobs import jobs
from sagelet_api.cli.logs import logs
from sagelet_api.cli.report import report
from sagelet_api.cli.run import env, run
from sagelet_api.cli.s3 import s3
from sagelet_api.cli.state import export, import_, reset
from sagelet_api.cli.status import down, status
from sagelet_api.cli.up import up
from sagelet_api.cli.wait import wait
from sagelet_engine.errors import SageletError

#: As `sagelet --help` shows them.
SECTIONS: Mapping[str, Sequence[click.Command]] = {
    "The server": (up, down, status, doctor),
    "Programs that use it": (demo, run, env),
    "Training jobs": (jobs, describe, logs, wait, stop, interrupt, delete, report, compare),
    "What it has and keeps": (image, instances, cache, s3, reset, export, import_),
    "Tests and shells": (fault, throttle, completion),
}


class Sectioned(click.Group):
    """Commands by sections. Errors that sagelet raises on purpose are one line, with exit code 1."""

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except SageletError as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            # No error: it ends what goes on for ever, with the code that shells give it.
            click.echo(err=True)
            context.exit(INTERRUPTED)

    def list_commands(self, _context: click.Context) -> list[str]:
        return [str(command.name) for commands in SECTIONS.values() for command in commands]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.list_commands(context)))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{command.name:{width}}", command.get_short_help_str(66)) for command in commands]
                )


@click.group(cls=Sectioned, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(sagelet_engine.__version__, prog_name="sagelet")
def main() -> None:
    """A local SageMaker that really runs compiled training jobs.

    The first five minutes: `sagelet doctor` checks this machine, `sagelet demo` trains a small model natively and
    compiled, `sagelet up` starts the server, and `sagelet run -- COMMAND` brings a program of boto3 or the SageMaker
    SDKs to it.
    """


for _commands in SECTIONS.values():
    for _command in _commands:
        main.add_command(_command)
