"""The environment in which client programs reach the emulator and nothing else of AWS's."""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

SITE = Path(__file__).with_name("site")
#: For a server that does not check it.
SECRET = "sagelet"

#: Each would bring in another identity, or an endpoint of AWS's.
UNSET = (
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT",
)


def redirection(
    endpoint: str,
    account: str,
    region: str,
    environ: Mapping[str, str],
    *,
    secret: str = SECRET,
    authority: str | None = None,
) -> dict[str, str | None]:
    """What to change in `environ`: new values, and None for what to unset. Applied twice it changes nothing more.

    `authority`: file of the certificate authority to trust, beside which no other is.
    """
    changes: dict[str, str | None] = {name: None for name in environ if _is_foreign(name)}
    changes |= {
        "SAGELET_ENDPOINT": endpoint,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        # sagelet tells accounts apart by the access key; no key of the user's is sent.
        "AWS_ACCESS_KEY_ID": account,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONPATH": _first(str(SITE), environ.get("PYTHONPATH", ""), os.pathsep),
    }
    if authority is not None:
        changes["AWS_CA_BUNDLE"] = authority
    host = urlsplit(endpoint).hostname or ""
    for name in ("NO_PROXY", "no_proxy"):
        changes[name] = _first(host, environ.get("NO_PROXY") or environ.get("no_proxy", ""), ",")
    return changes


def changed(environ: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """`environ` with the changes of `redirection`."""
    merged: dict[str, str | None] = {**environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def _is_foreign(name: str) -> bool:
    return name in UNSET or name.startswith("AWS_ENDPOINT_URL_")


def _first(item: str, existing: str, separator: str) -> str:
    """The list with `item` at its head, once."""
    return separator.join([item, *(part for part in existing.split(separator) if part and part != item)])
