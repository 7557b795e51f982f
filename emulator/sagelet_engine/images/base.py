"""Chooses the image that the training image is built on."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, ImageNotFound
from docker.utils import parse_repository_tag

from sagelet_engine.images import debian
from sagelet_engine.images.engine import image_id, platform_of
from sagelet_engine.images.output import BaseImageUnavailable, BuildEvent, EventKind, Report, note
from sagelet_engine.images.platform import ARCHITECTURE, architecture

REGISTRY_BASE = "python:3.11-slim"


@dataclass(frozen=True)
class Python:
    """The source of a Python: an image of the registry, or the Debian release that has it."""

    registry: str = REGISTRY_BASE
    suite: str = debian.SUITE


PYTHONS = {"3.11": Python(), "3.9": Python("python:3.9-slim", "bullseye")}


def choose_base(
    client: docker.DockerClient,
    base: str,
    report: Report,
    *,
    pull: bool = False,
    ca_bundle: Path | None = None,
    python: Python = PYTHONS["3.11"],
) -> str:
    """Returns the reference of a base image, which is here when this returns.

    `base` is `registry` (python:3.11-slim), `debian` (made from Debian packages), `auto` (the first, or if it cannot be
    pulled the second) or a reference. `pull` fetches or makes it anew even if it is here. Raises BaseImageUnavailable
    and ImageBuildFailed.
    """
    if base == "debian":
        return _debian_base(client, report, python.suite, pull=pull, ca_bundle=ca_bundle)
    reference = python.registry if base in ("auto", "registry") else base
    problem = _fetch(client, reference, report, pull=pull)
    if problem is None:
        report(note(f"Base image: {reference}"))
        return reference
    if base != "auto":
        raise BaseImageUnavailable(
            f"The base image {reference} cannot be pulled ({problem}). Load it with `docker load`, "
            "name one that is here with --base REF, or make one from Debian packages with --base debian"
        )
    report(note(f"{reference} cannot be pulled ({problem})"))
    return _debian_instead(client, report, reference, python.suite, pull=pull, ca_bundle=ca_bundle)


def _debian_instead(
    client: docker.DockerClient, report: Report, reference: str, suite: str, *, pull: bool, ca_bundle: Path | None
) -> str:
    try:
        return _debian_base(client, report, suite, pull=pull, ca_bundle=ca_bundle)
    except BaseImageUnavailable as error:
        raise BaseImageUnavailable(
            f"There is no base image: {reference} cannot be pulled, and none can be made from Debian packages: "
            f"{debian.obstacle()}. Do that, load one with `docker load`, or name one that is here with --base REF"
        ) from error


def _debian_base(client: docker.DockerClient, report: Report, suite: str, *, pull: bool, ca_bundle: Path | None) -> str:
    reference = debian.base_image(suite)
    if not pull and image_id(client, reference) is not None:
        report(note(f"Base image: {reference}, made from Debian packages before"))
        return reference
    if obstacle := debian.obstacle():
        raise BaseImageUnavailable(f"A base image from Debian packages cannot be made here: {obstacle}")
    return debian.build_base(client, report, ca_bundle, suite)


def _fetch(client: docker.DockerClient, reference: str, report: Report, *, pull: bool) -> str | None:
    """Fetches an image. Returns why it could not, or None. An image that is already here is enough."""
    platform = platform_of(client)
    present = _is_here(client, reference, platform)
    if present and not pull:
        return None
    problem = _pull(client, reference, platform, report)
    if problem is not None and present:
        report(note(f"{reference} cannot be pulled ({problem}); the one that is here is used"))
        return None
    return problem


def _is_here(client: docker.DockerClient, reference: str, platform: str | None) -> bool:
    """False for an image of the engine's own architecture if another one is needed."""
    try:
        image = client.images.get(reference)
    except ImageNotFound:
        return False
    return platform is None or architecture(str(image.attrs.get("Architecture") or "")) == ARCHITECTURE


def _pull(client: docker.DockerClient, reference: str, platform: str | None, report: Report) -> str | None:
    report(note(f"Pulling {reference}"))
    repository, tag = parse_repository_tag(reference)
    try:
        for message in client.api.pull(repository, tag=tag or "latest", platform=platform, stream=True, decode=True):
            if "error" in message:
                return str(message["error"])
            report(_pull_event(message))
    except APIError as error:
        return str(error.explanation or error)
    return None


def _pull_event(message: Mapping[str, Any]) -> BuildEvent:
    text = " ".join(str(message[key]) for key in ("id", "status") if message.get(key))
    detail = message.get("progressDetail") or {}
    if detail.get("total"):
        return BuildEvent(EventKind.PROGRESS, text, done=detail.get("current", 0), total=detail["total"])
    return BuildEvent(EventKind.OUTPUT, text)
