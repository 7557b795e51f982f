"""The environment in which client programs reach the emulator and no endpoint of AWS.

The environment alone must be enough, because `python -I` and AWS's own CLI ignore PYTHONPATH and load no code of
sagelet's. Three things hold there, each by itself. No key or token of the user's is in the variables, or in the file
that they name. The configured endpoint is sagelet's. A client that still names an AWS endpoint trusts no
certificate that AWS has, so it sends nothing.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

SITE = Path(__file__).with_name("site")
#: An authority that signed nothing. A client that trusts only it opens no TLS connection.
NO_AUTHORITY = Path(__file__).with_name("no_authority.pem")
#: The secret for a server that does not check it.
SECRET = "sagelet"

#: Each of these would bring in another identity, an AWS endpoint, or another server.
UNSET = (
    "SAGELET_CONTEXT",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT",
)
#: So would every variable with these beginnings, also future ones: AWS_BEARER_TOKEN_BEDROCK, AWS_ENDPOINT_URL_S3, ...
_FOREIGN = re.compile(r"AWS_(ENDPOINT_URL_|.*(TOKEN|SECRET|CREDENTIAL|ACCESS_KEY|PASSWORD))")


def redirection(
    endpoint: str,
    account: str,
    region: str,
    environ: Mapping[str, str],
    *,
    secret: str = SECRET,
    authority: str | None = None,
    profiles: str = os.devnull,
    data: str | None = None,
) -> dict[str, str | None]:
    """Returns the changes to `environ`: new values, and None for variables to unset. A second application changes
    nothing.

    `authority`: the file of the only certificate authority to trust. `profiles`: see `profiles_file`.
    `data`: the server's data directory, if it is known; the programs' own sagelet commands then mean the same server.
    """
    changes: dict[str, str | None] = {name: None for name in environ if _is_foreign(name)}
    changes |= {
        "SAGELET_ENDPOINT": endpoint,
        **({"SAGELET_DATA": data} if data is not None or "SAGELET_DATA" in environ else {}),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        # sagelet takes the account from the access key. No key of the user's is sent.
        "AWS_ACCESS_KEY_ID": account,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_CONFIG_FILE": profiles,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        # boto 2's file, which botocore still reads.
        "BOTO_CONFIG": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CA_BUNDLE": authority or str(NO_AUTHORITY),
        # The user's own bundle, for endpoints that are not AWS's. It is kept from the first application.
        "SAGELET_CA_BUNDLE": environ.get("SAGELET_CA_BUNDLE", environ.get("AWS_CA_BUNDLE", "")),
        "PYTHONPATH": _first(str(SITE), environ.get("PYTHONPATH", ""), os.pathsep),
    }
    host = urlsplit(endpoint).hostname or ""
    for name in ("NO_PROXY", "no_proxy"):
        changes[name] = _first(host, environ.get("NO_PROXY") or environ.get("no_proxy", ""), ",")
    return changes


def changed(environ: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Returns `environ` with the changes of `redirection`."""
    merged: dict[str, str | None] = {**environ, **changes}
    return {name: value for name, value in merged.items() if value is not None}


def _is_foreign(name: str) -> bool:
    return name in UNSET or _FOREIGN.match(name) is not None


def _first(item: str, existing: str, separator: str) -> str:
    """Returns the list with `item` at its head, once."""
    return separator.join([item, *(part for part in existing.split(separator) if part and part != item)])
