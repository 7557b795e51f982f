"""The request through boto3."""

from collections.abc import Mapping
from typing import Any

from sagelet_api.web.snippets.python import call, literal


def boto3_code(request: Mapping[str, Any], region: str, endpoint: str) -> str:
    """A program that creates the job; its name has to be another one, where the first job is still there."""
    arguments = {name: literal(value, "    ") for name, value in request.items()}
    return (
        "import boto3\n\n"
        "# Without endpoint_url it goes to AWS, or where AWS_ENDPOINT_URL says (`sagelet run` sets it).\n"
        f'sagemaker = boto3.client("sagemaker", region_name={literal(region)}, endpoint_url={literal(endpoint)})\n\n'
        f"{call('sagemaker.create_training_job', arguments)}\n"
    )
