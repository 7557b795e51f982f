"""What CreateTrainingJob demands of the buckets that the job writes to."""

from collections.abc import Callable, Mapping
from typing import Any

from sagelet_api.aws_errors import ValidationException
from sagelet_engine.data.objects import S3Uri


def check(request: Mapping[str, Any], has_bucket: Callable[[S3Uri], bool]) -> None:
    """Refuses a job whose results would have no place. Raises ValidationException; the text is ours."""
    places = {
        "OutputDataConfig.S3OutputPath": request["OutputDataConfig"]["S3OutputPath"],
        "CheckpointConfig.S3Uri": request.get("CheckpointConfig", {}).get("S3Uri"),
    }
    for member, uri in places.items():
        if uri is not None and not has_bucket(S3Uri.parse(uri)):
            raise ValidationException(
                f"{member}: the S3 bucket {S3Uri.parse(uri).bucket} does not exist, or it is another account's: "
                "create it first"
            )
