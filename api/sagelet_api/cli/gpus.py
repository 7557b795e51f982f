"""`sagelet gpus`: is this machine ready for jobs on its GPUs?"""

import json
from dataclasses import asdict

import click


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def gpus(as_json: bool) -> None:
    """Check driver, NVML, container toolkit, image and packages for jobs on this machine's GPUs."""
    from sagelet_engine.instances.gpu_checks import check_gpus

    checks = check_gpus()
    if as_json:
        click.echo(json.dumps([asdict(check) for check in checks], indent=2))
        return
    for check in checks:
        click.echo(f"{'ok' if check.good else '--'}  {check.name:9} {check.found}")
        if check.remedy:
            click.echo(f"{'':14}{check.remedy}")
