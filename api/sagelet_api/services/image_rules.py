"""What CreateTrainingJob says of an image that AWS could not pull, and that is not here either."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sagelet_engine import aws_texts
from sagelet_engine.images.resolve import explain_unmapped

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)"
    r"/(?P<name>[^:@]+)(?:[:@].*)?"
)


@dataclass(frozen=True)
class Images:
    #: Whether a rule decides about the image, or a local one has this name.
    is_known: Callable[[str], bool]
    #: Whether ECR has a repository: account, region, name.
    has_repository: Callable[[str, str, str], bool]


def problem(request: Mapping[str, Any], images: Images) -> str | None:
    """Why AWS would refuse the image. A name without a registry, as local images have, is left to the job."""
    algorithm = request["AlgorithmSpecification"]
    uri = algorithm.get("TrainingImage")
    if not uri or images.is_known(uri):
        return None
    ecr = _ECR.fullmatch(uri)
    if ecr is not None:
        if images.has_repository(ecr["account"], ecr["region"], ecr["name"]):
            return None
        said = aws_texts.no_repository(ecr["name"], ecr["account"], request["RoleArn"])
    elif _names_registry(uri) and "TrainingImageConfig" not in algorithm:
        said = aws_texts.PRIVATE_REGISTRY
    else:
        return None
    return f"{said} (sagelet: {explain_unmapped(uri)})"


def _names_registry(uri: str) -> bool:
    """As Docker reads it: what comes before the first slash is a host if it has a dot or a port."""
    host, slash, _ = uri.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")
