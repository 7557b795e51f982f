"""Tags of buckets. moto keeps them, but not by its own reading of the document: that loses an empty value."""

from typing import Any

from sagelet_api.services.s3.codec import Result
from sagelet_api.services.s3.context import Context
from sagelet_api.services.s3.description import checked_tags
from sagelet_api.services.s3.errors import S3Error

#: On AWS: docs.aws.amazon.com/AmazonS3/latest/userguide/CostAllocTagging.html.
MOST = 50


def checked(tags: list[dict[str, str]]) -> dict[str, str]:
    """Raises S3Error InvalidTag, BadRequest."""
    return checked_tags([(tag.get("Key", ""), tag.get("Value", "")) for tag in tags], most=MOST, of="Bucket")


def get_bucket_tagging(context: Context, parameters: dict[str, Any]) -> Result:
    bucket = context.bucket(parameters)
    tags = context.rest.tags(bucket)
    if not tags:
        raise S3Error("NoSuchTagSet", 404, "The TagSet does not exist", BucketName=bucket.name)
    return Result({"TagSet": [{"Key": key, "Value": value} for key, value in tags.items()]})


def put_bucket_tagging(context: Context, parameters: dict[str, Any]) -> Result:
    bucket = context.bucket(parameters)
    context.rest.set_tags(bucket, checked(parameters["Tagging"].get("TagSet", [])))
    return Result(status=204)


def delete_bucket_tagging(context: Context, parameters: dict[str, Any]) -> Result:
    context.rest.set_tags(context.bucket(parameters), {})
    return Result(status=204)
