"""Writes a request as a command of the AWS CLI."""

import json
import shlex
from collections.abc import Mapping
from typing import Any


def cli_code(operation: str, request: Mapping[str, Any], region: str, endpoint: str) -> str:
    """Returns a command for a POSIX shell. `operation`: as the CLI calls it, `create-training-job`."""
    body = json.dumps(request, indent=2)
    return (
        f"aws sagemaker {operation} --region {shlex.quote(region)} --endpoint-url {shlex.quote(endpoint)} \\\n"
        f"  --cli-input-json {shlex.quote(body)}\n"
    )
