"""Channels as requests have them, and the staging of a job's inputs, for tests."""

import json
from typing import Any

from sagelet_engine.model.training import TrainingJob, create
from support.world import key, request


def channel(
    url: str, name: str = "training", mode: str = "File", kind: str = "S3Prefix", **more: Any
) -> dict[str, Any]:
    """Makes a channel. `more` are members of S3DataSource, or of the channel if S3DataSource does not have them."""
    of_source = ("S3DataDistributionType", "AttributeNames")
    source = {"S3DataType": kind, "S3Uri": url, **{name: more[name] for name in of_source if name in more}}
    return {
        "ChannelName": name,
        "DataSource": {"S3DataSource": source},
        "InputMode": mode,
        **{name: value for name, value in more.items() if name not in of_source},
    }


def job_with(*channels: dict[str, Any], hosts: int = 1, **changes: Any) -> TrainingJob:
    resources = {"InstanceType": "ml.m5.large", "InstanceCount": hosts, "VolumeSizeInGB": 10}
    body = request("one", InputDataConfig=list(channels), ResourceConfig=resources, **changes)
    return create(key("one"), "id", body, {}, 1000)


def manifest(prefix: str, *names: str) -> bytes:
    return json.dumps([{"prefix": prefix}, *names]).encode()
