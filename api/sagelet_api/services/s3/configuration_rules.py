"""What S3 demands of a bucket's configuration beyond its schema. Each rule returns the document as it is kept.

Where no source is named, the errors are AWS's as moto has them.
"""

import json
import uuid
from collections.abc import Iterator
from typing import Any

from sagelet_api.protocol.members import Output, Parameters, Request
from sagelet_api.protocol.s3.errors import S3Error, invalid_argument, invalid_request, malformed_xml
from sagelet_api.services.s3.context import Context
from sagelet_api.services.s3.description import ENCRYPTION_ALGORITHMS, checked_tags
from sagelet_engine.s3.errors import NoSuchBucket

SSE_S3 = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}, "BucketKeyEnabled": False}]}
ACCESS_MEMBERS = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
#: The limit of AWS: docs.aws.amazon.com/AmazonS3/latest/userguide/CostAllocTagging.html.
_MOST_TAGS = 50
_CORS_METHODS = frozenset({"GET", "PUT", "HEAD", "POST", "DELETE"})
_MOST_CORS_RULES = 100
#: Bytes of a policy (S3 user guide, "Adding a bucket policy").
_MOST_POLICY = 20 * 1024
_LOGGING = "logging.s3.amazonaws.com"
#: Members of the filter of a lifecycle's rule, which has one of them. `And` holds several.
_FILTERS = ("Prefix", "Tag", "And", "ObjectSizeGreaterThan", "ObjectSizeLessThan")
#: Destinations of notifications: the list in the document, its member with the ARN, and the service in the ARN.
_DESTINATIONS = (
    ("QueueConfigurations", "QueueArn", "sqs"),
    ("TopicConfigurations", "TopicArn", "sns"),
    ("LambdaFunctionConfigurations", "LambdaFunctionArn", "lambda"),
)


def as_given(_context: Context, _parameters: Parameters, document: Parameters) -> Parameters:
    return document


def tagging(_context: Context, _parameters: Parameters, document: Parameters) -> Parameters:
    return tag_set(document.get("TagSet", []))


def tag_set(tags: list[dict[str, str]]) -> Output:
    """Returns a bucket's tags as their document. Raises S3Error InvalidTag, BadRequest."""
    pairs = [(tag.get("Key", ""), tag.get("Value", "")) for tag in tags]
    checked = checked_tags(pairs, most=_MOST_TAGS, of="Bucket")
    return {"TagSet": [{"Key": key, "Value": value} for key, value in checked.items()]}


def encryption(_context: Context, parameters: Parameters, document: Parameters) -> Parameters:
    if len(document["Rules"]) != 1:
        raise malformed_xml()
    rule, given = document["Rules"][0], parameters["ServerSideEncryptionConfiguration"]["Rules"][0]
    by_default = rule.get("ApplyServerSideEncryptionByDefault", {"SSEAlgorithm": "AES256"})
    key = given.get("ApplyServerSideEncryptionByDefault", {}).get("KMSMasterKeyID")
    if by_default["SSEAlgorithm"] not in ENCRYPTION_ALGORITHMS or key == "":
        raise malformed_xml()
    if by_default["SSEAlgorithm"] == "AES256" and key is not None:
        message = "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or aws:kms:dsse"
        raise invalid_argument("ApplyServerSideEncryptionByDefault", by_default["SSEAlgorithm"], message)
    return {"Rules": [{"BucketKeyEnabled": False, **rule, "ApplyServerSideEncryptionByDefault": by_default}]}


def cors(_context: Context, _parameters: Parameters, document: Parameters) -> Parameters:
    if len(document["CORSRules"]) > _MOST_CORS_RULES:
        raise malformed_xml()
    for method in (one for rule in document["CORSRules"] for one in rule["AllowedMethods"]):
        if method not in _CORS_METHODS:
            raise invalid_request(f"Found unsupported HTTP method in CORS config. Unsupported method is {method}")
    return document


def lifecycle(_context: Context, parameters: Parameters, document: Parameters) -> Parameters:
    if not all(_is_lifecycle_rule(rule) for rule in document["Rules"]):
        raise malformed_xml()
    rules = [{"ID": uuid.uuid4().hex, **rule} for rule in document["Rules"]]
    size = parameters.get("TransitionDefaultMinimumObjectSize", "all_storage_classes_128K")
    return {"Rules": rules, "TransitionDefaultMinimumObjectSize": size}


def _is_lifecycle_rule(rule: Request) -> bool:
    one_filter = ("Filter" in rule) != ("Prefix" in rule)
    chosen = sum(name in rule.get("Filter", {}) for name in _FILTERS)
    expiration = rule.get("Expiration", {})
    of_marker = "ExpiredObjectDeleteMarker" in expiration
    needed = (
        *((one, {"NoncurrentDays", "StorageClass"}) for one in rule.get("NoncurrentVersionTransitions", [])),
        (rule.get("NoncurrentVersionExpiration"), {"NoncurrentDays"}),
        (rule.get("AbortIncompleteMultipartUpload"), {"DaysAfterInitiation"}),
    )
    whole = all(action is None or members <= action.keys() for action, members in needed)
    return one_filter and chosen <= 1 and whole and not (of_marker and expiration.keys() & {"Days", "Date"})


