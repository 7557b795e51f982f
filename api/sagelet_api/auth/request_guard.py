"""Decides which requests may come in at all, before their callers are identified.

sagelet starts containers, so a web page that reaches it through a visitor's browser would run code on the visitor's
machine. Three rules keep pages out, whatever they send. First, the request is signed. A page cannot sign without
reading the key file. If it adds a header, the browser asks for permission first, and nothing here ever answers that.
Second, Host is one of the server's names. Otherwise a page could rebind its own domain name to 127.0.0.1 and be
same-origin. Third, the request does not come from another site. Browsers say so in Origin and Sec-Fetch-Site, which no
script can change. No CORS header is ever sent. The rules follow the Fetch Metadata policy
(https://web.dev/articles/fetch-metadata).

Subdomains of the server's names (`s3.localhost`, `BUCKET.localhost`) are the origins of objects, which may contain
scripts. A browser may only read objects there, with a URL that is signed where a page links to it.
"""

from collections.abc import Iterable

from sagelet_api.auth.authentication import Authentication
from sagelet_api.auth.objects_origin import as_file, is_read_by_browser, objects_host
from sagelet_api.protocol.aws_errors import AccessDenied, MissingAuthenticationToken
from sagelet_api.protocol.calls import FROM_PAGE, Call, Environ, Protocol, StartResponse
from sagelet_api.protocol.header_rules import LOCAL_NAMES, host_name, is_address
from sagelet_engine.model.principal import owner

_REQUEST_IDS = frozenset({"x-amzn-requestid", "x-amz-request-id"})
_POLICY = "content-security-policy"
_SANDBOX = "sandbox; frame-ancestors 'none'"
_ANY_ADDRESS = frozenset({"0.0.0.0", "::"})


class RequestGuard:
    """Decides who may come in. `names`: addresses and names besides LOCAL_NAMES that clients may use as Host.

    Without `authentication` any key is accepted.
    """

    def __init__(self, names: Iterable[str] = (), authentication: Authentication | None = None) -> None:
        self._authentication = authentication
        given = {name.strip("[]").lower().rstrip(".") for name in names}
        self._names = LOCAL_NAMES | given - _ANY_ADDRESS
        # An address as Host cannot be rebound. A server that listens everywhere is reached at any address of the
        # machine.
        self._any_address = bool(given & _ANY_ADDRESS)

    def check_origin(self, call: Call) -> None:
        """Raises AccessDenied unless Host is the server's and the request comes from no other site."""
        host = call.headers.get("host", "")
        name = host_name(host)
        if not self._is_ours(name):
            raise AccessDenied(
                f"Host {host!r} is not a name of this sagelet server. Use localhost, or start the server with "
                f"--allow-host {name or 'NAME'} (SAGELET_ALLOW_HOST)."
            )
        apart = self.is_apart(call)
        origin = call.headers.get("origin")
        own = () if apart else (f"http://{host}".lower(), f"https://{host}".lower())
        if origin is not None and origin.lower() not in own:
            raise AccessDenied(f"Requests from other origins ({origin!r}) are refused: web pages may not call sagelet.")
        site = call.headers.get("sec-fetch-site", "none")
        if site != "none" and not (is_read_by_browser(call) if apart else site == "same-origin"):
            raise AccessDenied(f"Sec-Fetch-Site is {site!r}: web pages of other sites may not call sagelet.")

    def admit(self, call: Call, environ: Environ) -> Call:
        """Returns the call with its caller. Raises AwsError unless the request is signed or its URL is presigned."""
        if call.credential is None:
            remedy = "sign the request (`sagelet run` brings a key) or presign its URL."
            if call.protocol is Protocol.S3:
                raise AccessDenied(f"Access Denied: {remedy}")
            raise MissingAuthenticationToken(f"Missing Authentication Token: {remedy}")
        if call.service != "s3" and call.headers.get("sec-fetch-mode") == "navigate":
            # Someone may be talked into opening a link that names an operation of the Query protocol, for example
            # CreateUser.
            raise AccessDenied("A browser is shown objects and pages, and calls no other operation: use an SDK.")
        # A link of a page. Only sagelet's pages know the key pair, and it signs even if others need not sign.
        environ[FROM_PAGE] = self.is_apart(call) and call.headers.get("sec-fetch-site", "none") != "none"
        if self._authentication is None:
            return call._replace(principal=owner(call.account))
        return self._authentication.admit(call, environ)

    def check_control(self, call: Call, environ: Environ, *, public: bool) -> None:
        """See Authentication.admit_to_control."""
        if self._authentication is not None:
            self._authentication.admit_to_control(call, environ, public=public)

    def check_page(self, call: Call, environ: Environ) -> None:
        """Checks a request for the pages. A request that changes something must come from a page, which a browser says
        in Origin.
        """
        if call.method not in ("GET", "HEAD") and "origin" not in call.headers:
            raise AccessDenied(
                "Only sagelet's own pages may ask for this: a request without Origin does not come from a page."
            )
        if self._authentication is not None:
            self._authentication.admit_to_page(call, environ)

    def guarded(self, call: Call, start_response: StartResponse) -> StartResponse:
        """Returns a start_response that gives every answer a request id and drops CORS headers.

        moto adds those for some services. An object that a browser shows (in S3, behind a
        presigned URL) is in a sandbox and runs no scripts. If it is of the pages' origin, the browser saves it instead
        of showing it.
        """

        def start(status: str, headers: list[tuple[str, str]], *rest: object) -> object:
            kept = [one for one in headers if not one[0].lower().startswith("access-control-")]
            names = {name.lower() for name, _ in kept}
            if call.is_read and _POLICY not in names and (accepts_page(call) or is_read_by_browser(call)):
                kept += [("Content-Security-Policy", _SANDBOX), ("X-Content-Type-Options", "nosniff")]
                kept = as_file(status, kept) if self._shows_here(call) else kept
            if not names & _REQUEST_IDS:
                kept.append(("x-amzn-RequestId", call.request_id))
            return start_response(status, kept, *rest)

        return start

    def elsewhere(self, call: Call) -> str | None:
        """Returns the host that a browser is sent to for an object, or None if the request is answered here."""
        return objects_host(call.headers.get("host", "")) if self._shows_here(call) else None

    def _shows_here(self, call: Call) -> bool:
        """True if a browser would show an object on the origin of the pages."""
        return is_read_by_browser(call) and not self.is_apart(call)

    def is_apart(self, call: Call) -> bool:
        """True if Host is a subdomain of a name of the server: S3's virtual-host style, which is not the pages'
        origin.
        """
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
    """True if a browser asks for something to show. It says so, and no SDK does."""
    return call.is_read and shows_page(call)


def shows_page(call: Call) -> bool:
    """True if the answer is shown as a page. A browser also shows what answers a form that it sends."""
    return "text/html" in call.headers.get("accept", "")
