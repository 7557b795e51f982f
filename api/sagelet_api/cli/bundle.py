"""`sagelet bundle`: sagelet for a machine without a network."""

from pathlib import Path

import click

from sagelet_api.cli.options import torch_build_option
from sagelet_api.cli.text import size


@click.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--gpu",
    type=click.Choice(["none", "cuda12", "cuda13"]),
    default="none",
    show_default=True,
    help="JAX's PJRT plugin and the libraries of CUDA: cuda13 for driver 580 or newer, cuda12 for older ones.",
)
@torch_build_option
@click.option("--without-torch", is_flag=True, help="For the server and tests in simulated time alone.")
def bundle(directory: Path, gpu: str, torch_build: str, without_torch: bool) -> None:
    """Pack sagelet and torch for a machine without a network.

    DIRECTORY is made. Copy it to the other machine, which needs Linux on x86-64 and the same Python release, and run
    its install.sh. It is for the process runtime. The image of the Docker runtime travels by `docker save` and `docker
    load`.
    """
    from sagelet_engine.images.bundle import Gpu, Wanted, make_bundle
    from sagelet_engine.images.variants import TorchBuild

    wanted = Wanted(Gpu(gpu), None if without_torch else TorchBuild(torch_build))
    made = make_bundle(directory, wanted)
    click.echo(f"{directory} has {size(made)}. On the other machine: {directory.name}/install.sh [ENVIRONMENT]")
