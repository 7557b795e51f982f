"""What S3 needs of other services, which are moto's: keys of KMS, and the targets of events. Buckets are sagelet's."""

import logging
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from sagelet_api.protocol.members import Output, Request
from sagelet_api.services.moto.process import MotoProcess
from sagelet_engine.s3.records import Bucket, StoredObject

_log = logging.getLogger(__name__)

#: The key that S3 uses if none is named.
OWN = "alias/aws/s3"
#: moto's words for the destinations of a notification configuration: the parameter, and the member with the ARN.
#: Functions are left out: moto would run them in containers, which `confined.py` refuses.
_DESTINATIONS = (
    ("topic", "Topic", "TopicConfigurations", "TopicArn"),
    ("queue", "Queue", "QueueConfigurations", "QueueArn"),
)
#: Kinds of events of objects.
_CREATED, _REMOVED = "s3:ObjectCreated:", "s3:ObjectRemoved:"


class MotoBesideS3:
    """See OtherServices of services/s3/context.py."""

    def __init__(self, moto: MotoProcess) -> None:
        self._moto = moto

    def kms_key(self, bucket: Bucket, name: str | None) -> str:
        """Returns the ARN of a key of the bucket's account by its id, alias or ARN. S3's own key if no key is named.

        An alias that KMS does not know stays an alias: the keys that are named here need not exist.
        """
        alias = _alias(name)
        if alias is None and name is not None and name.startswith("arn:"):
            return name
        if alias is not None:
            kms = self._moto.backend("kms")[bucket.account][bucket.region]
            found = kms.get_key_id_from_alias(alias)
            if found is None:
                return str(name)
            name = str(found).rpartition("/")[2]
        return f"arn:{self._moto.partition(bucket.region)}:kms:{bucket.region}:{bucket.account}:key/{name}"

    def object_event(self, bucket: Bucket, notification: Request, stored: StoredObject, event: str) -> None:
        """Sends S3's notification of an object (`Put`, `Copy`, `Delete`, ...) to the destinations that want it."""
        kind = _REMOVED if event == "Delete" else _CREATED
        key = SimpleNamespace(name=stored.key, size=stored.size, etag=stored.etag, version_id=None)
        try:
            notifications, told = self._notifications(), self._told(bucket, notification)
            notifications.send_event(bucket.account, notifications.S3NotificationEvent(f"{kind}{event}"), told, key)
        except Exception:
            # For example, the queue was deleted. The object still exists, as on AWS.
            _log.exception("The notification %s of s3://%s/%s was not sent", event, bucket.name, stored.key)

    def test_event(self, bucket: Bucket, notification: Request) -> None:
        if functions := notification.get("LambdaFunctionConfigurations"):
            named = ", ".join(one["LambdaFunctionArn"] for one in functions)
            _log.warning("Events of s3://%s are not sent to %r: Lambda functions do not run here", bucket.name, named)
        self._notifications().send_test_event(bucket.account, self._told(bucket, notification))

    def _notifications(self) -> Any:
        self._moto.app()
        return import_module("moto.s3.notifications")

    def _told(self, bucket: Bucket, notification: Request) -> Any:
        """Returns a bucket as moto's notifications look at it."""
        found = {
            kind: [_destination(one, name, arn) for one in notification.get(member, [])]
            for kind, name, member, arn in _DESTINATIONS
        }
        configuration = import_module("moto.s3.models").NotificationConfiguration(
            **found, event_bridge=notification.get("EventBridgeConfiguration")
        )
        return SimpleNamespace(
            name=bucket.name,
            arn=f"arn:{self._moto.partition(bucket.region)}:s3:::{bucket.name}",
            region_name=bucket.region,
            notification_configuration=configuration,
        )


def _destination(given: Request, name: str, arn: str) -> Output:
    """Returns a destination in the form of S3's XML, which is moto's. moto fails on events that it does not know, and
    none of those happens here.
    """
    rules = [dict(rule) for rule in given.get("Filter", {}).get("Key", {}).get("FilterRules", [])]
    made = {
        name: given[arn],
        "Event": [one for one in given["Events"] if one.startswith((_CREATED, _REMOVED))],
        "Id": given["Id"],
    }
    return {**made, "Filter": {"S3Key": {"FilterRule": rules}}} if rules else made


def _alias(name: str | None) -> str | None:
    """Returns `alias/...` from a key's name or ARN, or None if it is not an alias."""
    if name is None:
        return OWN
    last = name.rpartition(":")[2]
    return last if last.startswith("alias/") else None
