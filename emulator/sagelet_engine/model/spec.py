"""What a job asks for, typed. A request body is read here once; elsewhere it is only echoed.

`JobSpec` has what jobs of every kind ask for. `TrainingSpec` adds what only a training job has.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.model.file_systems import FileSystemSource
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.model.runtime import WARM_POOL_CACHE

#: AWS's name for the one group of a job without InstanceGroups (seen in resourceconfig.json).
HOMOGENEOUS = "homogeneousCluster"
#: Where checkpoints are if CheckpointConfig has no LocalPath (botocore shape CheckpointConfig).
CHECKPOINTS = "/opt/ml/checkpoints"
#: MaxRuntimeInSeconds if the request has none (botocore shape StoppingCondition).
ONE_DAY = 86_400


@dataclass(frozen=True)
class InstanceGroup:
    """Hosts of one instance type."""

    name: str
    instance_type: str
    hosts: tuple[str, ...]


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
    """One entry of InputDataConfig."""

    name: str
    mode: InputMode
    data_type: DataType
    #: S3Uri as the request has it. Empty for a file system.
    url: str
    #: ContentType. None if the request has none.
    content_type: str | None = None
    #: ShardedByS3Key: each host gets its share of the objects (or of the lines of an augmented manifest).
    sharded: bool = False
    #: CompressionType Gzip. Only Pipe mode uses it, as on AWS.
    gzip: bool = False
    #: RecordWrapperType RecordIO; Pipe mode only, as on AWS.
    record_io: bool = False
    #: ShuffleConfig.Seed.
    seed: int | None = None
    #: AttributeNames of an augmented manifest, in the order in which they are streamed.
    attributes: tuple[str, ...] = ()
    #: InstanceGroupNames: only hosts of these groups have the channel. Empty for all hosts.
    groups: tuple[str, ...] = ()
    #: The directory of a file system, for a channel without objects.
    file_system: FileSystemSource | None = None

    @property
    def uri(self) -> S3Uri:
        """Returns the prefix, or the manifest itself."""
        return S3Uri.parse(self.url)


class MetricDefinition(NamedTuple):
    """One entry of AlgorithmSpecification.MetricDefinitions."""

    name: str
    regex: str


@dataclass(frozen=True)
class CheckpointSpec:
    """CheckpointConfig."""

    #: S3Uri as the request has it.
    url: str
    #: LocalPath as the container sees it.
    local_path: str

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "CheckpointSpec":
        return cls(str(config.get("S3Uri", "")), str(config.get("LocalPath") or CHECKPOINTS))

    @property
    def target(self) -> S3Uri:
        """Returns the S3 directory to which files go: its key is empty or ends with a slash."""
        return self.prefix.directory

    @property
    def prefix(self) -> S3Uri:
        """Returns what each restored object's key begins with. As on AWS, `s3://b/run` also restores `run-2/`.

        Source: syne-tune#363.
        """
        return S3Uri.parse(self.url)

    def path(self) -> tuple[str, ...]:
        """Returns the parts of LocalPath below /opt/ml. Raises ClientFault for a path elsewhere."""
        local = self.local_path
        parts = PurePosixPath(local).parts
        if parts[:3] != ("/", "opt", "ml") or len(parts) == 3 or ".." in parts or "\0" in local:
            raise ClientFault(f"CheckpointConfig.LocalPath {local!r}: sagelet keeps checkpoints under /opt/ml only")
        if PurePosixPath(*parts[3:]).is_relative_to(WARM_POOL_CACHE):
            raise ClientFault(
                f"CheckpointConfig.LocalPath {local!r} is in the persistent cache of warm pools, which is never "
                f"synced: choose another directory, {CHECKPOINTS} for example"
            )
        return parts[3:]


@dataclass(frozen=True)
class OutputSpec:
    """OutputDataConfig."""

    #: S3OutputPath without a slash at its end.
    path: str
    #: False if CompressionType is NONE: then results are separate objects, not archives.
    compressed: bool

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "OutputSpec":
        return cls(str(config.get("S3OutputPath", "")).rstrip("/"), config.get("CompressionType") != "NONE")


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """What a job of any kind asks for: its program, its hosts, its limits."""

    #: ARN of the execution role.
    role: str
    #: URI of the container image. Empty if the request names an algorithm instead.
    image: str
    #: Empty for the image's own.
    entrypoint: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    instance_groups: tuple[InstanceGroup, ...]
    #: VolumeSizeInGB, in GiB as AWS counts them. 0 if the request names none.
    volume_gib: int
    network_isolation: bool
    max_runtime_seconds: int
    #: The definitions that make metrics of the hosts' lines.
    metric_definitions: tuple[MetricDefinition, ...]
    #: EnableManagedSpotTraining: the hosts may be taken away, and then the job starts again.
    spot: bool
    #: MaxWaitTimeInSeconds. None if the request has none.
    max_wait_seconds: int | None
    #: MaximumRetryAttempts of RetryStrategy.
    retries: int
    #: KeepAlivePeriodInSeconds: how long a warm pool keeps the hosts after the job. 0: no warm pool.
    keep_alive_seconds: int
    #: What jobs in a warm pool must have in common beside their role. None if this job takes no warm pool.
    pool_settings: tuple[str | int | bool | list[str] | None, ...] | None

    @property
    def hosts(self) -> tuple[str, ...]:
        """Returns algo-1 .. algo-N, group by group."""
        return tuple(host for group in self.instance_groups for host in group.hosts)

    @property
    def instance_types(self) -> tuple[str, ...]:
        """Returns the instance type of each group."""
        return tuple(group.instance_type for group in self.instance_groups)

    def group_of(self, host: str) -> InstanceGroup:
        return next(group for group in self.instance_groups if host in group.hosts)


@dataclass(frozen=True, kw_only=True)
class TrainingSpec(JobSpec):
    """What a CreateTrainingJob request asks for."""

    hyperparameters: Mapping[str, str]
    #: EnableSageMakerMetricsTimeSeries.
    metrics_time_series: bool
    channels: tuple[Channel, ...]
    #: TrainingInputMode: the mode of channels that name none.
    input_mode: str
    checkpoint: CheckpointSpec | None

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> "TrainingSpec":
        """Reads a request. `request`: a CreateTrainingJob body, or a DescribeTrainingJob answer. A missing member has
        AWS's default.
        """
        algorithm = request.get("AlgorithmSpecification", {})
        resources, stopping = request.get("ResourceConfig", {}), request.get("StoppingCondition", {})
        mode = algorithm.get("TrainingInputMode", InputMode.FILE.value)
        max_wait = stopping.get("MaxWaitTimeInSeconds")
        return cls(
            role=request.get("RoleArn", ""),
            image=algorithm.get("TrainingImage", ""),
            entrypoint=tuple(algorithm.get("ContainerEntrypoint", ())),
            arguments=tuple(algorithm.get("ContainerArguments", ())),
            environment=request.get("Environment", {}),
            instance_groups=instance_groups(resources),
            volume_gib=int(resources.get("VolumeSizeInGB") or 0),
            network_isolation=bool(request.get("EnableNetworkIsolation")),
            max_runtime_seconds=int(stopping.get("MaxRuntimeInSeconds", ONE_DAY)),
            hyperparameters=request.get("HyperParameters", {}),
            metric_definitions=tuple(
                MetricDefinition(entry["Name"], entry["Regex"]) for entry in algorithm.get("MetricDefinitions", ())
            ),
            metrics_time_series=bool(algorithm.get("EnableSageMakerMetricsTimeSeries")),
            channels=tuple(_channel(entry, mode) for entry in request.get("InputDataConfig", ())),
            input_mode=mode,
            checkpoint=CheckpointSpec.of(request["CheckpointConfig"]) if request.get("CheckpointConfig") else None,
            spot=is_spot(request),
            max_wait_seconds=None if max_wait is None else int(max_wait),
            retries=int(request.get("RetryStrategy", {}).get("MaximumRetryAttempts", 0)),
            keep_alive_seconds=int(resources.get("KeepAlivePeriodInSeconds", 0)),
            pool_settings=_pool_settings(request, resources),
        )

    @property
    def source(self) -> str:
        """Returns sagemaker_submit_directory, the archive of the script. Empty if there is none."""
        return unquoted(self.hyperparameters.get("sagemaker_submit_directory", ""))

    def channels_for(self, host: str) -> list[Channel]:
        """Returns the channels that one host has."""
        group = self.group_of(host).name
        return [channel for channel in self.channels if not channel.groups or group in channel.groups]

    def receivers(self, channel: Channel) -> list[str]:
        """Returns the hosts that have a channel, in order. ShardedByS3Key deals the objects among them."""
        groups = self.instance_groups
        return [host for group in groups if not channel.groups or group.name in channel.groups for host in group.hosts]


def is_spot(request: Mapping[str, Any]) -> bool:
    """True if a CreateTrainingJob request asks for managed spot training."""
    return bool(request.get("EnableManagedSpotTraining"))


def unquoted(value: str) -> str:
    """Returns a hyperparameter's text. SDK v2 sends hyperparameters as JSON, so a string comes with quotes."""
    try:
        parsed = json.loads(value)
    except ValueError:
        return value
    return parsed if isinstance(parsed, str) else value


