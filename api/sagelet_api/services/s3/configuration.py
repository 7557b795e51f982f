"""What the owner of a bucket configures: documents in the form of S3's model, which the catalogue keeps.

Objects depend on two of them: the default encryption and the notifications. The others are checked, kept and returned,
and have no effect here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sagelet_api.protocol.members import Output, Parameters
from sagelet_api.protocol.s3.codec import Result, checked_document
from sagelet_api.protocol.s3.errors import S3Error, invalid_argument, invalid_request
from sagelet_api.services.s3 import configuration_rules as rules
from sagelet_api.services.s3.context import ENCRYPTION, NOTIFICATION, Context, Handler
from sagelet_engine.s3.records import Bucket

_INVENTORY = "inventory"
#: Entries of a page of ListBucketInventoryConfigurations (API reference).
_PAGE = 100
_OWNERSHIPS = ("BucketOwnerPreferred", "ObjectWriter", "BucketOwnerEnforced")


@dataclass(frozen=True)
class Kind:
    """A kind of configuration that a bucket has once, and its three operations."""

    #: As it is in the query of its requests.
    name: str
    #: Returns the document of a request as it is kept. Raises S3Error.
    rule: Callable[[Context, Parameters, Any], Parameters] = rules.as_given
    #: The member of Get's answer that holds the document. Empty if the document's members are the answer's.
    answer: str = ""
    #: Code and text of Get's error if there is no document. None: the answer is empty.
    missing: tuple[str, str] | None = None
    #: What a new bucket has.
    default: Output | None = None
    #: What a deletion leaves.
    left: Output | None = None
    put_status: int | None = None

    def put(self, context: Context, parameters: Parameters) -> Result:
        self.keep(context, parameters)
        return Result(status=self.put_status)

    def keep(self, context: Context, parameters: Parameters) -> tuple[Bucket, Output]:
        """Keeps the document of a request. Returns the bucket and the document. Raises S3Error."""
        bucket = context.bucket(parameters)
        given = checked_document(context.request.call.operation, parameters)
        document = self.rule(context, parameters, given)
        context.store.catalog.configure(bucket.name, self.name, document)
        return bucket, document

    def get(self, context: Context, parameters: Parameters) -> Result:
        document = self.document(context, parameters)
        return Result({self.answer: document} if self.answer else document)

    def document(self, context: Context, parameters: Parameters) -> Output:
        """Returns the document of the bucket that a request names. Raises S3Error."""
        bucket = context.bucket(parameters)
        document = context.store.catalog.configuration(bucket.name, self.name).get("", self.default)
        if not document and self.missing is not None:
            raise S3Error(self.missing[0], 404, self.missing[1], BucketName=bucket.name)
        return document or {}

    def delete(self, context: Context, parameters: Parameters) -> Result:
        context.store.catalog.configure(context.bucket(parameters).name, self.name, self.left)
        return Result(status=204)


_ACCELERATE = Kind("accelerate")
_CORS = Kind("cors", rules.cors, missing=("NoSuchCORSConfiguration", "The CORS configuration does not exist"))
_ENCRYPTION = Kind(
    ENCRYPTION, rules.encryption, "ServerSideEncryptionConfiguration", default=rules.SSE_S3, left=rules.SSE_S3
)
_LIFECYCLE = Kind(
    "lifecycle",
    rules.lifecycle,
    missing=("NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist"),
)
_LOGGING = Kind("logging", rules.logging)
_NOTIFICATION = Kind(NOTIFICATION, rules.notification)
# What a new bucket has of the next two since April 2023: S3 user guide, "Default settings for new S3 buckets FAQ".
_OWNERSHIP = Kind(
    "ownershipControls",
    rules.ownership,
    "OwnershipControls",
    missing=("OwnershipControlsNotFoundError", "The bucket ownership controls were not found"),
    default={"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
)
_PUBLIC_ACCESS = Kind(
    "publicAccessBlock",
    rules.public_access,
    "PublicAccessBlockConfiguration",
    missing=("NoSuchPublicAccessBlockConfiguration", "The public access block configuration was not found"),
    default=dict.fromkeys(rules.ACCESS_MEMBERS, True),
)
_POLICY = Kind("policy", rules.policy, missing=("NoSuchBucketPolicy", "The bucket policy does not exist"))
_TAGGING = Kind("tagging", rules.tagging, missing=("NoSuchTagSet", "The TagSet does not exist"), put_status=204)
_WEBSITE = Kind(
    "website",
    rules.website,
    missing=("NoSuchWebsiteConfiguration", "The specified bucket does not have a website configuration"),
)
_REPLICATION = Kind(
    "replication", missing=("ReplicationConfigurationNotFoundError", "The replication configuration was not found")
)
_OBJECT_LOCK = Kind(
    "object-lock",
    missing=("ObjectLockConfigurationNotFoundError", "Object Lock configuration does not exist for this bucket"),
)


def of_new_bucket(parameters: Parameters) -> dict[str, Output]:
    """Returns the documents that CreateBucket asks for, by kind. Raises S3Error."""
    found = {}
    if tags := parameters.get("CreateBucketConfiguration", {}).get("Tags"):
        found[_TAGGING.name] = rules.tag_set(tags)
    if (ownership := parameters.get("ObjectOwnership")) is not None:
        if ownership not in _OWNERSHIPS:
            raise invalid_argument("x-amz-object-ownership", ownership, f"Invalid x-amz-object-ownership: {ownership}")
        found[_OWNERSHIP.name] = {"Rules": [{"ObjectOwnership": ownership}]}
    return found


def _put_notification(context: Context, parameters: Parameters) -> Result:
    bucket, document = _NOTIFICATION.keep(context, parameters)
    context.others.test_event(bucket, document)
    return Result()


def _get_policy_status(context: Context, parameters: Parameters) -> Result:
    return Result({"PolicyStatus": {"IsPublic": rules.is_public(_POLICY.document(context, parameters))}})


def _put_replication(context: Context, parameters: Parameters) -> Result:
    """Refuses it as AWS does for a bucket without versions, which all buckets are here."""
    context.bucket(parameters)
    raise invalid_request("Versioning must be 'Enabled' on the bucket to apply a replication configuration")


def _put_object_lock(context: Context, parameters: Parameters) -> Result:
    """Refuses it as AWS does for a bucket without versions, which all buckets are here."""
    context.bucket(parameters)
    message = "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration"
    raise S3Error("InvalidBucketState", 409, message)


def _put_inventory(context: Context, parameters: Parameters) -> Result:
    bucket = context.bucket(parameters)
    given = checked_document(context.request.call.operation, parameters)
    document = rules.inventory(context, parameters, given)
    context.store.catalog.configure(bucket.name, _INVENTORY, document, document["Id"])
    return Result(status=204)


def _get_inventory(context: Context, parameters: Parameters) -> Result:
    return Result({"InventoryConfiguration": _inventory(context, parameters)})


def _delete_inventory(context: Context, parameters: Parameters) -> Result:
    _inventory(context, parameters)
    context.store.catalog.configure(context.request.bucket, _INVENTORY, None, parameters["Id"])
    return Result(status=204)


def _inventory(context: Context, parameters: Parameters) -> Output:
    document = context.store.catalog.configuration(context.bucket(parameters).name, _INVENTORY).get(parameters["Id"])
    if document is None:
        raise S3Error("NoSuchConfiguration", 404, "The specified configuration does not exist.")
    return document


def _list_inventories(context: Context, parameters: Parameters) -> Result:
    found = context.store.catalog.configuration(context.bucket(parameters).name, _INVENTORY)
    after = parameters.get("ContinuationToken", "")
    left = [(name, document) for name, document in found.items() if document is not None and name > after]
    more = len(left) > _PAGE
    members = {
        "InventoryConfigurationList": [document for _, document in left[:_PAGE]],
        "IsTruncated": more,
        "NextContinuationToken": left[_PAGE - 1][0] if more else None,
        "ContinuationToken": after or None,
    }
    return Result(members)


HANDLERS: dict[str, Handler] = {
    "PutBucketAccelerateConfiguration": _ACCELERATE.put,
    "GetBucketAccelerateConfiguration": _ACCELERATE.get,
    "PutBucketCors": _CORS.put,
    "GetBucketCors": _CORS.get,
    "DeleteBucketCors": _CORS.delete,
    "PutBucketEncryption": _ENCRYPTION.put,
    "GetBucketEncryption": _ENCRYPTION.get,
    "DeleteBucketEncryption": _ENCRYPTION.delete,
    "PutBucketInventoryConfiguration": _put_inventory,
    "GetBucketInventoryConfiguration": _get_inventory,
    "DeleteBucketInventoryConfiguration": _delete_inventory,
    "ListBucketInventoryConfigurations": _list_inventories,
    "PutBucketLifecycleConfiguration": _LIFECYCLE.put,
    "GetBucketLifecycleConfiguration": _LIFECYCLE.get,
    "DeleteBucketLifecycle": _LIFECYCLE.delete,
    "PutBucketLogging": _LOGGING.put,
    "GetBucketLogging": _LOGGING.get,
    "PutBucketNotificationConfiguration": _put_notification,
    "GetBucketNotificationConfiguration": _NOTIFICATION.get,
    "PutBucketOwnershipControls": _OWNERSHIP.put,
    "GetBucketOwnershipControls": _OWNERSHIP.get,
    "DeleteBucketOwnershipControls": _OWNERSHIP.delete,
    "PutBucketPolicy": _POLICY.put,
    "GetBucketPolicy": _POLICY.get,
    "GetBucketPolicyStatus": _get_policy_status,
    "DeleteBucketPolicy": _POLICY.delete,
    "PutBucketReplication": _put_replication,
    "GetBucketReplication": _REPLICATION.get,
    "DeleteBucketReplication": _REPLICATION.delete,
    "PutBucketTagging": _TAGGING.put,
    "GetBucketTagging": _TAGGING.get,
    "DeleteBucketTagging": _TAGGING.delete,
    "PutBucketWebsite": _WEBSITE.put,
    "GetBucketWebsite": _WEBSITE.get,
    "DeleteBucketWebsite": _WEBSITE.delete,
    "PutObjectLockConfiguration": _put_object_lock,
    "GetObjectLockConfiguration": _OBJECT_LOCK.get,
    "PutPublicAccessBlock": _PUBLIC_ACCESS.put,
    "GetPublicAccessBlock": _PUBLIC_ACCESS.get,
    "DeletePublicAccessBlock": _PUBLIC_ACCESS.delete,
}
