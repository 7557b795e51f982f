"""Configuration files that AWS writes for its own agents in the container. Some scripts read them."""

from collections.abc import Mapping
from typing import Any

from sagelet_engine.model.spec import Channel, DataType
from sagelet_engine.model.training import TrainingJob

#: The platform's spelling of the request's enums.
SPELLING = {
    "S3Prefix": "S3_PREFIX",
    "ManifestFile": "MANIFEST_FILE",
    "AugmentedManifestFile": "AUGMENTED_MANIFEST_FILE",
    "FullyReplicated": "FULLY_REPLICATED",
    "ShardedByS3Key": "SHARDED_BY_S3_KEY",
}

#: AWS's defaults for what the request leaves out.
FLAGS = ("EnableInterContainerTrafficEncryption", "EnableNetworkIsolation", "EnableManagedSpotTraining")


def init_config(job: TrainingJob, host_name: str) -> dict[str, Any]:
    """Returns init-config.json, the input of the platform's downloader."""
    checkpoint = job.spec.checkpoint
    return {
        "inputMode": job.spec.input_mode.upper(),
        "channels": {channel.name: _downloaded(channel) for channel in job.spec.channels_for(host_name)},
        "checkpointChannel": None if checkpoint is None else _checkpoint_channel(checkpoint.url),
        "hostConfig": {"clusterSize": len(job.hosts), "hostNumber": job.hosts.index(host_name) + 1},
        "enableAdditionalPlatformLoggingForCustomer": False,
        # It is inferred that this counts the restarts of a job.
        "jobRunInfo": {"jobRunNumber": job.attempt},
    }


def training_job_config(job: TrainingJob) -> dict[str, Any]:
    """Returns trainingjobconfig.json: the request with its defaults. The enums of its channels are in upper case."""
    tags = [{"Key": key, "Value": value} for key, value in job.tags.items()]
    algorithm = job.request["AlgorithmSpecification"]
    config = {
        **dict.fromkeys(FLAGS, False),
        "HyperParameters": {},
        **job.request,
        "AlgorithmSpecification": {"MetricDefinitions": [], **algorithm},
        "InputDataConfig": [_spelled(entry) for entry in job.request.get("InputDataConfig", [])],
        "OutputDataConfig": {"KmsKeyId": "", **job.request["OutputDataConfig"]},
        "TrainingJobArn": job.key.arn,
    }
    return {**config, "Tags": tags, "BaseTags": tags} if tags else config


def debugger_configs(job: TrainingJob) -> dict[str, Any]:
    """Returns the files of Debugger, TensorBoard and Profiler that the request configures.

    profilerconfig.json is inferred from debughookconfig.json. With DisableProfiler there is none.
    """
    request = job.request
    files: dict[str, Any] = {}
    if "DebugHookConfig" in request:
        empty = {"LocalPath": "/opt/ml/output/tensors", "HookParameters": None, "CollectionConfigurations": None}
        files["debughookconfig"] = {**empty, **request["DebugHookConfig"]}
    if "TensorBoardOutputConfig" in request:
        files["tensorboardoutputconfig"] = {
            "LocalPath": "/opt/ml/output/tensorboard/",
            **request["TensorBoardOutputConfig"],
        }
    profiler = request.get("ProfilerConfig")
    if profiler is not None and not profiler.get("DisableProfiler"):
        files["profilerconfig"] = {"LocalPath": "/opt/ml/output/profiler", "ProfilingParameters": None, **profiler}
    return files


def _downloaded(channel: Channel) -> dict[str, Any]:
    return {
        **_source(channel),
        "compressionType": "GZIP" if channel.gzip else "NONE",
        # `RECORDIO` is inferred.
        "recordWrapper": "RECORDIO" if channel.record_io else "NONE",
        "shuffleConfig": None if channel.seed is None else {"seed": channel.seed},
        "inputMode": channel.mode.value.upper(),
        "sharded": channel.sharded,
    }


def _source(channel: Channel) -> dict[str, Any]:
    """Returns one of the two sources, with null for the other. The names within fileSystemDataSource are inferred."""
    system = channel.file_system
    if system is not None:
        file_system = {
            "fileSystemId": system.id,
            "fileSystemAccessMode": "rw" if system.writable else "ro",
            "fileSystemType": system.type,
            "directoryPath": system.path,
        }
        return {"s3DataSource": None, "fileSystemDataSource": file_system}
    objects = {
        "s3DataType": SPELLING[channel.data_type.value],
        "s3Uri": channel.url,
        "s3DataDistributionType": SPELLING["ShardedByS3Key" if channel.sharded else "FullyReplicated"],
        "attributeNames": list(channel.attributes) or None,
    }
    return {"s3DataSource": objects, "fileSystemDataSource": None}


def _checkpoint_channel(url: str) -> dict[str, Any]:
    """Returns the channel of checkpoints. Its path is always the default, even if LocalPath is another (seen so)."""
    return {
        "name": "checkpoints",
        "channel": {
            "s3DataSource": {
                "s3DataType": SPELLING[DataType.PREFIX.value],
                "s3Uri": url,
                "s3DataDistributionType": None,
                "attributeNames": None,
            },
            "fileSystemDataSource": None,
            "compressionType": None,
            "recordWrapper": None,
            "shuffleConfig": None,
            "inputMode": "FILE",
            "sharded": False,
        },
        "outputPath": "/opt/ml/checkpoints",
        "allowEmpty": True,
    }


def _spelled(entry: Mapping[str, Any]) -> dict[str, Any]:
    spelled = {"CompressionType": "None", "RecordWrapperType": "None", **entry}
    for name in ("CompressionType", "RecordWrapperType", "InputMode"):
        if name in spelled:
            spelled[name] = spelled[name].upper()
    source = entry["DataSource"].get("S3DataSource")
    if source is None:
        return spelled
    names = ("S3DataType", "S3DataDistributionType")
    spelled["DataSource"] = {
        "S3DataSource": {**source, **{name: SPELLING[source[name]] for name in names if name in source}}
    }
    return spelled
