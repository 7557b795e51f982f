"""Sends every client of botocore to sagelet, in any Python. Standard library only, Python 3.8 on.

AWS_ENDPOINT_URL is not enough: the SageMaker SDKs give their STS clients an endpoint of AWS's by hand, which outranks
it, and boto3 before 1.28 does not know it. So `create_client`, botocore's public way to a client, is wrapped right
after the program's own import of botocore; until then nothing happens. Requests are signed for the endpoint that they
go to. A client with an endpoint that is not AWS's keeps it, and trusts the authorities that it would trust without
sagelet: AWS_CA_BUNDLE is set so that no other connection opens.
"""

from __future__ import annotations

import functools
import os
import sys
import unicodedata
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Callable, Sequence  # noqa: UP035 - Python 3.8
from urllib.parse import unquote, urlsplit

#: The suffixes of AWS's host names (botocore's endpoints.json, dnsSuffix, all partitions).
AWS_SUFFIXES = (
    ".amazonaws.com",
    ".amazonaws.com.cn",
    ".amazonaws.eu",
    ".api.aws",
    ".api.amazonwebservices.com.cn",
    ".api.amazonwebservices.eu",
    ".c2s.ic.gov",
    ".sc2s.sgov.gov",
    ".cloud.adc-e.uk",
    ".csp.hci.ic.gov",
)

Patch = Callable[[Any], None]


def activate(endpoint: str) -> None:
    """Patches what is imported already, and the rest when it is imported. An empty endpoint does nothing."""
    if not endpoint:
        return
    pending: dict[str, Patch] = {}
    for name, patch in _patches(endpoint).items():
        if name in sys.modules:
            patch(sys.modules[name])
        else:
            pending[name] = patch
    sys.meta_path.insert(0, _PostImport(pending))


def is_aws(endpoint_url: str) -> bool:
    """True if the URL's host is AWS's, however it is spelled."""
    host = unicodedata.normalize("NFKC", unquote(urlsplit(endpoint_url).hostname or ""))
    # A host with a dot at its end is the same host, and the ideographic full stop is a dot (IDNA, RFC 3490 3.1).
    return f".{host}".replace("\u3002", ".").rstrip(".").lower().endswith(AWS_SUFFIXES)


def _patches(endpoint: str) -> dict[str, Patch]:
    return {
        "botocore.session": lambda module: redirect_session(module.Session, endpoint),
        "aiobotocore.session": lambda module: redirect_session(module.AioSession, endpoint),
        "sagemaker.telemetry.telemetry_logging": _silence,
        "sagemaker.core.telemetry.telemetry_logging": _silence,
        "sagemaker.serve.utils.telemetry_logger": _silence,
    }


def redirect_session(session: Any, endpoint: str) -> None:
    """Wraps `create_client` of a session's class. Clients without an endpoint, or with an AWS endpoint, get this
    endpoint.
    """
    create = session.create_client

    @functools.wraps(create)
    def create_client(
        self: Any,
        service_name: Any,
        region_name: Any = None,
        api_version: Any = None,
        use_ssl: Any = True,
        verify: Any = None,
        endpoint_url: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        if endpoint_url is None or is_aws(endpoint_url):
            endpoint_url = endpoint
        elif verify is None and endpoint_url.rstrip("/") != endpoint:
            verify = os.environ.get("SAGELET_CA_BUNDLE") or True
        return create(self, service_name, region_name, api_version, use_ssl, verify, endpoint_url, *args, **kwargs)

    session.create_client = create_client


def _silence(module: Any) -> None:
    """Silences the SageMaker SDK's usage reports, and its message about them.

    Its configuration has a switch. Older SDKs refuse that as unknown, and a user's own file may turn it back.
    """
    for name in ("_send_telemetry_request", "_requests_helper"):
        if hasattr(module, name):
            setattr(module, name, _no_report)
    if hasattr(module, "TELEMETRY_OPT_OUT_MESSAGING"):
        module.TELEMETRY_OPT_OUT_MESSAGING = "sagelet run: the SDK's telemetry is off."


def _no_report(*_args: Any, **_kwargs: Any) -> None:
    return None


class _PostImport(MetaPathFinder):
    """Lets Python import a module as usual, and then calls the patch of that name, once."""

    def __init__(self, pending: dict[str, Patch]) -> None:
        self._pending = pending

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds a module. May be called many times before the import, because libraries check like this whether a
        package is installed.
        """
        if fullname not in self._pending:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find else None
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Patching(spec.loader, functools.partial(self._imported, fullname))
                return spec
        return None

    def _imported(self, name: str, module: ModuleType) -> None:
        patch = self._pending.pop(name, None)
        if patch is not None:
            patch(module)


class _Patching(Loader):
    """The module's own loader, with a call after it."""

    def __init__(self, own: Any, after: Callable[[ModuleType], None]) -> None:
        self._own = own
        self._after = after

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._own
        if module.__spec__ is not None:
            module.__spec__.loader = self._own
        self._own.exec_module(module)
        self._after(module)
