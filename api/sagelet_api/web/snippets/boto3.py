"""Writes the request as a program with boto3."""

from collections.abc import Mapping
from typing import Any

from sagelet_api.web.snippets.python import call, literal


def boto3_code(request: Mapping[str, Any], region: str, endpoint: str, method: str = "create_training_job") -> str:
    """Returns a program that creates the job. It must use another name if the first job still exists."""
    arguments = {name: literal(value, "    ") for name, value in request.items()}
    return (
        "import boto3\n\n"
        "# Without endpoint_url it goes to AWS, or where AWS_ENDPOINT_URL says (`sagelet run` sets it).\n"
        f'sagemaker = boto3.client("sagemaker", region_name={literal(region)}, endpoint_url={literal(endpoint)})\n\n'
        f"{call(f'sagemaker.{method}', arguments)}\n"
    )
