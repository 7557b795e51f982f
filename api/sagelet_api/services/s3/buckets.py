"""Operations on buckets themselves. `configuration.py` has what their owners configure."""

import ipaddress
import re

from sagelet_api.protocol.members import Parameters
from sagelet_api.protocol.s3.codec import Result
from sagelet_api.protocol.s3.errors import S3Error, not_implemented
from sagelet_api.services.s3.acls import check_acl
from sagelet_api.services.s3.configuration import of_new_bucket
from sagelet_api.services.s3.context import Context, owner
from sagelet_engine.s3.errors import BucketExists, BucketNotEmpty

#: The region whose buckets have no location constraint. There, creating a bucket again is not an error.
FIRST_REGION = "us-east-1"
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)
_RESERVED = ("xn--", "sthree-"), ("-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3")


def list_buckets(context: Context, parameters: Parameters) -> Result:
    prefix, region = parameters.get("Prefix", ""), parameters.get("BucketRegion")
    after, limit = parameters.get("ContinuationToken", ""), parameters.get("MaxBuckets", 10_000)
    found = [
        bucket
        for bucket in context.store.catalog.buckets(context.account)
        if bucket.name.startswith(prefix) and bucket.name > after and region in (None, bucket.region)
    ]
    page = found[:limit]
    entries = [{"Name": b.name, "CreationDate": b.created_ms, "BucketRegion": b.region} for b in page]
    token = page[-1].name if page and len(found) > limit else None
    members = {"Buckets": entries, "Owner": owner(context.account), "ContinuationToken": token}
    return Result({**members, "Prefix": prefix or None})


def create_bucket(context: Context, parameters: Parameters) -> Result:
    name = context.request.bucket
    _check_name(name)
    if parameters.get("ObjectLockEnabledForBucket"):
        raise not_implemented("sagelet's S3 keeps one version of an object, and so has no Object Lock.")
    _check_acl(parameters)
    configuration = of_new_bucket(parameters)
    constraint = parameters.get("CreateBucketConfiguration", {}).get("LocationConstraint")
    region = _region(context.request.call.region, constraint)
    try:
        context.store.create_bucket(name, context.account, region, configuration)
    except BucketExists as error:
        _refuse_existing(context, error, region)
    return Result({"Location": f"/{name}", "BucketArn": f"arn:aws:s3:::{name}"})


def delete_bucket(context: Context, parameters: Parameters) -> Result:
    bucket = context.bucket(parameters)
    try:
        context.store.delete_bucket(bucket.name)
    except BucketNotEmpty as error:
        message = "The bucket you tried to delete is not empty"
        raise S3Error("BucketNotEmpty", 409, message, BucketName=bucket.name) from error
    return Result()


def head_bucket(context: Context, parameters: Parameters) -> Result:
    bucket = context.bucket(parameters)
    return Result({"BucketRegion": bucket.region, "BucketArn": f"arn:aws:s3:::{bucket.name}"})


def get_bucket_location(context: Context, parameters: Parameters) -> Result:
    """Answers with the constraint itself as the document, which the service writes."""
    bucket = context.bucket(parameters)
    return Result({"LocationConstraint": "" if bucket.region == FIRST_REGION else bucket.region})


def get_bucket_versioning(context: Context, parameters: Parameters) -> Result:
    """Answers without a Status, because versioning is never enabled."""
    context.bucket(parameters)
    return Result()


def put_bucket_versioning(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    raise not_implemented("sagelet's S3 keeps one version of an object: versioning cannot be enabled.")


def _check_acl(parameters: Parameters) -> None:
    try:
        check_acl(parameters)
    except S3Error as error:
        if error.code != "AccessControlListNotSupported":
            raise
        message = "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting"
        raise S3Error("InvalidBucketAclWithObjectOwnership", 400, message) from error


def _check_name(name: str) -> None:
    """Checks AWS's rules for names of general purpose buckets."""
    prefixes, suffixes = _RESERVED
    fine = _NAME.fullmatch(name) and ".." not in name and not _is_address(name)
    if not fine or name.startswith(prefixes) or name.endswith(suffixes):
        raise S3Error("InvalidBucketName", 400, "The specified bucket is not valid.", BucketName=name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.IPv4Address(name)
    except ValueError:
        return False
    return True


def _region(endpoint: str, constraint: str | None) -> str:
    """Returns the region of a new bucket: any region for clients of us-east-1, their own region for others."""
    if constraint == FIRST_REGION:
        raise S3Error(
            "InvalidLocationConstraint", 400, "The specified location-constraint is not valid",
            LocationConstraint=constraint,
        )  # fmt: skip
    wanted = {"EU": "eu-west-1", None: FIRST_REGION}.get(constraint, constraint)
    if endpoint not in (FIRST_REGION, wanted):
        message = (
            f"The {constraint or 'unspecified'} location constraint is incompatible for the region specific endpoint "
            "this request was sent to."
        )
        raise S3Error("IllegalLocationConstraintException", 400, message)
    return str(wanted)


def _refuse_existing(context: Context, error: BucketExists, region: str) -> None:
    """Raises the error for an existing bucket. Ignores a bucket of the caller's own in us-east-1, as AWS does."""
    if error.account != context.account:
        message = (
            "The requested bucket name is not available. The bucket namespace is shared by all users of the system. "
            "Please select a different name and try again."
        )
        raise S3Error("BucketAlreadyExists", 409, message, BucketName=error.bucket) from error
    if (region, error.region) != (FIRST_REGION, FIRST_REGION):
        message = "Your previous request to create the named bucket succeeded and you already own it."
        raise S3Error("BucketAlreadyOwnedByYou", 409, message, BucketName=error.bucket) from error