def public_access(_context: Context, _parameters: Parameters, document: Parameters) -> Parameters:
    return {**dict.fromkeys(ACCESS_MEMBERS, False), **document}


def ownership(_context: Context, _parameters: Parameters, document: Parameters) -> Parameters:
    """The list has exactly one entry (user guide, S3 Object Ownership)."""
    if len(document["Rules"]) != 1:
        raise malformed_xml()
    return document


def policy(_context: Context, _parameters: Parameters, document: str) -> Parameters:
    if len(document.encode()) > _MOST_POLICY:
        # The code and its text are MinIO's. AWS's were not seen.
        raise S3Error("PolicyTooLarge", 400, "Policy exceeds the maximum allowed document size.")
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        parsed = None
    if not document.startswith("{") or not isinstance(parsed, dict):
        raise S3Error("MalformedPolicy", 400, "Policies must be valid JSON and the first byte must be '{'")
    if "Statement" not in parsed:
        raise S3Error("MalformedPolicy", 400, "Missing required field Statement")
    return {"Policy": document}


def is_public(policy: Request) -> bool:
    """True if a policy allows something to everybody without a condition, which is the core of AWS's rule."""
    return any(
        one.get("Effect") == "Allow" and "Condition" not in one and "*" in _principals(one.get("Principal"), "AWS")
        for one in _statements(policy)
    )


def logging(context: Context, _parameters: Parameters, document: Parameters) -> Parameters:
    if "LoggingEnabled" not in document:
        return {}
    catalog = context.store.catalog
    here = catalog.bucket(context.request.bucket)
    try:
        target = catalog.bucket(document["LoggingEnabled"]["TargetBucket"])
    except NoSuchBucket as error:
        raise _invalid_target("The target bucket for logging does not exist.") from error
    if target.account != here.account:
        raise _invalid_target("The owner for the bucket to be logged and the target bucket must be the same.")
    if target.region != here.region:
        raise S3Error("CrossLocationLoggingProhibitted", 403, "Cross S3 location logging not allowed.")
    if not _lets_logs_in(catalog.configuration(target.name, "policy").get("") or {}):
        raise _invalid_target(
            "You must either provide the necessary permissions to the logging service using a bucket policy or give "
            "the log-delivery group WRITE and READ_ACP permissions to the target bucket"
        )
    return document


def _lets_logs_in(policy: Request) -> bool:
    """True if a policy allows S3's logging to put objects. Which objects is not looked at."""
    return any(
        one.get("Effect") == "Allow"
        and _LOGGING in _principals(one.get("Principal"), "Service")
        and "s3:PutObject" in _several(one.get("Action"))
        for one in _statements(policy)
    )


def _invalid_target(message: str) -> S3Error:
    return S3Error("InvalidTargetBucketForLogging", 400, message)


def _statements(policy: Request) -> Iterator[Request]:
    found = json.loads(policy["Policy"])["Statement"] if policy else []
    yield from (one for one in _several(found) if isinstance(one, dict))


def _principals(principal: Any, kind: str) -> list[Any]:
    return _several(principal.get(kind) if isinstance(principal, dict) else principal)


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def website(_context: Context, _parameters: Parameters, document: Parameters) -> Parameters:
    if "IndexDocument" not in document and "RedirectAllRequestsTo" not in document:
        message = "A value for IndexDocument Suffix must be provided if RedirectAllRequestsTo is empty"
        raise invalid_argument("IndexDocument", "null", message)
    return document


def notification(context: Context, _parameters: Parameters, document: Parameters) -> Parameters:
    """Checks the destinations, and gives an id to each that has none."""
    region = context.store.catalog.bucket(context.request.bucket).region
    kept = dict(document)
    for name, arn, service in _DESTINATIONS:
        for one in document.get(name, []):
            _check_destination(one, one[arn], service, region)
        if name in document:
            kept[name] = [{"Id": uuid.uuid4().hex, **one} for one in document[name]]
    return kept


def _check_destination(destination: Request, arn: str, service: str, region: str) -> None:
    parts = arn.split(":")
    if len(parts) < 6 or (parts[0], parts[2]) != ("arn", service):
        raise invalid_argument("ARN", arn, "The ARN is not well formed")
    if parts[3] != region:
        message = "The notification destination service region is not valid for the bucket location constraint"
        raise invalid_argument("ARN", arn, message)
    for rule in destination.get("Filter", {}).get("Key", {}).get("FilterRules", []):
        if not {"Name", "Value"} <= rule.keys():
            raise malformed_xml()


def inventory(_context: Context, parameters: Parameters, document: Parameters) -> Parameters:
    if document["Id"] != parameters["Id"]:
        raise S3Error("IdMismatch", 400, "Document ID does not match the specified configuration ID.")
    return document
