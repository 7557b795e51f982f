"""boto3 sessions that know one endpoint and nothing of the user's own AWS configuration."""

import copy
import os
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.loaders import Loader

from sagelet_api.redirect.site._sagelet_redirect import is_aws

#: Variables and files of the user's that would bring in another identity or endpoint. They are not read.
_NOTHING_OF_THE_USER = {
    "profile": (None, None, None, None),
    "config_file": (None, None, os.devnull, None),
    "credentials_file": (None, None, os.devnull, None),
}
#: Seconds between two looks of a quick waiter. Its total waiting time stays AWS's.
QUICK_S = 0.1


def redirected_session(
    endpoint: str,
    *,
    account: str,
    secret: str,
    region: str,
    authority: str | None = None,
    loader: Loader | None = None,
) -> boto3.Session:
    """Returns a session for one endpoint. `authority`: file of the certificate authority to trust.

    `loader`: reads botocore's models. Sessions that share one read each model once.
    """
    core = _redirected(endpoint, authority)
    core.register_component("data_loader", loader or Loader())
    return boto3.Session(
        aws_access_key_id=account, aws_secret_access_key=secret, region_name=region, botocore_session=core
    )


def _redirected(endpoint: str, authority: str | None) -> Any:
    own = Config(
        # The server is on this machine or near it.
        proxies={},
        # `http://sagelet:4599/BUCKET`: no name server resolves BUCKET.sagelet.
        s3={"addressing_style": "path"},
        use_fips_endpoint=False,
        use_dualstack_endpoint=False,
    )

    class Redirected(botocore.session.Session):  # type: ignore[misc]
        def create_client(
            self,
            service_name: str,
            region_name: Any = None,
            api_version: Any = None,
            use_ssl: Any = True,
            verify: Any = None,
            endpoint_url: str | None = None,
            *args: Any,
            **options: Any,
        ) -> Any:
            """Makes a client. One with an AWS endpoint, as SageMaker's SDK sets for STS, is redirected, too."""
            if endpoint_url is None or is_aws(endpoint_url):
                endpoint_url = endpoint
            if verify is None and endpoint_url == endpoint:
                verify = authority
            # boto3 and callers pass keys, token and configuration positionally after the endpoint.
            options["config"] = _merged(own, options.pop("config", None))
            return super().create_client(
                service_name, region_name, api_version, use_ssl, verify, endpoint_url, *args, **options
            )

    return Redirected(session_vars=_NOTHING_OF_THE_USER)


def _merged(own: Any, given: Any) -> Any:
    """Returns the merged configuration. The caller's wins, also within `s3`."""
    if given is None:
        return own
    merged = own.merge(given)
    merged.s3 = {**own.s3, **(given.s3 or {})}
    return merged


class QuickWaiters(Loader):  # type: ignore[misc]
    """Makes boto3's waiters look ten times a second, where AWS's look every minute or two."""

    def load_service_model(self, service_name: str, type_name: str, api_version: str | None = None) -> Any:
        return with_quick_waiters(super().load_service_model(service_name, type_name, api_version), type_name)


def with_quick_waiters(model: Any, type_name: str) -> Any:
    """Returns botocore's data, with waiters that look ten times a second if it describes waiters."""
    if not type_name.startswith("waiters-"):
        return model
    quick = copy.deepcopy(model)
    for waiter in quick.get("waiters", {}).values():
        waiter["maxAttempts"] = int(waiter["maxAttempts"] * waiter["delay"] / QUICK_S)
        waiter["delay"] = QUICK_S
    return quick
