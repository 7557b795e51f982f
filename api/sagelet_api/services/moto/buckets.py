"""The configuration of S3's buckets, which moto keeps in memory. Objects are sagelet's own."""

import logging
import threading
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from sagelet_api.protocol.calls import Environ, StartResponse
from sagelet_api.protocol.members import Output, Request
from sagelet_api.services.moto.process import MotoProcess
from sagelet_api.services.moto.requests import MotoRequests
from sagelet_engine.s3.records import Bucket, StoredObject

_log = logging.getLogger(__name__)

#: What a new bucket has since April 2023, and moto's lacks (S3 user guide, "Default settings for new S3 buckets FAQ").
_OWNERSHIP = "BucketOwnerEnforced"
_NOTHING_PUBLIC = dict.fromkeys(
    ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), "true"
)
#: The key that S3 uses if none is named.
OWN = "alias/aws/s3"


class MotoBuckets:
    """Keeps buckets' configuration in moto; see Rest of services/s3/context.py."""

    def __init__(self, moto: MotoProcess, requests: MotoRequests) -> None:
        self._moto = moto
        self._requests = requests
        self._lock = threading.Lock()

    def wsgi(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        return self._requests.wsgi(environ, start_response)

    def make_bucket(self, account: str, region: str, name: str) -> None:
        """Makes a bucket that keeps a configuration, if it is missing. moto forgets its buckets, and the object store
        does not.
        """
        s3 = self._s3(account, region)
        with self._lock:
            if self._existing(s3, name) is None:
                s3.create_bucket(name, region)
                s3.put_bucket_ownership_controls(name, _OWNERSHIP)
                s3.put_public_access_block(name, _NOTHING_PUBLIC)

    def drop_bucket(self, account: str, region: str, name: str) -> None:
        """Forgets a bucket and its configuration. Does nothing while moto is not loaded."""
        if not self._moto.is_loaded:
            return
        s3 = self._s3(account, region)
        with self._lock:
            if self._existing(s3, name) is not None:
                s3.delete_bucket_tagging(name)  # Otherwise the next bucket of this name would have them.
                s3.delete_bucket(name)

    def encryption(self, bucket: Bucket) -> Mapping[str, Any] | None:
        """Returns the rule that was set for a bucket. None while moto is not loaded."""
        if not self._moto.is_loaded:
            return None
        found = self._existing(self._s3(bucket.account, bucket.region), bucket.name)
        return _rule(found.encryption) if found is not None and found.encryption else None

    def set_encryption(self, bucket: Bucket, rule: Request | None) -> None:
        self.make_bucket(bucket.account, bucket.region, bucket.name)
        kept = None if rule is None else _configuration(rule)
        self._s3(bucket.account, bucket.region).put_bucket_encryption(bucket.name, kept)

    def tags(self, bucket: Bucket) -> Mapping[str, str]:
        """Returns the tags of a bucket. Empty while moto is not loaded."""
        if not self._moto.is_loaded:
            return {}
        s3 = self._s3(bucket.account, bucket.region)
        found = self._existing(s3, bucket.name)
        return {} if found is None else {tag["Key"]: tag["Value"] for tag in s3.get_bucket_tagging(bucket.name)["Tags"]}

    def set_tags(self, bucket: Bucket, tags: Mapping[str, str]) -> None:
        self.make_bucket(bucket.account, bucket.region, bucket.name)
        self._s3(bucket.account, bucket.region).put_bucket_tagging(bucket.name, dict(tags))

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

    def object_event(self, bucket: Bucket, stored: StoredObject, event: str) -> None:
        """Sends S3's notification of an object (`Put`, `Copy`, `Delete`, ...) as the bucket's configuration says."""
        if not self._moto.is_loaded:
            return
        found = self._existing(self._s3(bucket.account, bucket.region), bucket.name)
        if found is None or found.notification_configuration is None:
            return
        notifications = import_module("moto.s3.notifications")
        kind = "ObjectRemoved" if event == "Delete" else "ObjectCreated"
        key = SimpleNamespace(name=stored.key, size=stored.size, etag=stored.etag)
        try:
            notifications.send_event(
                bucket.account, notifications.S3NotificationEvent(f"s3:{kind}:{event}"), found, key
            )
        except Exception:
            # For example, the queue was deleted. The object still exists, as on AWS.
            _log.exception("The notification %s of s3://%s/%s was not sent", event, bucket.name, stored.key)

    def _s3(self, account: str, region: str) -> Any:
        return self._moto.backend("s3")[account][self._moto.partition(region)]

    def _existing(self, s3: Any, bucket: str) -> Any:
        missing = import_module("moto.s3.exceptions").MissingBucket
        try:
            return s3.get_bucket(bucket)
        except missing:
            return None


def _rule(kept: Mapping[str, Any]) -> Output:
    """Returns a member of ServerSideEncryptionConfiguration's Rules."""
    found = kept["Rule"]
    with_key = str(found.get("BucketKeyEnabled", "")).lower() == "true"
    return {**found, "BucketKeyEnabled": with_key}


def _configuration(rule: Request) -> Output:
    with_key = "true" if rule.get("BucketKeyEnabled") else "false"
    return {"Rule": {**rule, "BucketKeyEnabled": with_key}}


def _alias(name: str | None) -> str | None:
    """Returns `alias/...` from a key's name or ARN, or None if it is not an alias."""
    if name is None:
        return OWN
    last = name.rpartition(":")[2]
    return last if last.startswith("alias/") else None
