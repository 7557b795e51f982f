"""Processing jobs: what a request asks for, and the record.

The shapes and rules are those of botocore's CreateProcessingJob and of SageMaker's developer guide ("Build Your Own
Processing Container").
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.model.job import Job, JobKey, Parent
from sagelet_engine.model.lifecycle import created
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.model.spec import ONE_DAY, Channel, DataType, InputMode, JobSpec, instance_groups

#: Inputs and outputs are below it (shape ProcessingS3Input).
ROOT = "/opt/ml/processing"


@dataclass(frozen=True)
class ProcessingInput:
    """One entry of ProcessingInputs that the platform downloads."""

    name: str
    #: LocalPath as the container sees it.
    local_path: str
    source: Channel

    @property
    def inner(self) -> PurePosixPath:
        """Returns the path below /opt/ml. Raises ClientFault."""
        return below_opt_ml(self.local_path)


@dataclass(frozen=True)
class ProcessingOutput:
    """One entry of ProcessingOutputConfig.Outputs that the platform uploads."""

    name: str
    #: LocalPath as the container sees it.
    local_path: str
    url: str
    #: S3UploadMode Continuous: uploaded while the hosts run, too.
    continuous: bool

    @property
    def inner(self) -> PurePosixPath:
        """Returns the path below /opt/ml. Raises ClientFault."""
        return below_opt_ml(self.local_path)

    @property
    def target(self) -> S3Uri:
        """Returns the S3 directory: its key is empty or ends with a slash."""
        return S3Uri.parse(self.url).directory


@dataclass(frozen=True, kw_only=True)
class ProcessingSpec(JobSpec):
    """What a CreateProcessingJob request asks for."""

    inputs: tuple[ProcessingInput, ...]
    outputs: tuple[ProcessingOutput, ...]

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> "ProcessingSpec":
        """Reads a CreateProcessingJob body. A missing member has AWS's default."""
        program = request.get("AppSpecification", {})
        cluster = request.get("ProcessingResources", {}).get("ClusterConfig", {})
        outputs = request.get("ProcessingOutputConfig", {}).get("Outputs", ())
        return cls(
            role=request.get("RoleArn", ""),
            image=program.get("ImageUri", ""),
            entrypoint=tuple(program.get("ContainerEntrypoint", ())),
            arguments=tuple(program.get("ContainerArguments", ())),
            environment=request.get("Environment", {}),
            instance_groups=instance_groups(cluster),
            volume_gib=int(cluster.get("VolumeSizeInGB") or 0),
            network_isolation=bool(request.get("NetworkConfig", {}).get("EnableNetworkIsolation")),
            max_runtime_seconds=int(request.get("StoppingCondition", {}).get("MaxRuntimeInSeconds", ONE_DAY)),
            metric_definitions=(),
            spot=False,
            max_wait_seconds=None,
            retries=0,
            keep_alive_seconds=0,
            pool_settings=None,
            inputs=tuple(_input(entry) for entry in request.get("ProcessingInputs", ()) if _is_ours(entry, "S3Input")),
            outputs=tuple(_output(entry) for entry in outputs if _is_ours(entry, "S3Output")),
        )


@dataclass(frozen=True)
class ProcessingJob(Job):
    """All durable data of one processing job. `request` is its CreateProcessingJob body."""

    #: What a host wrote to /opt/ml/output/message, cut to AWS's limit. None if none did.
    exit_message: str | None = None

    @cached_property
    def spec(self) -> ProcessingSpec:
        return ProcessingSpec.of(self.request)


def create(
    key: JobKey,
    job_id: str,
    request: Mapping[str, Any],
    tags: Mapping[str, str],
    now_ms: int,
    parent: Parent | None = None,
) -> ProcessingJob:
    """Returns a job at the moment of CreateProcessingJob."""
    return ProcessingJob(key, job_id, request, now_ms, now_ms, parent, transitions=created(now_ms, key.kind), tags=tags)


def as_processing(job: Job) -> ProcessingJob:
    """Returns the record of a processing job as such. Raises TypeError for a job of another kind."""
    if not isinstance(job, ProcessingJob):
        raise TypeError(f"{job.key.arn} is not a processing job")
    return job


def below_opt_ml(local_path: str) -> PurePosixPath:
    """Returns a LocalPath below /opt/ml. Raises ClientFault unless it is below /opt/ml/processing."""
    path = PurePosixPath(local_path)
    if not local_path.startswith(f"{ROOT}/") or path == PurePosixPath(ROOT) or ".." in path.parts or "\0" in local_path:
        raise ClientFault(f"LocalPath {local_path!r} must be a path that begins with {ROOT}/")
    return path.relative_to("/opt/ml")


def _is_ours(entry: Mapping[str, Any], source: str) -> bool:
    """True if the platform moves the data. With AppManaged the application does."""
    return source in entry and not entry.get("AppManaged")


def _input(entry: Mapping[str, Any]) -> ProcessingInput:
    source = entry["S3Input"]
    channel = Channel(
        entry["InputName"],
        InputMode(source.get("S3InputMode", InputMode.FILE.value)),
        DataType(source["S3DataType"]),
        source["S3Uri"],
        sharded=source.get("S3DataDistributionType") == "ShardedByS3Key",
    )
    return ProcessingInput(entry["InputName"], source.get("LocalPath", ""), channel)


def _output(entry: Mapping[str, Any]) -> ProcessingOutput:
    output = entry["S3Output"]
    continuous = output["S3UploadMode"] == "Continuous"
    return ProcessingOutput(entry["OutputName"], output.get("LocalPath", ""), output["S3Uri"], continuous)
