"""The command `sagelet`."""

import click

import sagelet_engine
from sagelet_api.cli.cache import cache
from sagelet_api.cli.compare import compare
from sagelet_api.cli.doctor import doctor
from sagelet_api.cli.fault import fault, throttle
from sagelet_api.cli.gpus import gpus
from sagelet_api.cli.image import image
from sagelet_api.cli.interrupt import interrupt
from sagelet_api.cli.report import report
from sagelet_api.cli.run import env, run
from sagelet_api.cli.s3 import s3
from sagelet_api.cli.state import export, import_, reset
from sagelet_api.cli.up import up
from sagelet_engine.errors import SageletError


class Group(click.Group):
    """Shows errors that sagelet raises on purpose as one line, with exit code 1."""

    def invoke(self, context: click.Context) -> object:
        try:
            return super().invoke(context)
        except SageletError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=Group)
@click.version_option(sagelet_engine.__version__, prog_name="sagelet")
def main() -> None:
    """A local SageMaker that really runs compiled training jobs."""


main.add_command(up)
main.add_command(image)
main.add_command(cache)
main.add_command(gpus)
main.add_command(interrupt)
main.add_command(fault)
main.add_command(throttle)
main.add_command(report)
main.add_command(run)
main.add_command(env)
main.add_command(s3)
main.add_command(reset)
main.add_command(export)
main.add_command(import_)
main.add_command(doctor)
main.add_command(compare)
