"""moto, in this process: every AWS service that sagelet does not serve itself. The only file that touches moto, with
`moto_events.py`, which gets its backends from here, and `moto_confined.py`, which keeps it in this process.

moto is loaded by the first request that needs it (0.5 s). Its signatures move between releases, so the distribution
pins it and `tests/unit/api/test_moto_bridge.py` is the contract.
"""

import logging
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from sagelet_api.authentication import MAX_BODY
from sagelet_api.aws_errors import (
    AwsError,
    InternalFailure,
    NotImplementedOperation,
    UnknownOperationException,
    ValidationException,
)
from sagelet_api.loading import LOADING
from sagelet_api.protocol import (
    Call,
    Environ,
    Protocol,
    StartResponse,
    parse_call,
    read_body,
    rewind,
)
from sagelet_api.replies import error_reply, send
from sagelet_api.services import moto_encryption, moto_events, moto_metrics, moto_roles
from sagelet_api.services.identity import Role
from sagelet_api.services.moto_confined import Confined, confine
from sagelet_api.services.moto_dispatch import bind, dispatching, route
from sagelet_api.services.s3 import request as s3_request
from sagelet_api.services.s3.moto_routes import canonical
from sagelet_api.services.trust import Caller, trusts
from sagelet_api.unpacking import unpack
from sagelet_engine.s3.records import Bucket, StoredObject
from sagelet_engine.telemetry.sink import MetricPoint

_log = logging.getLogger(__name__)

#: Paths of moto's own control and instance-metadata services, which hand out state and credentials.
_REFUSED_PATHS = ("/moto-api", "/latest/meta-data", "/latest/api")
_RETRIES = 5
#: The principal that runs training jobs.
SERVICE = "sagemaker.amazonaws.com"
_TAGS = {("sagemaker", operation) for operation in ("AddTags", "DeleteTags", "ListTags")}
PARTITIONS = frozenset({"aws", "aws-cn", "aws-us-gov", "aws-iso", "aws-iso-b"})
_WEB_PAGES = (b"<!doctype html", b"<html")


