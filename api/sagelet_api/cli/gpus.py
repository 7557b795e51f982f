"""`sagelet gpus`: is this machine ready for jobs on its GPUs?"""

from dataclasses import asdict

import click

from sagelet_api.cli.options import json_option
from sagelet_api.cli.output import echo_json


@click.command()
@json_option
def gpus(as_json: bool) -> None:
    """Check driver, NVML, container toolkit, image and packages for jobs on this machine's GPUs."""
    from sagelet_engine.instances.gpu_checks import check_gpus

    checks = check_gpus()
    if as_json:
        echo_json([asdict(check) for check in checks])
        return
    for check in checks:
        click.echo(f"{'ok' if check.good else '--'}  {check.name:9} {check.found}")
        if check.remedy:
            click.echo(f"{'':14}{check.remedy}")
