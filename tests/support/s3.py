"""Helpers for tests of S3."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError


def refusal(call: Callable[..., Any], **parameters: Any) -> tuple[int, str]:
    """Makes a call that must fail. Returns the status and code of its error."""
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    answer = caught.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]
