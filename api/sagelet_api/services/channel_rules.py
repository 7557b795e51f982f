"""What CreateTrainingJob demands of its channels beyond the service model."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sagelet_engine import aws_texts

Request = Mapping[str, Any]


def problems(request: Request) -> Iterator[str]:
    """What is wrong with InputDataConfig, each in a sentence."""
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
            # The model's pattern lets them through, but no directory can have the name.
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
