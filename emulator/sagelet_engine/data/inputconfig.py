"""The files of /opt/ml/input/config, as real containers show them.

The shapes come from files that public jobs left behind (github.com/shiftan/simple_sagemaker, 2020, and later logs).
Comments mark what is only inferred. AWS writes some for its own agents in the container (`init-config`,
`trainingjobconfig`, the debugger's), and scripts have come to read them.
"""

import json
from collections.abc import Mapping
from typing import Any

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.data import sdk_v3
from sagelet_engine.data.layout import HostDirectories
from sagelet_engine.model.spec import Channel, DataType
from sagelet_engine.model.training import TrainingJob


def write(job: TrainingJob, host_name: str, host: HostDirectories) -> None:
    """Writes every configuration file of a host. All are written even if they are empty, because the toolkit fails
    without them.
    """
    files: JsonObject = {
        "hyperparameters": sdk_v3.hyperparameters(job),
        "inputdataconfig": _channels(job, host_name),
        "resourceconfig": _resources(job, host_name),
        "metric-definition-regex": [{"Name": one.name, "Regex": one.regex} for one in job.spec.metric_definitions],
        "init-config": init_config(job, host_name),
        "trainingjobconfig": training_job_config(job),
        "upstreamoutputdataconfig": [],
        **debugger_configs(job),
    }
    if job.spec.checkpoint is not None:
        files["checkpointconfig"] = {"LocalPath": job.spec.checkpoint.local_path}
    for name, content in files.items():
        (host.config / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def _channels(job: TrainingJob, host_name: str) -> dict[str, dict[str, str]]:
    """Returns the channels of this host. It is inferred that a channel from a file system looks like one from S3."""
    configs = {}
    for channel in job.spec.channels_for(host_name):
        configs[channel.name] = {
            "TrainingInputMode": channel.mode.value,
            "S3DistributionType": "ShardedByS3Key" if channel.sharded else "FullyReplicated",
            "RecordWrapperType": "RecordIO" if channel.record_io else "None",
        }
        if channel.content_type is not None:
            configs[channel.name]["ContentType"] = channel.content_type
    return configs


def _resources(job: TrainingJob, host_name: str) -> JsonObject:
    own = job.spec.group_of(host_name)
    return {
        "current_host": host_name,
        "current_instance_type": own.instance_type,
        "current_group_name": own.name,
        "hosts": list(job.hosts),
        "instance_groups": [
            {"instance_group_name": group.name, "instance_type": group.instance_type, "hosts": list(group.hosts)}
            for group in job.spec.instance_groups
        ],
        "network_interface_name": "eth0",
        "topology": None,
    }


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


def init_config(job: TrainingJob, host_name: str) -> JsonObject:
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


def training_job_config(job: TrainingJob) -> JsonObject:
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


def debugger_configs(job: TrainingJob) -> JsonObject:
    """Returns the files of Debugger, TensorBoard and Profiler that the request configures.

    profilerconfig.json is inferred from debughookconfig.json. With DisableProfiler there is none.
    """
    request = job.request
    files: JsonObject = {}
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


def _downloaded(channel: Channel) -> JsonObject:
    return {
        **_source(channel),
        "compressionType": "GZIP" if channel.gzip else "NONE",
        # `RECORDIO` is inferred.
        "recordWrapper": "RECORDIO" if channel.record_io else "NONE",
        "shuffleConfig": None if channel.seed is None else {"seed": channel.seed},
        "inputMode": channel.mode.value.upper(),
        "sharded": channel.sharded,
    }


def _source(channel: Channel) -> JsonObject:
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


def _checkpoint_channel(url: str) -> JsonObject:
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


def _spelled(entry: Mapping[str, Any]) -> JsonObject:
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
