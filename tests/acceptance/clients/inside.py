"""What a job tries from the inside. Prints one JSON object; uses what every training image has."""

import json
import os
import socket
import ssl
import urllib.error
import urllib.request
import uuid
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

ENDPOINT = os.environ["AWS_ENDPOINT_URL"]
JOB = {
    "TrainingJobName": "from-inside",
    "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
    "RoleArn": "arn:aws:iam::123456789012:role/SageMakerRole",
    "OutputDataConfig": {"S3OutputPath": "s3://sdk-tests/out"},
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
    "StoppingCondition": {"MaxRuntimeInSeconds": 60},
}


def client(service: str, **options: Any) -> Any:
    return boto3.client(service, config=Config(retries={"total_max_attempts": 1}), **options)


def code(call: Any, **parameters: Any) -> str:
    try:
        call(**parameters)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "ok"


def s3() -> str:
    bucket = f"inside-{uuid.uuid4()}"
    store = client("s3")
    store.create_bucket(Bucket=bucket)
    store.put_object(Bucket=bucket, Key="k", Body=b"bytes")
    assert store.get_object(Bucket=bucket, Key="k")["Body"].read() == b"bytes"
    return "ok"


def control(headers: dict) -> int:
    context = ssl.create_default_context(cafile=os.environ["AWS_CA_BUNDLE"])
    url = ENDPOINT + "/_sagelet/faults/throttling"
    try:
        return int(urllib.request.urlopen(urllib.request.Request(url, headers=headers), context=context).status)
    except urllib.error.HTTPError as error:
        return 403 if error.code in (400, 403) else error.code


def metadata(address: str) -> str:
    try:
        socket.create_connection((address, 80), timeout=5).close()
    except OSError as error:
        return type(error).__name__
    return "reached"


SIGNED = "AWS4-HMAC-SHA256 Credential=AKIAX/20260101/us-east-1/sagelet/aws4_request, SignedHeaders=host, Signature=0"
print(
    "PROBED "
    + json.dumps(
        {
            "scheme": ENDPOINT.partition(":")[0],
            "s3": s3(),
            "logs": code(client("logs").create_log_group, logGroupName=f"/inside/{uuid.uuid4()}"),
            "who": client("sts").get_caller_identity()["Arn"],
            "create": code(client("sagemaker").create_training_job, **JOB),
            "describe": code(client("sagemaker").list_training_jobs),
            "iam": code(client("iam").create_user, UserName="eve"),
            "a made-up key": code(
                client(
                    "sagemaker", aws_access_key_id="AKIAX", aws_secret_access_key="x", aws_session_token=None
                ).list_training_jobs
            ),
            "control": control({}),
            "control with a made-up key": control({"Authorization": SIGNED, "X-Amz-Date": "20260101T000000Z"}),
            "metadata": {one: metadata(one) for one in ("169.254.169.254", "169.254.170.2", "169.254.170.23")},
            "docker": [path for path in ("/var/run/docker.sock", "/run/docker.sock") if os.path.exists(path)],
        }
    )
)
