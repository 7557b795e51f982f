"""The front door.

sagelet starts containers, so a web page that reaches it over a visitor's browser would run code on the visitor's
machine. Three rules keep pages out, whatever they send: the request is signed (a page cannot sign without reading
this file, and a header it adds makes the browser ask first, which nothing here ever answers), its Host is a name of
ours (else a page could rebind its own domain name to 127.0.0.1 and be same-origin), and it does not come from
another site (browsers say so in Origin and Sec-Fetch-Site and let no script change either). No CORS header is ever
sent. The rules follow the Fetch Metadata policy (https://web.dev/articles/fetch-metadata).
"""

from collections.abc import Iterable

from sagelet_api.authentication import Authentication
from sagelet_api.aws_errors import AccessDenied, MissingAuthenticationToken
from sagelet_api.local_names import LOCAL_NAMES, host_name, is_address
from sagelet_api.protocol import Call, Environ, StartResponse

_REQUEST_IDS = frozenset({"x-amzn-requestid", "x-amz-request-id"})
_POLICY = "content-security-policy"
_ANY_ADDRESS = frozenset({"0.0.0.0", "::"})


class FrontDoor:
    """Decides who comes in. `names`: addresses and names beside LOCAL_NAMES that clients may use as Host.

    Without `authentication` any key opens.
    """

    def __init__(self, names: Iterable[str] = (), authentication: Authentication | None = None) -> None:
        self._authentication = authentication
        given = {name.strip("[]").lower().rstrip(".") for name in names}
        self._names = LOCAL_NAMES | given - _ANY_ADDRESS
        # An address as Host cannot be rebound; who listens everywhere is reached by any address of the machine.
        self._any_address = bool(given & _ANY_ADDRESS)

    def check_origin(self, call: Call) -> None:
        """Raises AccessDenied unless Host is ours and no other site is behind the request."""
        host = call.headers.get("host", "")
        if not self._is_ours(host_name(host)):
            raise AccessDenied(
                f"Host {host!r} is no name of this sagelet server. Use localhost, or start it with this name allowed."
            )
        origin = call.headers.get("origin")
        if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            raise AccessDenied(f"Requests from other origins ({origin!r}) are refused: web pages may not call sagelet.")
        site = call.headers.get("sec-fetch-site", "none")
        if site not in ("same-origin", "none"):
            raise AccessDenied(f"Sec-Fetch-Site is {site!r}: web pages of other sites may not call sagelet.")

    def admit(self, call: Call, environ: Environ) -> Call:
        """The call with who makes it. Raises AwsError unless the request is signed, or a presigned URL."""
        if call.credential is None:
            raise MissingAuthenticationToken(
                "Missing Authentication Token: sign the request (`sagelet run` brings a key) or presign its URL."
            )
        return call if self._authentication is None else self._authentication.admit(call, environ)

    def check_control(self, call: Call, environ: Environ, *, public: bool) -> None:
        """See Authentication.admit_to_control."""
        if self._authentication is not None:
            self._authentication.admit_to_control(call, environ, public=public)

    def check_page(self, call: Call, environ: Environ) -> None:
        """For the pages: what changes something comes from one of them, which a browser says in Origin."""
        if call.method not in ("GET", "HEAD") and "origin" not in call.headers:
            raise AccessDenied(
                "Only sagelet's own pages may ask for this: a request without Origin comes from no page."
            )
        if self._authentication is not None:
            self._authentication.admit_to_page(call, environ)

    def names_bucket(self, call: Call) -> bool:
        """Whether Host is a subdomain of a name of ours: S3's virtual-host style."""
        name = host_name(call.headers.get("host", ""))
        return name not in self._names and not is_address(name)

    def _is_ours(self, name: str) -> bool:
        if name in self._names:
            return True
        if is_address(name):
            return self._any_address
        # BUCKET.localhost: S3's virtual-host style. An address has no subdomains.
        return any(name.endswith(f".{ours}") for ours in self._names if not is_address(ours))


def accepts_page(call: Call) -> bool:
    """Whether a browser asks for something to show: it says so, and no SDK does."""
    return call.method in ("GET", "HEAD") and "text/html" in call.headers.get("accept", "")


def guarded(call: Call, start_response: StartResponse) -> StartResponse:
    """A start_response that drops the CORS headers that moto adds for S3 buckets with a CORS configuration, and gives
    every answer a request id.

    What a browser shows that is no page of ours (an object in S3, behind a presigned URL) is of our pages' origin: in
    a sandbox no script in it runs, which could use them.
    """

    def start(status: str, headers: list[tuple[str, str]], *rest: object) -> object:
        kept = [one for one in headers if not one[0].lower().startswith("access-control-")]
        names = {name.lower() for name, _ in kept}
        if accepts_page(call) and _POLICY not in names:
            kept += [("Content-Security-Policy", "sandbox"), ("X-Content-Type-Options", "nosniff")]
        if not names & _REQUEST_IDS:
            kept.append(("x-amzn-RequestId", call.request_id))
        return start_response(status, kept, *rest)

    return start
