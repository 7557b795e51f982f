"""Redirects this process for the time of a test, as `sagelet run` does."""

import os
from pathlib import Path
from typing import Any

import boto3
import botocore.loaders
import botocore.session
import pytest

from sagelet.sessions import with_quick_waiters
from sagelet_api.redirect.environment import SECRET, redirection
from sagelet_api.redirect.profiles import profiles_file
from sagelet_api.redirect.site._sagelet_redirect import redirect_session
from sagelet_engine.base.keys import ca_file, read_key_pair


def redirect(
    monkeypatch: pytest.MonkeyPatch,
    endpoint: str,
    data: Path,
    *,
    account: str = "123456789012",
    region: str = "us-east-1",
) -> None:
    """Sets variables for child processes, redirects clients of this process, and makes boto3's waiters look ten times a
    second.
    """
    keys, authority = read_key_pair(data), ca_file(data)
    secret = SECRET if keys is None else keys.secret
    changes = redirection(
        endpoint,
        account,
        region,
        os.environ,
        secret=secret,
        authority=str(authority) if authority.is_file() else None,
        profiles=profiles_file(os.environ, endpoint, account, secret),
        data=str(data),
    )
    for name, value in changes.items():
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    # Assigned once, so that pytest knows what to restore.
    monkeypatch.setattr(botocore.session.Session, "create_client", botocore.session.Session.create_client)
    redirect_session(botocore.session.Session, endpoint)
    # It keeps the credentials that the environment had when it was made.
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    _quicken(monkeypatch)


def _quicken(monkeypatch: pytest.MonkeyPatch) -> None:
    load = botocore.loaders.Loader.load_service_model

    def load_service_model(self: Any, service_name: str, type_name: str, api_version: Any = None) -> Any:
        return with_quick_waiters(load(self, service_name, type_name, api_version), type_name)

    monkeypatch.setattr(botocore.loaders.Loader, "load_service_model", load_service_model)
