"""What CreateTrainingJob requires of the image, the channels and the buckets that it names, beyond the service
model.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sagelet_api.protocol.aws_errors import ValidationException
from sagelet_engine.images.resolve import explain_unmapped
from sagelet_engine.model import aws_texts
from sagelet_engine.model.objects import S3Uri

Request = Mapping[str, Any]

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr[.-]ecr(?:-fips)?\.(?P<region>[a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|on\.aws)"
    r"/(?P<name>[^:@]+)(?:[:@].*)?"
)


def channel_problems(request: Request) -> Iterator[str]:
    """Yields the problems of InputDataConfig, each as a sentence."""
    default = request["AlgorithmSpecification"].get("TrainingInputMode", "File")
    channels = request.get("InputDataConfig", [])
    modes = {channel["ChannelName"]: channel.get("InputMode", default) for channel in channels}
    yield from _names(channels, modes)
    if {"Pipe", "FastFile"} <= set(modes.values()):
        yield aws_texts.PIPE_AND_FAST_FILE
    for channel in channels:
        mode = modes[channel["ChannelName"]]
        if mode != "Pipe" and channel.get("CompressionType", "None") != "None":
            yield aws_texts.compressed(channel["ChannelName"], mode, channel["CompressionType"])
        yield from _source(channel, channel.get("InputMode", default))


def _names(channels: list[Request], modes: Mapping[str, str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in (channel["ChannelName"] for channel in channels):
        if name in seen:
            yield f"Duplicate channel name {name!r} in InputDataConfig"
        seen.add(name)
        if name in (".", ".."):
            # The model's pattern allows these names, but no directory can have them.
            yield f"Channel name {name!r} does not make a directory name"
    for name, mode in modes.items():
        taken = rf"{re.escape(name)}_\d+" if mode == "Pipe" else rf"{re.escape(name)}-manifest"
        for other in seen:
            if re.fullmatch(taken, other):
                yield f"Channel name {other!r} is the name of a file that belongs to channel {name!r}: rename one"


def _source(channel: Request, mode: str) -> Iterator[str]:
    name = channel["ChannelName"]
    if len(channel["DataSource"]) > 1:
        yield f"Channel {name!r}: DataSource must have one kind of source, not several"
    if "FileSystemDataSource" in channel["DataSource"]:
        if mode != "File":
            yield f"Channel {name!r}: FileSystemDataSource takes the input mode File only, not {mode}"
        return
    source = channel["DataSource"].get("S3DataSource")
    if source is None:
        yield (
            f"Channel {name!r}: sagelet supports S3DataSource and FileSystemDataSource only as yet; "
            "put the data into S3 (`aws s3 sync`)"
        )
        return
    kind = source["S3DataType"]
    if kind == "Converse":
        yield f"Channel {name!r}: sagelet does not support the S3DataType Converse yet; use S3Prefix"
    if kind != "S3Prefix" and mode == "FastFile":
        yield f"Channel {name!r}: the input mode FastFile takes the S3DataType S3Prefix only, not {kind}"
    if kind == "AugmentedManifestFile" and mode != "Pipe":
        yield f"Channel {name!r}: the S3DataType AugmentedManifestFile needs the input mode Pipe, not {mode}"
    if (kind == "AugmentedManifestFile") != bool(source.get("AttributeNames")):
        yield f"Channel {name!r}: AugmentedManifestFile needs AttributeNames, and no other S3DataType takes them"


@dataclass(frozen=True)
class Images:
    #: True if a rule decides about the image, or a local image has this name.
    is_known: Callable[[str], bool]
    #: True if ECR has a repository. Takes account, region and name.
    has_repository: Callable[[str, str, str], bool]


def image_problem(request: Request, images: Images) -> str | None:
    """Returns why AWS would refuse the image. A name without a registry, as local images have, is left to the job."""
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
    """True if the name has a registry. As in Docker, the part before the first slash is a host if it has a dot or a
    port.
    """
    host, slash, _ = uri.partition("/")
    return bool(slash) and ("." in host or ":" in host or host == "localhost")


def check_buckets(request: Request, has_bucket: Callable[[S3Uri], bool]) -> None:
    """Refuses a job whose results would have no place. Raises ValidationException; the text is sagelet's."""
    places = {
        "OutputDataConfig.S3OutputPath": request["OutputDataConfig"]["S3OutputPath"],
        "CheckpointConfig.S3Uri": request.get("CheckpointConfig", {}).get("S3Uri"),
    }
    for member, uri in places.items():
        if uri is not None and not has_bucket(S3Uri.parse(uri)):
            raise ValidationException(
                f"{member}: the S3 bucket {S3Uri.parse(uri).bucket} does not exist, or it is another account's: "
                "create it first"
            )
