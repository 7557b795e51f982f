"""Which of IAM's actions an operation of an API needs, and which resources those have.

The names are in `iam_actions.json`, which `tests/data/iam_actions/record.py` makes of a data set. An operation for
which it has no action needs an unknown one: a denial of any action of the service denies it, and only a permission for
all of them (`lambda:*`) permits it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sagelet_api.auth.policies import UNKNOWN

#: Services whose name in policies differs from their signing name.
PREFIXES = {"iotdata": "iot", "monitoring": "cloudwatch", "tagging": "tag"}
#: Operations whose actions are described in prose only, by signing name. S3:
#: docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html. Others: the API reference of each.
_IN_PROSE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "s3": {
        "CompleteMultipartUpload": ("PutObject",),
        "CopyObject": ("PutObject",),
        "CreateMultipartUpload": ("PutObject",),
        "DeleteBucketAnalyticsConfiguration": ("PutAnalyticsConfiguration",),
        "DeleteBucketCors": ("PutBucketCORS",),
        "DeleteBucketEncryption": ("PutEncryptionConfiguration",),
        "DeleteBucketIntelligentTieringConfiguration": ("PutIntelligentTieringConfiguration",),
        "DeleteBucketInventoryConfiguration": ("PutInventoryConfiguration",),
        "DeleteBucketLifecycle": ("PutLifecycleConfiguration",),
        "DeleteBucketMetricsConfiguration": ("PutMetricsConfiguration",),
        "DeleteBucketOwnershipControls": ("PutBucketOwnershipControls",),
        "DeleteBucketReplication": ("PutReplicationConfiguration",),
        "DeleteBucketTagging": ("PutBucketTagging",),
        "DeleteObjects": ("DeleteObject",),
        "DeletePublicAccessBlock": ("PutBucketPublicAccessBlock",),
        "GetBucketLifecycle": ("GetLifecycleConfiguration",),
        "GetBucketNotificationConfiguration": ("GetBucketNotification",),
        "GetObjectAttributes": ("GetObject", "GetObjectAttributes"),
        "GetPublicAccessBlock": ("GetBucketPublicAccessBlock",),
        "HeadBucket": ("ListBucket",),
        "HeadObject": ("GetObject",),
        "ListBucketAnalyticsConfigurations": ("GetAnalyticsConfiguration",),
        "ListBucketIntelligentTieringConfigurations": ("GetIntelligentTieringConfiguration",),
        "ListBucketInventoryConfigurations": ("GetInventoryConfiguration",),
        "ListBucketMetricsConfigurations": ("GetMetricsConfiguration",),
        "ListObjects": ("ListBucket",),
        "PutBucketLifecycle": ("PutLifecycleConfiguration",),
        "PutBucketNotificationConfiguration": ("PutBucketNotification",),
        "PutPublicAccessBlock": ("PutBucketPublicAccessBlock",),
        "SelectObjectContent": ("GetObject",),
        "UploadPart": ("PutObject",),
        "UploadPartCopy": ("PutObject",),
    },
    "dynamodb": {
        "TransactGetItems": ("GetItem",),
        "TransactWriteItems": ("PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem"),
    },
    "lambda": {
        "InvokeAsync": ("InvokeFunction",),
        "InvokeWithResponseStream": ("InvokeFunction",),
        "GetLayerVersionByArn": ("GetLayerVersion",),
    },
    "sns": {"PublishBatch": ("Publish",)},
    "sqs": {
        "ChangeMessageVisibilityBatch": ("ChangeMessageVisibility",),
        "DeleteMessageBatch": ("DeleteMessage",),
        "SendMessageBatch": ("SendMessage",),
    },
}


@dataclass(frozen=True)
class Action:
    """`name`: with the service's prefix, `lambda:InvokeFunction`."""

    name: str
    #: ARNs with variables (`${FunctionName}`), of which each kind of resource has one.
    required: tuple[str, ...] = ()
    #: Those of which a request may name some or none.
    optional: tuple[str, ...] = ()
    #: False if nothing is known of the resources.
    known: bool = True


def prefix_of(service: str) -> str:
    """Returns the name of a service in policies: `monitoring` -> `cloudwatch`."""
    return PREFIXES.get(service, service)


@cache
def actions_of(service: str, operation: str) -> tuple[Action, ...]:
    """Returns the actions, all of which the caller needs. `service`: its signing name."""
    row = _services().get(service)
    if row is None:
        return (Action(f"{prefix_of(service)}:{UNKNOWN}", known=False),)
    names = _IN_PROSE.get(service, {}).get(operation) or row["operations"].get(operation)
    if names is None:
        named = {name.lower(): name for name in row["actions"]}.get(operation.lower())
        names = [named] if named else []
    if not names:
        return (Action(f"{prefix_of(service)}:{UNKNOWN}", known=False),)
    return tuple(_action(service, row, name) for name in names)


def _action(service: str, row: Mapping[str, Mapping[str, object]], name: str) -> Action:
    kinds, arns = row["actions"][name], row["resources"]
    assert isinstance(kinds, list)
    required = tuple(str(arns[kind[:-1]]) for kind in kinds if kind.endswith("*"))
    optional = tuple(str(arns[kind]) for kind in kinds if not kind.endswith("*"))
    return Action(f"{prefix_of(service)}:{name}", required, optional)


@cache
def _services() -> Mapping[str, Mapping[str, Mapping[str, list[str]]]]:
    found = json.loads(Path(__file__).with_name("iam_actions.json").read_text())
    services: Mapping[str, Mapping[str, Mapping[str, list[str]]]] = found["services"]
    return services
