"""Lists the images of sagelet that the Docker Engine of this machine has."""

from dataclasses import dataclass
from datetime import datetime, timezone

import docker

from sagelet_engine.images.engine import connect
from sagelet_engine.images.variants import is_training_image

KIND_LABEL = "org.sagelet.image"
#: Podman writes the registry before names that leave it out.
PODMANS_REGISTRY = "docker.io/"


@dataclass(frozen=True)
class LocalImage:
    #: `sagelet/training:0.1.0`.
    reference: str
    #: `sha256:...`
    id: str
    #: `training` or `base`.
    kind: str
    #: In bytes, with the layers that it shares with others.
    size: int
    created: datetime
    #: True for an image that this version of sagelet runs.
    current: bool


def list_images(client: docker.DockerClient | None = None) -> list[LocalImage]:
    """Returns the images: training images first, the newest first. Raises RuntimeUnavailable."""
    summaries = (client or connect()).api.images(filters={"label": KIND_LABEL})
    images = [
        LocalImage(
            reference=reference.removeprefix(PODMANS_REGISTRY),
            id=summary["Id"],
            kind=summary["Labels"][KIND_LABEL],
            size=summary["Size"],
            created=datetime.fromtimestamp(summary["Created"], tz=timezone.utc),
            current=is_training_image(reference.removeprefix(PODMANS_REGISTRY)),
        )
        for summary in summaries
        for reference in summary["RepoTags"] or ()
        if reference != "<none>:<none>"
    ]
    return sorted(images, key=lambda image: (image.kind != "training", -image.created.timestamp(), image.reference))
