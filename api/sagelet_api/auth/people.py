"""Answers people who look at the server with a browser or curl with a text that names the page.

An AWS client signs, or identifies itself in headers of its own; it gets AWS's errors.
"""

from http import HTTPStatus

from sagelet_api.auth.request_guard import accepts_page
from sagelet_api.protocol.aws_errors import AwsError
from sagelet_api.protocol.calls import Call
from sagelet_api.protocol.replies import Reply

#: Beginnings of the User-Agent of programs that show what they get.
_PROGRAMS = ("curl/", "wget/", "httpie/")
#: Beginnings of headers and of URL parameters of AWS's clients. A garbled presigned URL still has some of them.
_OF_AWS = ("x-amz", "amz-sdk", "awsaccesskeyid", "signature")
#: Characters of a path that are repeated in the answer.
_LONGEST = 200


def is_person(call: Call) -> bool:
    """True if the caller has not signed and does not use an AWS client, so a person may read the answer."""
    names = (name.lower() for source in (call.headers, call.query) for name in source)
    return (
        call.credential is None
        and call.is_read
        and "authorization" not in call.headers
        and (accepts_page(call) or call.headers.get("user-agent", "").lower().startswith(_PROGRAMS))
        and not any(name.startswith(_OF_AWS) for name in names)
    )


def way_to_page(call: Call, origin: str) -> Reply:
    """Returns the answer to a path that has no page. `origin`: of the pages, `http://localhost:4599`."""
    path = call.path.encode("latin-1", "replace").decode("utf-8", "replace")
    at_root = path == "/"
    first = "sagelet runs here." if at_root else f"sagelet has no page at {shown(path)}."
    return _text(
        HTTPStatus.OK if at_root else HTTPStatus.NOT_FOUND,
        page_text(first, origin),
    )


def page_text(first: str, origin: str) -> str:
    """Returns a text that begins with a line and names the page. `origin`: as in `way_to_page`."""
    return (
        f"{first}\n\n"
        f"The web page, for a browser:  {origin}/\n"
        f"Whether the server is well:   {origin}/_sagelet/health\n"
        f"AWS's API, signed requests:   AWS_ENDPOINT_URL={origin}, or `sagelet run -- COMMAND`"
    )


def error_text(error: AwsError) -> Reply:
    return _text(error.status, f"{error.code}: {error.message}")


def _text(status: int, text: str) -> Reply:
    return Reply(
        status, f"{text}\n".encode(), {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"}
    )


def shown(path: str) -> str:
    """Returns the text with `[U+001B]` for characters that a terminal obeys or that reverse the direction of text."""
    cut = path if len(path) <= _LONGEST else f"{path[:_LONGEST]}..."
    return "".join(char if char.isprintable() else f"[U+{ord(char):04X}]" for char in cut)
