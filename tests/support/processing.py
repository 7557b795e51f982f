"""Bodies of CreateProcessingJob, for tests."""

from typing import Any

from support.world import IMAGE

ROLE = "arn:aws:iam::123456789012:role/SageMakerRole"


def processing_request(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "ProcessingJobName": name,
        "RoleArn": ROLE,
        "AppSpecification": {"ImageUri": IMAGE, "ContainerEntrypoint": ["python3", "/opt/ml/processing/code/p.py"]},
        "ProcessingResources": {
            "ClusterConfig": {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 10}
        },
        **changes,
    }


def cluster(**changes: Any) -> dict[str, Any]:
    members = {"InstanceCount": 1, "InstanceType": "ml.m5.large", "VolumeSizeInGB": 10, **changes}
    return {"ProcessingResources": {"ClusterConfig": members}}


def given(name: str, uri: str, path: str, **changes: Any) -> dict[str, Any]:
    """An input."""
    source = {"S3Uri": uri, "LocalPath": path, "S3DataType": "S3Prefix", "S3InputMode": "File", **changes}
    return {"InputName": name, "S3Input": source}


def result(name: str, uri: str, path: str, mode: str = "EndOfJob") -> dict[str, Any]:
    """An output."""
    return {"OutputName": name, "S3Output": {"S3Uri": uri, "LocalPath": path, "S3UploadMode": mode}}
