"""`sagelet image`: the training image, and what stands in for which URI."""

from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sagelet_api.cli.directories import known_directory, own_directory
from sagelet_api.cli.options import directory_options, json_option, torch_build_option
from sagelet_api.cli.output import Column, show_rows
from sagelet_api.cli.suggestions import Suggesting
from sagelet_api.cli.text import echo_json, iso, size
from sagelet_api.servers.server import Server

if TYPE_CHECKING:
    from sagelet_engine.images.listing import LocalImage


@click.group(cls=Suggesting)
def image() -> None:
    """The training image, and what stands in for which URI."""


@image.command()
@click.option(
    "--variant",
    default="cpu",
    show_default=True,
    help="cpu, py39 (the libraries of 2022), inductor (a current torch), cu13, cu12 or cu12-renamed (XLA on GPUs).",
)
@click.option("--base", default="auto", show_default=True, help="auto, registry, debian, or an image reference.")
@click.option("--index-url", envvar="PIP_INDEX_URL", show_envvar=True, help="Package index for pip.")
@click.option("--extra-index-url", help="A second package index.")
@torch_build_option
@click.option("--torch-index-url", help="Index for torch, torchvision and torchaudio alone.")
@click.option(
    "--ca-bundle",
    type=click.Path(dir_okay=False, path_type=Path),
    help="PEM certificates for the image to trust; default: what PIP_CERT, SSL_CERT_FILE or REQUESTS_CA_BUNDLE names.",
)
@click.option("--network", help="Network of the build's containers, e.g. host.")
@click.option("--force", is_flag=True, help="Build even if nothing changed, and without the layer cache.")
@click.option("--pull", is_flag=True, help="Fetch (or make) the base image anew.")
def build(
    variant: str,
    base: str,
    index_url: str | None,
    extra_index_url: str | None,
    torch_build: str,
    torch_index_url: str | None,
    ca_bundle: Path | None,
    network: str | None,
    force: bool,
    pull: bool,
) -> None:
    """Build the training image.

    Does nothing if the image exists and is up to date.
    """
    from sagelet_api.cli.progress import BuildProgress
    from sagelet_engine.images.builder import BuildOptions
    from sagelet_engine.images.builder import build as build_image
    from sagelet_engine.images.variants import TorchBuild
    from sagelet_engine.images.variants import variant as variant_of

    options = BuildOptions(
        variant=variant_of(variant),
        base=base,
        index_url=index_url,
        extra_index_url=extra_index_url,
        torch_build=TorchBuild(torch_build),
        torch_index_url=torch_index_url,
        ca_bundle=ca_bundle,
        force=force,
        pull=pull,
        network=network,
    )
    with BuildProgress() as progress:
        reference = build_image(options, progress.report)
    click.echo(f"{reference} is ready")


@image.command("list")
@json_option
def list_(as_json: bool) -> None:
    """The local images of sagelet."""
    from sagelet_engine.images.listing import list_images

    images = list_images()
    if as_json:
        rows = [
            {
                "reference": found.reference,
                "id": found.id,
                "kind": found.kind,
                "size": found.size,
                "created": found.created.isoformat(),
                "current": found.current,
            }
            for found in images
        ]
        echo_json(rows)
        return
    columns: list[Column[LocalImage]] = [
        Column("IMAGE", lambda found: found.reference),
        Column("SIZE", lambda found: size(found.size), plain=lambda found: str(found.size), right=True),
        Column("CREATED", lambda found: f"{found.created:%Y-%m-%d %H:%M}", plain=lambda found: iso(found.created)),
        Column("IN USE", lambda found: "yes" if found.current else "no"),
    ]
    show_rows(columns, images)
    if not images:
        click.echo("no images: `sagelet image build` makes one", err=True)


@image.command()
@click.argument("uri")
@click.option(
    "--image-rules",
    envvar="SAGELET_IMAGE_RULES",
    show_envvar=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file with your image rules.",
)
@json_option
@directory_options
def resolve(uri: str, image_rules: Path | None, as_json: bool, server: Server) -> None:
    """Show which local image stands in for URI."""
    from sagelet_engine.images.resolve import Resolver

    found = Resolver(image_rules, known_directory(server)).resolve(uri)
    if as_json:
        others = {"dated_image": found.dated_image, "inductor_image": found.inductor_image}
        names = {"image": found.local_image, **others, "rule": found.rule}
        echo_json({"uri": uri, **names, "gpu_images": list(found.gpu_images), "refusal": found.refusal})
    elif found.local_image is None:
        raise click.ClickException(found.refusal or "no image stands in for it")
    else:
        dated = f"; without GPUs {found.dated_image}, if it is there" if found.dated_image else ""
        gpus = f"; with GPUs {' or '.join(found.gpu_images)}, if it is there" if found.gpu_images else ""
        inductor = f"; for Inductor {found.inductor_image}, if it is there" if found.inductor_image else ""
        click.echo(f"{found.local_image}  (rule: {found.rule}{dated}{gpus}{inductor})")


@image.command("map")
@click.argument("uri", required=False)
@click.argument("local", metavar="[LOCAL_IMAGE]", required=False)
@click.option("--remove", is_flag=True, help="Remove the mapping of URI.")
@json_option
@directory_options
def map_(uri: str | None, local: str | None, remove: bool, as_json: bool, server: Server) -> None:
    """Let a local image stand in for this URI only.

    The mapping is durable and is for the jobs of this data directory. A running server uses it at once. It comes
    before the rules of --image-rules. Without arguments, list the mappings.
    """
    from sagelet_engine.images.rules import mappings, put_mapping, remove_mapping

    if remove + (local is not None) != (uri is not None):
        raise click.UsageError("Give URI and LOCAL_IMAGE, or URI and --remove, or nothing for a list")
    data = known_directory(server) if uri is None else own_directory(server)
    if uri is not None and local is not None:
        put_mapping(data, uri, local)
    elif uri is not None:
        remove_mapping(data, uri)
    found = mappings(data)
    if as_json:
        echo_json(found)
    elif uri is not None:
        click.echo(f"{uri}: {local}" if local else f"{uri}: not mapped any more")
    elif found:
        columns: list[Column[tuple[str, str]]] = [Column("URI", itemgetter(0)), Column("LOCAL IMAGE", itemgetter(1))]
        show_rows(columns, list(found.items()))
    else:
        click.echo(f"nothing is mapped for {data}", err=True)
