"""Builds the training image: `sagelet/training:VERSION`, the stand-in for the AWS Deep Learning Containers."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import docker
from docker.errors import APIError

import sagelet_engine
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.images.base import PYTHONS, choose_base
from sagelet_engine.images.context import CA_BUNDLE, DOCKERFILE, BuildContext, find_root
from sagelet_engine.images.engine import connect, image_id, platform_of, size_of
from sagelet_engine.images.output import BuildOutput, ImageBuildFailed, Report, note, remedy_for
from sagelet_engine.images.steps import Steps, headings
from sagelet_engine.images.variants import CPU, CPU_INDEX, TorchBuild, Variant

CONTEXT_LABEL = "org.sagelet.context"
#: Variables that name a CA bundle for pip, OpenSSL and requests. The first one that is set counts.
CA_BUNDLE_VARIABLES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True)
class BuildOptions:
    variant: Variant = CPU
    #: `auto`, `registry`, `debian` or the reference of an image with python3 on Debian or Ubuntu.
    base: str = "auto"
    #: Package indexes for pip, at build time and for the requirements.txt of jobs. None for PyPI.
    index_url: str | None = None
    extra_index_url: str | None = None
    torch_build: TorchBuild = TorchBuild.AUTO
    #: An index for torch and its siblings only. None for the usual ones.
    torch_index_url: str | None = None
    #: PEM certificates that the image shall trust. None: the file that PIP_CERT, SSL_CERT_FILE or REQUESTS_CA_BUNDLE
    #: names, if there is one. /dev/null: no certificates.
    ca_bundle: Path | None = None
    #: Build even if nothing changed, and without the layer cache.
    force: bool = False
    #: Fetch (or make) the base image anew.
    pull: bool = False
    #: The network of the build's containers, such as `host`. None for the engine's default.
    network: str | None = None


def build(options: BuildOptions, report: Report, client: docker.DockerClient | None = None) -> str:
    """Builds the training image and returns its reference. Does nothing if it exists and is up to date.

    Raises RuntimeUnavailable (no engine), SettingsError (no such CA bundle, a variant that cannot be without CUDA),
    BuildContextMissing, BaseImageUnavailable and ImageBuildFailed.
    """
    client = client or connect()
    tag = options.variant.reference
    _check_torch_build(options)
    bundle = _ca_bundle(options, os.environ, report)
    context = BuildContext(find_root(), {CA_BUNDLE: bundle.read_bytes() if bundle else b""})
    if not options.force and not options.pull and _is_current(client, tag, _digest(client, context, options)):
        report(note(f"{tag} is up to date"))
        return tag
    report(note(f"{tag} takes {_disk(options)} of disk, and some minutes, most of them downloads"))
    steps = Steps(headings(context.dockerfile), report, partial(size_of, client))
    steps.begin()
    python = PYTHONS[options.variant.python]
    base = choose_base(client, options.base, steps.report, pull=options.pull, ca_bundle=bundle, python=python)
    steps.end(ran=True, image=base)
    _build(client, context, options, base, steps.report)
    steps.finish(tag)
    report(note(f"{tag} is built"))
    return tag


def _disk(options: BuildOptions) -> str:
    """Returns what the image takes, in round figures: docs/how-to/install.md has those of each variant."""
    return "9 GB" if _arguments(options)["TORCH_BUILD"] == TorchBuild.CUDA.value else "3 GB"


def _check_torch_build(options: BuildOptions) -> None:
    """Raises SettingsError for `--torch-build cpu` where the variant's torch cannot be without CUDA."""
    variant = options.variant
    if not variant.is_for_gpus or options.torch_build is not TorchBuild.CPU:
        return
    if variant.plugin:
        raise SettingsError(f"--torch-build cpu: the variant {variant.name} is for GPUs and needs torch with CUDA")
    if not options.torch_index_url:
        # The wheel's metadata requires `cuda-toolkit[...]`, and its libraries have another layout than torch 2.9's.
        raise SettingsError(
            "--torch-build cpu: sagelet can leave CUDA out of torch 2.9, "
            f"not out of torch {variant.packages['torch']}. "
            f"Name PyTorch's own index as well: --torch-index-url {CPU_INDEX}"
        )


def _build(
    client: docker.DockerClient, context: BuildContext, options: BuildOptions, base: str, report: Report
) -> None:
    tag = options.variant.reference
    with context.tar() as archive:
        try:
            messages = client.api.build(
                fileobj=archive,
                custom_context=True,
                encoding="gzip",
                dockerfile=DOCKERFILE,
                tag=tag,
                buildargs={"BASE": base, "PIP_PROGRESS_BAR": "raw", **_arguments(options)},
                labels={
                    CONTEXT_LABEL: _digest(client, context, options),
                    "org.sagelet.version": sagelet_engine.__version__,
                },
                nocache=options.force,
                network_mode=options.network,
                platform=platform_of(client),
                rm=True,
                forcerm=True,
                decode=True,
            )
            for event in BuildOutput().events(messages):
                report(event)
        except APIError as error:
            text = str(error.explanation or error)
            raise ImageBuildFailed("the request to the Docker Engine", (text,), remedy_for(text)) from error
    if image_id(client, tag) is None:
        raise ImageBuildFailed(f"tagging {tag}", (), "The engine ended the build without an image: see its log.")


def _arguments(options: BuildOptions) -> dict[str, str]:
    indexes = {
        "PIP_INDEX_URL": options.index_url,
        "PIP_EXTRA_INDEX_URL": options.extra_index_url,
        "TORCH_INDEX_URL": options.torch_index_url,
    }
    build = options.variant.torch_build if options.torch_build is TorchBuild.AUTO else options.torch_build
    arguments = {**options.variant.arguments, "TORCH_BUILD": build.value}
    return {**arguments, **{name: value for name, value in indexes.items() if value}}


def _digest(client: docker.DockerClient, context: BuildContext, options: BuildOptions) -> str:
    """Returns the digest of all that the image is made of. A base that the user named counts with its id, because it
    may be built anew.
    """
    arguments = {"BASE": options.base, **_arguments(options)}
    if options.base not in ("auto", "registry", "debian"):
        arguments["BASE_ID"] = image_id(client, options.base) or ""
    return context.digest(arguments)


def _is_current(client: docker.DockerClient, tag: str, digest: str) -> bool:
    if image_id(client, tag) is None:
        return False
    return bool(client.images.get(tag).labels.get(CONTEXT_LABEL) == digest)


def _ca_bundle(options: BuildOptions, environment: Mapping[str, str], report: Report) -> Path | None:
    if options.ca_bundle is not None:
        if not options.ca_bundle.exists() or options.ca_bundle.is_dir():
            raise SettingsError(f"The CA bundle {options.ca_bundle} is not a file")
        return options.ca_bundle
    for variable in CA_BUNDLE_VARIABLES:
        path = Path(environment.get(variable) or "/nonexistent")
        if path.is_file():
            report(note(f"The image will trust the certificates of {path} ({variable})"))
            return path
    return None
