"""The files of /opt/ml/input/config, as real containers show them.

The shapes come from files that public jobs left behind (github.com/shiftan/simple_sagemaker, 2020, and later logs).
Comments mark what is only inferred. `platformconfig.py` has the files that describe the job to the platform's own
agents.
"""

import json
from typing import Any

from sagelet_engine.data import platformconfig, sdk_v3
from sagelet_engine.data.layout import HostDirectories
from sagelet_engine.model.training import TrainingJob


def write(job: TrainingJob, host_name: str, host: HostDirectories) -> None:
    """Writes every configuration file of a host. All are written even if they are empty, because the toolkit fails
    without them.
    """
    files: dict[str, Any] = {
        "hyperparameters": sdk_v3.hyperparameters(job),
        "inputdataconfig": _channels(job, host_name),
        "resourceconfig": _resources(job, host_name),
        "metric-definition-regex": [{"Name": one.name, "Regex": one.regex} for one in job.spec.metric_definitions],
        "init-config": platformconfig.init_config(job, host_name),
        "trainingjobconfig": platformconfig.training_job_config(job),
        "upstreamoutputdataconfig": [],
        **platformconfig.debugger_configs(job),
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


def _resources(job: TrainingJob, host_name: str) -> dict[str, Any]:
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
