"""`sagelet install-torch`: what jobs of the process runtime need, into sagelet's own environment."""

import sys

import click

from sagelet_api.cli.options import torch_build_option


@click.command()
@torch_build_option
def install_torch(torch_build: str) -> None:
    """Install what jobs of the process runtime need: torch, torch_xla.

    It also installs XLA's CPU plugin and the other packages of the extra `xla`. All go into the Python that runs
    sagelet. Without CUDA that is 1.8 GB.
    With CUDA (`--torch-build cuda`) it is 6 GB more. With Docker this is not needed: the training image has them.
    """
    from sagelet_engine.images.own_torch import install_own_torch
    from sagelet_engine.images.variants import TorchBuild

    install_own_torch(TorchBuild(torch_build))
    click.echo(
        f"\nJobs of the process runtime can train now, in {sys.prefix}.\n"
        "Next: `sagelet demo` trains a small model natively and compiled; `sagelet up` starts the server. "
        "A server that runs already has to be started again."
    )
