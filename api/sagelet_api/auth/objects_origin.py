"""The origin at which a browser gets objects of S3: `s3.localhost`, on the port of the page.

An object may be a page with scripts that a job wrote. On the origin of sagelet's own pages it could act as one of them.
Another host name does not get their cookie, which is for their name alone. Another port would. `s3.localhost` is path
style, as `localhost` is: the same path is the same object.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from sagelet_api.protocol.botocore_parts import signing
from sagelet_api.protocol.calls import Call, Environ, StartResponse
from sagelet_api.protocol.header_rules import host_name, host_port, is_loopback
from sagelet_engine.base.keys import KeyPair

NAME = "s3.localhost"
#: Names that the page's own origin may have had when a URL was signed.
_PAGE_NAMES = ("localhost", "127.0.0.1", "[::1]")
#: Seconds that a URL for a browser stays valid.
LIFETIME = 60
#: Every browser sends this when it opens an address, and no program does. Java sends `text/html` for everything.
_NAVIGATION = "application/xhtml+xml"


def is_read_by_browser(call: Call) -> bool:
    """True if a browser follows the URL of an object. A browser cannot sign; a signature in a header is a program's."""
    return (
        call.service == "s3"
        and call.is_read
        and "authorization" not in call.headers
        and ("sec-fetch-site" in call.headers or _NAVIGATION in call.headers.get("accept", ""))
    )


def objects_host(host: str) -> str | None:
    """Returns the host where a browser finds the objects of a server that it calls `host`. None if that is not a name
    of this machine.
    """
    name = host_name(host)
    return f"{NAME}{host_port(host)}" if name == "localhost" or is_loopback(name) else None


def move(environ: Environ, host: str, start_response: StartResponse) -> Iterable[bytes]:
    """Answers a browser that follows the URL of an object to the pages' origin."""
    location = f"{environ['wsgi.url_scheme']}://{host}{environ['REQUEST_URI']}"
    start_response(
        "307 Temporary Redirect",
        [("Location", location), ("Cache-Control", "no-store"), ("Content-Length", "0")],
    )
    return []


def signed_hosts(call: Call, headers: Mapping[str, str]) -> list[str]:
    """Returns what Host may have been when the request was signed. A browser may have been moved here with a URL of the
    page's origin.
    """
    host = headers.get("host", "")
    if host_name(host) != NAME or not call.is_read:
        return [host]
    return [host, *(f"{name}{host_port(host)}" for name in _PAGE_NAMES)]


def presigned(keys: KeyPair, origin: str, account: str, region: str, bucket: str, key: str) -> str:
    """Returns the URL of an object, valid for LIFETIME, on an origin of `objects_host`."""
    parts = signing()
    request = parts.AWSRequest(method="GET", url=f"{origin}/{quote(bucket)}/{quote(key)}")
    credentials = parts.Credentials(account, keys.secret)
    parts.auth.S3SigV4QueryAuth(credentials, "s3", region, LIFETIME).add_auth(request)
    url: str = request.url
    return url


def as_file(status: str, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns the headers of an object that a browser always saves and never shows, however it is linked."""
    if not status.startswith("2"):
        return headers
    kept = [one for one in headers if one[0].lower() not in ("content-type", "content-disposition")]
    return [*kept, ("Content-Type", "application/octet-stream"), ("Content-Disposition", "attachment")]