def instance_groups(resources: Mapping[str, Any]) -> tuple[InstanceGroup, ...]:
    """Returns the groups of a ResourceConfig or a ClusterConfig, or the one group of a job without them."""
    alone = {"InstanceCount": 1, "InstanceType": "", **resources, "InstanceGroupName": HOMOGENEOUS}
    asked: Sequence[Mapping[str, Any]] = resources.get("InstanceGroups") or [alone]
    groups: list[InstanceGroup] = []
    first = 1
    for group in asked:
        numbers = range(first, first + int(group["InstanceCount"]))
        first = numbers.stop
        names = tuple(f"algo-{number}" for number in numbers)
        groups.append(InstanceGroup(group["InstanceGroupName"], group["InstanceType"], names))
    return tuple(groups)


def _pool_settings(
    request: Mapping[str, Any], resources: Mapping[str, Any]
) -> tuple[str | int | bool | list[str] | None, ...] | None:
    """Returns the members that AWS compares ("SageMaker AI Managed Warm Pools", matching training jobs)."""
    if "InstanceGroups" in resources:
        return None
    vpc = request.get("VpcConfig", {})
    return (
        *(resources.get(name) for name in ("InstanceCount", "InstanceType", "VolumeKmsKeyId", "VolumeSizeInGB")),
        sorted(vpc.get("SecurityGroupIds", [])),
        sorted(vpc.get("Subnets", [])),
        *(bool(request.get(flag)) for flag in ("EnableInterContainerTrafficEncryption", "EnableNetworkIsolation")),
        bool(request.get("SessionChainingConfig", {}).get("EnableSessionTagChaining")),
    )


def _channel(entry: Mapping[str, Any], default_mode: str) -> Channel:
    content_type = entry.get("ContentType")
    if "FileSystemDataSource" in entry["DataSource"]:
        directory = FileSystemSource.of(entry["DataSource"]["FileSystemDataSource"])
        return Channel(entry["ChannelName"], InputMode.FILE, DataType.PREFIX, "", content_type, file_system=directory)
    source = entry["DataSource"]["S3DataSource"]
    return Channel(
        name=entry["ChannelName"],
        mode=InputMode(entry.get("InputMode", default_mode)),
        data_type=DataType(source["S3DataType"]),
        url=source["S3Uri"],
        content_type=content_type,
        sharded=source.get("S3DataDistributionType") == "ShardedByS3Key",
        gzip=entry.get("CompressionType") == "Gzip",
        record_io=entry.get("RecordWrapperType") == "RecordIO",
        seed=entry.get("ShuffleConfig", {}).get("Seed"),
        attributes=tuple(source.get("AttributeNames", ())),
        groups=tuple(source.get("InstanceGroupNames", ())),
    )
