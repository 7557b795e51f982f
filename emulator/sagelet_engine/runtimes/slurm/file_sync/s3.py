"""S3 for a node: get and put, signed with a job's credentials. Standard library only.

Nodes have Python and no package of sagelet but these files. AWS's Signature Version 4 is 30 lines.
"""

import datetime
import hashlib
import hmac
import http.client
import ssl
from dataclasses import dataclass, field
from typing import BinaryIO
from urllib.parse import quote, urlsplit

#: Seconds that the endpoint may be silent.
TIMEOUT_S = 60
_CHUNK = 1024 * 1024


class EndpointAway(Exception):
    """The endpoint does not answer, or cannot now. The request may be tried again."""


class EndpointRefuses(Exception):
    """The endpoint refuses the request, and will refuse it again."""


@dataclass(frozen=True)
class Ticket:
    """The place of a host's batches, and the credentials for them."""

    #: `https://sagelet.lab.example:4599`
    endpoint: str
    region: str
    bucket: str
    #: The prefix of the host's keys, with a slash at its end.
    prefix: str
    access_key: str
    secret: str = field(repr=False)
    token: str = field(repr=False)
    #: The certificate authority of `--tls` as PEM, or empty for the machine's own.
    authority: str = ""


class Batches:
    """Objects below the ticket's prefix. Methods raise EndpointAway and EndpointRefuses."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self._where = urlsplit(ticket.endpoint)

    def get(self, name: str) -> "http.client.HTTPResponse | None":
        """Opens an object, which the caller reads and closes. None if there is no object."""
        answer = self._request("GET", name, b"")
        if answer.status == 404:
            answer.read()
            return None
        self._check(answer)
        return answer

    def put(self, name: str, data: BinaryIO) -> None:
        """Sends a whole open file."""
        digest = hashlib.sha256()
        data.seek(0)
        while chunk := data.read(_CHUNK):
            digest.update(chunk)
        size = data.tell()
        data.seek(0)
        answer = self._request("PUT", name, data, size, digest.hexdigest())
        self._check(answer)
        answer.read()

    def _request(
        self,
        method: str,
        name: str,
        body: "BinaryIO | bytes",
        size: int = 0,
        digest: str = hashlib.sha256().hexdigest(),
    ) -> http.client.HTTPResponse:
        ticket = self._ticket
        path = quote(f"/{ticket.bucket}/{ticket.prefix}{name}")
        headers = {
            "Content-Length": str(size),
            "Connection": "close",
            **_signed(ticket, method, self._where.netloc, path, digest),
        }
        try:
            connection = self._connect()
            connection.request(method, path, body, headers)
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise EndpointAway(f"{ticket.endpoint}: {error}") from error

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._where.hostname or "", self._where.port
        if self._where.scheme != "https":
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        context = ssl.create_default_context(cadata=self._ticket.authority or None)
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=context)

    def _check(self, answer: http.client.HTTPResponse) -> None:
        if answer.status < 300:
            return
        said = f"{self._ticket.endpoint}: {answer.status} {answer.read(500).decode(errors='replace')}"
        # 403: the job has ended, or the server has another key.
        raise EndpointRefuses(said) if answer.status in (400, 403) else EndpointAway(said)


def _signed(ticket: Ticket, method: str, host: str, path: str, digest: str) -> dict[str, str]:
    """Returns the headers of Signature Version 4 for a request without a query."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    headers = {
        "host": host,
        "x-amz-content-sha256": digest,
        "x-amz-date": now,
        "x-amz-security-token": ticket.token,
    }
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"{method}\n{path}\n\n{lines}\n{names}\n{digest}"
    scope = (now[:8], ticket.region, "s3", "aws4_request")
    claim = f"AWS4-HMAC-SHA256\n{now}\n{'/'.join(scope)}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{ticket.secret}".encode()
    for part in scope:
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, claim.encode(), "sha256").hex()
    claimed = f"Credential={ticket.access_key}/{'/'.join(scope)}, SignedHeaders={names}, Signature={signature}"
    return {**headers, "Authorization": f"AWS4-HMAC-SHA256 {claimed}"}
