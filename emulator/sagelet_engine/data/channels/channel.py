"""One entry of InputDataConfig, as the modules of this package read it."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sagelet_engine.data.file_systems import FileSystemSource
from sagelet_engine.data.objects import S3Uri
from sagelet_engine.jobs.record import TrainingJob


class InputMode(str, Enum):
    """How a channel reaches the training code (botocore shape TrainingInputMode)."""

    FILE = "File"
    FAST_FILE = "FastFile"
    PIPE = "Pipe"


class DataType(str, Enum):
    """What S3Uri names (botocore shape S3DataType)."""

    PREFIX = "S3Prefix"
    MANIFEST = "ManifestFile"
    AUGMENTED_MANIFEST = "AugmentedManifestFile"


@dataclass(frozen=True)
class Channel:
    name: str
    mode: InputMode
    data_type: DataType
    #: S3Uri as the request has it; empty for a file system.
    url: str
    #: ShardedByS3Key: each host gets its share of the objects (or of the lines of an augmented manifest).
    sharded: bool = False
    #: CompressionType Gzip; it means something to Pipe mode only, as on AWS.
    gzip: bool = False
    #: RecordWrapperType RecordIO; Pipe mode only, as on AWS.
    record_io: bool = False
    #: ShuffleConfig.Seed.
    seed: int | None = None
    #: AttributeNames of an augmented manifest, in the order in which they are streamed.
    attributes: tuple[str, ...] = ()
    #: InstanceGroupNames: the hosts of other groups do not have the channel; empty: all have it.
    groups: tuple[str, ...] = ()
    #: A channel that is a directory of a file system, not objects.
    file_system: FileSystemSource | None = None

    @property
    def uri(self) -> S3Uri:
        """The prefix, or the manifest itself."""
        return S3Uri.parse(self.url)


def channels_of(job: TrainingJob) -> list[Channel]:
    """The channels of an accepted request. Each may have an input mode of its own."""
    default = job.request["AlgorithmSpecification"].get("TrainingInputMode", "File")
    return [_channel(entry, default) for entry in job.request.get("InputDataConfig", [])]


def channels_for(job: TrainingJob, host: str) -> list[Channel]:
    """The channels that one host has."""
    group = job.group_of(host).name
    return [channel for channel in channels_of(job) if not channel.groups or group in channel.groups]


def receivers(job: TrainingJob, channel: Channel) -> list[str]:
    """The hosts that have a channel, in order; ShardedByS3Key deals among these."""
    return [
        host
        for group in job.instance_groups
        if not channel.groups or group.name in channel.groups
        for host in group.hosts
    ]


def _channel(entry: Mapping[str, Any], default_mode: str) -> Channel:
    if "FileSystemDataSource" in entry["DataSource"]:
        directory = FileSystemSource.of(entry["DataSource"]["FileSystemDataSource"])
        return Channel(entry["ChannelName"], InputMode.FILE, DataType.PREFIX, "", file_system=directory)
    source = entry["DataSource"]["S3DataSource"]
    return Channel(
        name=entry["ChannelName"],
        mode=InputMode(entry.get("InputMode", default_mode)),
        data_type=DataType(source["S3DataType"]),
        url=source["S3Uri"],
        sharded=source.get("S3DataDistributionType") == "ShardedByS3Key",
        gzip=entry.get("CompressionType") == "Gzip",
        record_io=entry.get("RecordWrapperType") == "RecordIO",
        seed=entry.get("ShuffleConfig", {}).get("Seed"),
        attributes=tuple(source.get("AttributeNames", ())),
        groups=tuple(source.get("InstanceGroupNames", ())),
    )
