"""Access control lists of buckets and objects: disabled, as in every bucket that AWS makes since April 2023.

So there is one list: the owner may do everything, and nobody else anything. It can be read. Writing the same list
succeeds, and any other is refused (user guide, S3 Object Ownership). s3cmd reads an object's list here and sets it on
each copy.
"""

import re

from sagelet_api.protocol.members import Parameters, Request
from sagelet_api.protocol.s3.codec import Result
from sagelet_api.protocol.s3.errors import S3Error, invalid_argument, invalid_request
from sagelet_api.services.s3.context import Context, owner

_CANNED = frozenset(
    {"private", "public-read", "public-read-write", "aws-exec-read", "authenticated-read", "bucket-owner-read"}
    | {"bucket-owner-full-control", "log-delivery-write"}
)
#: These give nobody else any right.
_WITHOUT_EFFECT = frozenset({"private", "bucket-owner-full-control", "bucket-owner-read"})
_GRANTEE = re.compile(r'\s*(id|uri|emailaddress)\s*=\s*("[^"]*"|[^",=]+)\s*', re.IGNORECASE)
_KINDS = {"CanonicalUser": "ID", "Group": "URI", "AmazonCustomerByEmail": "EmailAddress"}
_PERMISSIONS = frozenset({"FULL_CONTROL", "READ", "WRITE", "READ_ACP", "WRITE_ACP"})


def get_bucket_acl(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    return _the_one(context)


def get_object_acl(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    context.store.head(context.request.bucket, context.request.key)
    return _the_one(context)


def put_bucket_acl(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    _check_new(context, parameters)
    return Result()


def put_object_acl(context: Context, parameters: Parameters) -> Result:
    context.bucket(parameters)
    context.store.head(context.request.bucket, context.request.key)
    _check_new(context, parameters)
    return Result()


def check_acl(parameters: Request) -> None:
    """Checks a request that makes a bucket or an object. Raises S3Error for a malformed list, or one that gives others
    any right.

    It looks at headers only, because the body is the object's.
    """
    canned, granted = parameters.get("ACL"), [name for name in parameters if name.startswith("Grant")]
    if canned is not None and canned not in _CANNED:
        raise invalid_argument("x-amz-acl", canned, "")
    if canned is not None and granted:
        raise invalid_request("Specifying both Canned ACLs and Header Grants is not allowed")
    for name in granted:
        _check_grantees(parameters[name])
    if canned not in (None, *_WITHOUT_EFFECT) or granted:
        raise S3Error("AccessControlListNotSupported", 400, "The bucket does not allow ACLs")


def _check_new(context: Context, parameters: Request) -> None:
    policy = parameters.get("AccessControlPolicy")
    by_headers = "ACL" in parameters or any(name.startswith("Grant") for name in parameters)
    if policy is None and not by_headers:
        raise S3Error(
            "MissingSecurityHeader", 400, "Your request was missing a required header", MissingHeaderName="x-amz-acl"
        )
    if policy is not None and by_headers:
        raise S3Error("UnexpectedContent", 400, "This request does not support content")
    check_acl(parameters)
    if policy is not None:
        _check_policy(context, policy)


def _check_policy(context: Context, policy: Request) -> None:
    """Checks a document of AWS's form: it must hold the one list."""
    if "Owner" not in policy or "Grants" not in policy:
        raise _malformed()
    grants = [_grant(entry) for entry in policy["Grants"]]
    ours = owner(context.account)["ID"]
    if policy["Owner"].get("ID") != ours:
        raise S3Error("AccessDenied", 403, "Access Denied")
    if grants != [(ours, "FULL_CONTROL")]:
        raise S3Error("AccessControlListNotSupported", 400, "The bucket does not allow ACLs")


def _grant(entry: Request) -> tuple[str, str]:
    grantee, permission = entry.get("Grantee", {}), entry.get("Permission")
    named = _KINDS.get(grantee.get("Type", ""))
    if named is None or not grantee.get(named) or permission not in _PERMISSIONS:
        raise _malformed()
    return grantee[named], permission


def _check_grantees(text: str) -> None:
    """Checks `id="...", uri="..."`."""
    if not all(_GRANTEE.fullmatch(one) for one in text.split(",")):
        raise invalid_argument("x-amz-grant", text, "Argument format not recognized")


def _malformed() -> S3Error:
    return S3Error(
        "MalformedACLError",
        400,
        "The XML you provided was not well-formed or did not validate against our published schema",
    )


def _the_one(context: Context) -> Result:
    who = owner(context.account)
    grant = {"Grantee": {**who, "Type": "CanonicalUser"}, "Permission": "FULL_CONTROL"}
    return Result({"Owner": who, "Grants": [grant]})