class MotoBridge:
    """A WSGI app (`wsgi`), a MetricSink, an EventBus and the configuration of S3's buckets, all on moto's backends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._app: Any = None
        #: Signing names that moto has answered to.
        self._services: set[str] = set()
        self._seeding = threading.Lock()

    def warm_up(self) -> None:
        """Loads moto in the background, so that the first call that it answers does not wait for it."""
        threading.Thread(target=self._warm_up, name="sagelet-moto-warm-up", daemon=True).start()

    def forget(self) -> None:
        """Empties every service of moto's: its state is this process's, and a server in it may not be the first."""
        if self._app is None and "moto.core.base_backend" not in sys.modules:
            return
        with LOADING, self._seeding:
            import_module("moto.core.base_backend").BackendDict.reset()
            import_module("moto.core.model_instances").reset_model_data()

    def wsgi(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answers a signed request; what moto lacks or fails at becomes an error of the caller's protocol."""
        call: Call = environ.get("sagelet.call") or parse_call(environ)
        try:
            if call.path.startswith(_REFUSED_PATHS) or call.protocol is Protocol.CBOR:
                raise _not_implemented(call)
            if call.service in ("iam", "sts"):
                self._iam(call.account, self.partition(call.region))
            return self._ask(call, _for_moto(call, environ), start_response)
        except AwsError as error:
            return send(call, error_reply(call, error), start_response)

    def route(self, models: Sequence[str], environ: Environ) -> tuple[str, str] | None:
        """Service and operation that method and path name, of those of botocore's services that speak REST."""
        self._moto()
        return route(models, environ)

    def make_bucket(self, account: str, region: str, name: str) -> None:
        """Makes a bucket that keeps a configuration, if it is not there: moto forgets, and our store does not."""
        s3 = self._s3(account, region)
        with self._lock:
            if self._existing(s3, name) is None:
                s3.create_bucket(name, region)

    def drop_bucket(self, account: str, region: str, name: str) -> None:
        """Forgets a bucket and its configuration. Nothing to do while moto is not loaded."""
        if self._app is None:
            return
        s3 = self._s3(account, region)
        with self._lock:
            if self._existing(s3, name) is not None:
                s3.delete_bucket_tagging(name)  # Or the next bucket of this name would have them.
                s3.delete_bucket(name)

    def encryption(self, bucket: Bucket) -> Mapping[str, Any] | None:
        """The rule that was set for a bucket. Nobody has set one while moto is not loaded."""
        if self._app is None:
            return None
        found = self._existing(self._s3(bucket.account, bucket.region), bucket.name)
        return moto_encryption.rule(found.encryption) if found is not None and found.encryption else None

    def set_encryption(self, bucket: Bucket, rule: Mapping[str, Any] | None) -> None:
        self.make_bucket(bucket.account, bucket.region, bucket.name)
        kept = None if rule is None else moto_encryption.configuration(rule)
        self._s3(bucket.account, bucket.region).put_bucket_encryption(bucket.name, kept)

    def tags(self, bucket: Bucket) -> Mapping[str, str]:
        """Nobody has set any while moto is not loaded."""
        if self._app is None:
            return {}
        s3 = self._s3(bucket.account, bucket.region)
        found = self._existing(s3, bucket.name)
        return {} if found is None else {tag["Key"]: tag["Value"] for tag in s3.get_bucket_tagging(bucket.name)["Tags"]}

    def set_tags(self, bucket: Bucket, tags: Mapping[str, str]) -> None:
        self.make_bucket(bucket.account, bucket.region, bucket.name)
        self._s3(bucket.account, bucket.region).put_bucket_tagging(bucket.name, dict(tags))

    def kms_key(self, bucket: Bucket, name: str | None) -> str:
        """The ARN of a key of the bucket's account by its id, alias or ARN; S3's own where none is named.

        An alias that KMS does not know stays one: nobody needs to have made the keys that are named here.
        """
        alias = moto_encryption.alias(name)
        if alias is None and name is not None and name.startswith("arn:"):
            return name
        if alias is not None:
            kms = self._backend("kms")[bucket.account][bucket.region]
            found = kms.get_key_id_from_alias(alias)
            if found is None:
                return str(name)
            name = str(found).rpartition("/")[2]
        return f"arn:{self.partition(bucket.region)}:kms:{bucket.region}:{bucket.account}:key/{name}"

    def object_event(self, bucket: Bucket, stored: StoredObject, event: str) -> None:
        """Sends S3's notification of an object (`Put`, `Copy`, `Delete`, ...) where the bucket's configuration says."""
        if self._app is None:
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
            # A queue that is gone, say: the object is there all the same, as on AWS.
            _log.exception("The notification %s of s3://%s/%s was not sent", event, bucket.name, stored.key)

    def may_assume(self, account: str, role: str) -> bool:
        """Whether IAM has the role, by its ARN, in the account, and its trust policy lets SageMaker assume it."""
        found = self._iam(account, role.split(":")[1]).roles.values()
        caller = Caller.service(SERVICE)
        return any(one.arn == role and trusts(one.assume_role_policy_document, caller) for one in list(found))

    def publish(self, account: str, region: str, job_name: str, points: Sequence[MetricPoint]) -> None:
        """Puts points into CloudWatch, which shows the newest."""
        moto_metrics.publish(self._backend("cloudwatch")[account][region], job_name, points)

    def put_event(self, account: str, region: str, event: Mapping[str, Any]) -> None:
        """Hands an event to the rules of an account's default event bus."""
        moto_events.deliver(self._backend, account, region, event)

    def user_of_key(self, access_key: str) -> str | None:
        """The ARN of the user whose key it is; None for any other key."""
        for iam in self._every_iam():
            if access_key in iam.access_keys:
                return next((user.arn for user in [*iam.users.values()] if _has_key(user, access_key)), None)
        return None

    def secret_of(self, access_key: str) -> tuple[str, str] | None:
        """Secret and account of a user's key that is active."""
        if self._app is None:
            return None
        for iam in self._every_iam():
            key = iam.access_keys.get(access_key)
            if key is not None and key.status == "Active":
                return key.secret_access_key, iam.account_id
        return None

    def _every_iam(self) -> list[Any]:
        return [iam for account in [*self._backend("iam").values()] for iam in [*account.values()]]

    def role(self, arn: str) -> Role | None:
        """A role by its ARN; None when there is none."""
        found = self._role(arn)
        if found is None:
            return None
        return Role(found.id, found.name, found.assume_role_policy_document, int(found.max_session_duration or 3600))

    def _role(self, arn: str) -> Any:
        parts = arn.split(":", 5)
        if len(parts) != 6 or not parts[4].isdecimal() or parts[1] not in PARTITIONS:
            return None
        return next((one for one in [*self._iam(parts[4], parts[1]).roles.values()] if one.arn == arn), None)

    def role_policies(self, arn: str) -> Sequence[str]:
        """The policies of a role as JSON, inline and attached; none for a role that IAM does not know."""
        role = self._role(arn)
        if role is None:
            return []
        attached = [_default_version(policy) for policy in [*role.managed_policies.values()]]
        return [*role.policies.values(), *attached]

    def role_id(self, account: str, region: str, name: str) -> str | None:
        """`AROA...`; None when there is no such role."""
        roles = [*self._iam(account, self.partition(region)).roles.values()]
        return next((role.id for role in roles if role.name == name), None)

    def has_principal(self, account: str, region: str, arn: str) -> bool:
        """Whether the user, group or role is there."""
        iam = self._iam(account, self.partition(region))
        return any(one.arn == arn for kind in (iam.roles, iam.users, iam.groups) for one in [*kind.values()])

    def policy(self, account: str, region: str, arn: str) -> str | None:
        """A managed policy as JSON; None when there is none."""
        found = self._iam(account, self.partition(region)).managed_policies.get(arn)
        return None if found is None else _default_version(found)

    def partition(self, region: str) -> str:
        """`aws`, `aws-cn`, ..."""
        self._moto()
        return str(import_module("moto.utilities.utils").get_partition(region))

    def _iam(self, account: str, partition: str) -> Any:
        """moto's IAM of an account, which has the execution roles from the first time it is asked for."""
        iam = self._backend("iam")[account][partition]
        with self._seeding:
            moto_roles.seed(iam, account, partition)
        return iam

    def log_groups(self, account: str, region: str) -> Sequence[dict[str, Any]]:
        """moto's own log groups, as DescribeLogGroups shows them."""
        groups = self._backend("logs")[account][region].groups
        return [group.to_describe_dict() for group in [*dict.values(groups)]]

    def has_repository(self, account: str, region: str, name: str) -> bool:
        """Whether ECR has it; there is none in a region that does not exist."""
        registry = self._backend("ecr")[account]
        return region in registry and name in registry[region].repositories

    def has_trial_component(self, account: str, region: str, name: str) -> bool:
        return name in self._backend("sagemaker")[account][region].trial_components

    def _warm_up(self) -> None:
        self._moto()

    def _moto(self) -> Any:
        with LOADING:
            if self._app is None:
                self._app = _load_moto()
            return self._app

    def _backend(self, service: str) -> Any:
        self._moto()
        # Two threads that import two of moto's packages at once meet in a third and deadlock.
        with LOADING:
            return import_module("moto.backends").get_backend(service)

    def _s3(self, account: str, region: str) -> Any:
        partition = import_module("moto.utilities.utils").get_partition
        return self._backend("s3")[account][partition(region)]

    def _existing(self, s3: Any, bucket: str) -> Any:
        missing = import_module("moto.s3.exceptions").MissingBucket
        try:
            return s3.get_bucket(bucket)
        except missing:
            return None

    def _has_service(self, call: Call, environ: Environ) -> bool:
        """Whether moto knows the service; it breaks over one that it does not."""
        if call.service in self._services:
            return True
        app = self._moto()
        try:
            host = app.infer_service_region_host(environ, call.path)
        except (KeyError, IndexError):  # DynamoDB without a target, say.
            return False
        if host is not None and app.get_backend_for_host(host) is None:
            return False
        self._services.add(call.service)
        return True

    def _ask(self, call: Call, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Runs moto, and passes on its answer unless that is an error without words, or with a web page's."""
        answer: list[Any] = []

        def start(*response: Any) -> None:
            answer[:] = response

        body = b"".join(self._run(call, environ, start))
        status, headers = answer[0], answer[1]
        speechless = not body and call.method != "HEAD"
        if not status.startswith(("2", "3")) and (speechless or body[:15].lower().startswith(_WEB_PAGES)):
            raise _not_implemented(call) if status.startswith("4") else _failed(call, status)
        start_response(status, _with_length(call, headers, body))
        return [b"" if call.method == "HEAD" else body]

    def _run(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        app = self._moto()
        if not self._has_service(call, environ):
            raise _not_implemented(call)
        for attempt in range(_RETRIES):
            try:
                with dispatching(call):
                    return [*app(environ, start)]
            except AwsError:
                # The body is not the one that was signed, or did not arrive whole.
                raise
            except Confined as refused:
                raise _refused(call, str(refused)) from refused
            except (NotImplementedError, import_module("botocore.model").OperationNotFoundError) as error:
                raise _not_implemented(call) from error
            except Exception as error:
                if (call.service, call.operation) in _TAGS:
                    # It breaks over an ARN of a kind that it does not have.
                    raise ValidationException("There is no such resource, or none that has tags here.") from error
                if not _lost_race(call, error) or attempt == _RETRIES - 1:
                    _log.exception("moto failed at %s %s, request %s", call.service, call.operation, call.request_id)
                    raise _failed(call, f"{type(error).__name__}: {error}") from error
        raise AssertionError("unreachable")


def _has_key(user: Any, access_key: str) -> bool:
    return any(key.access_key_id == access_key for key in [*user.access_keys])


def _default_version(policy: Any) -> str:
    return next((one.document for one in policy.versions if one.version_id == policy.default_version_id), "")


def _load_moto() -> Any:
    # Read once, when moto's WSGI module loads. CORS is for the front door alone, which has none.
    settings: Any = import_module("moto.settings")
    settings.DISABLE_GLOBAL_CORS = True
    confine()
    bind()
    moto_server = import_module("moto.moto_server.werkzeug_app")
    return moto_server.DomainDispatcherApplication(moto_server.create_backend_app)


def _for_moto(call: Call, environ: Environ) -> Environ:
    """The request as moto wants it: account in a header of its own, raw path, the service in Authorization."""
    environ = {**environ, "RAW_URI": environ.get("REQUEST_URI", environ.get("PATH_INFO", ""))}
    environ.pop("HTTP_X_MOTO_ACCOUNT_ID", None)
    credential = call.credential
    if credential and (credential.names_account or call.job or call.session):
        environ["HTTP_X_MOTO_ACCOUNT_ID"] = call.account
    if credential and (credential.service != "s3" or "HTTP_AUTHORIZATION" in environ):
        # As we have read it: moto reads the header in a way of its own, and takes every presigned URL for S3's, though
        # GetCallerIdentity is presigned too (that is how Kubernetes logs in).
        scope = f"{credential.access_key}/20000101/{credential.region}/{credential.service}/aws4_request"
        environ["HTTP_AUTHORIZATION"] = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
    if call.service == "s3":
        environ = canonical(environ, call.operation, environ[s3_request.PARSED])
    if call.routed and not environ.get("CONTENT_TYPE", "").startswith(("application/json", "application/xml")):
        # By some types moto takes the request for one of another protocol, and finds no operation.
        environ.pop("CONTENT_TYPE", None)
    # moto takes a body of unknown length for empty, and one of any length into memory, however long it unpacks to.
    body = read_body(environ, MAX_BODY)
    rewind(environ, body if call.service == "s3" else unpack(environ, body, MAX_BODY))
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    return environ


def _lost_race(call: Call, error: Exception) -> bool:
    """moto iterates over live dictionaries; a read that met a write may simply be repeated."""
    return call.method in ("GET", "HEAD") and isinstance(error, RuntimeError) and "during iteration" in str(error)


def _not_implemented(call: Call) -> AwsError:
    what = f"{call.service} {call.operation or f'{call.method} {call.path}'}"
    return _refused(
        call, f"{what} is not implemented by sagelet, nor by moto {import_module('moto').__version__} behind it."
    )


def _refused(call: Call, message: str) -> AwsError:
    if call.protocol in (Protocol.JSON, Protocol.CBOR):
        return UnknownOperationException(message)
    return NotImplementedOperation(message)


def _failed(call: Call, why: str) -> AwsError:
    return InternalFailure(f"moto, which stands in for {call.service}, failed at {call.operation or call.path}: {why}")


def _with_length(call: Call, headers: Sequence[tuple[str, str]], body: bytes) -> Sequence[tuple[str, str]]:
    if call.method == "HEAD" or any(name.lower() == "content-length" for name, _ in headers):
        return headers
    return [*headers, ("Content-Length", str(len(body)))]
