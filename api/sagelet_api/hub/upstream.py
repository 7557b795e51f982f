"""The real Hub behind this one: answers for repositories that were not added here.

The server asks, and passes the answer on. It does not redirect the client there, for three reasons. Clients drop a
token at a redirect to another host, so private repositories would be refused. They take a file's commit and ETag from
the first answer, and a redirect without them is an error. And clients of 2021 follow no redirect of a HEAD. A redirect
of the real Hub to its storage is passed on: clients expect it, and large files do not go through this server.

Only the configured host is asked, by a path that this hub knows and that does not climb (`..`). A redirect is followed
within that host only. Jobs share the turns of requests: one that reads slowly leaves the others theirs.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from sagelet_api.hub.errors import HubError
from sagelet_api.hub.timed import read_by_steps
from sagelet_api.hub.turns import Turns

_log = logging.getLogger(__name__)

#: Seconds until the host has answered a connection; until all headers of an answer are there, and then for each piece.
CONNECT_S, READ_S = 5.0, 30.0
#: Seconds for which a host that cannot be reached is not asked again.
PAUSE_S = 30.0
#: Requests to the host at once, and those of one client (a job, or all programs outside of jobs). A turn ends with the
#: answer's body, which a client may read slowly. Others wait for their turn up to READ_S seconds.
AT_ONCE, OF_A_CLIENT = 64, 8
#: Requests of one client that wait for a turn. More are refused at once.
WAITING = 32
#: Nobody is at that address: it is not asked again for a while. An answer that is late or cut is that of one request.
_NOT_THERE = (ConnectTimeoutError, NewConnectionError, ProxyError, SSLError)
#: Redirects that are followed within the host.
MOST_REDIRECTS = 5
_PIECE = 64 * 1024
#: Headers that go there. The token only if it is one: an AWS signature is nothing for that host.
_ASKED = ("range", "if-range", "if-none-match", "content-type")
_TOKEN = "bearer "
#: Headers that come back. Those of Xet storage do not: its clients would ask for tokens at a path that is not here.
_PASSED = (
    "Content-Type", "Content-Encoding", "Content-Length", "Content-Range", "Accept-Ranges", "ETag", "X-Repo-Commit",
    "X-Linked-ETag", "X-Linked-Size", "X-Error-Code", "X-Error-Message",
)  # fmt: skip
_REDIRECTS = (301, 302, 303, 307, 308)


class Unreachable(Exception):
    """The real Hub was not reached, or not asked. The text says why."""


class NoAnswer(Exception):
    """The host is there, but its answer to this request is late, or was cut. The text says so."""


@dataclass(frozen=True)
class Question:
    """A request as it goes to the host."""

    method: str
    #: Quoted, with a slash in front, as the client sent it.
    path: str
    query: str
    #: In lower case.
    headers: Mapping[str, str]
    body: bytes | None
    #: The URL under which the client asks this hub, for links of the host to itself.
    base: str
    #: Whose share of the turns it takes: `Reader.client`.
    client: str


@dataclass(frozen=True)
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: Iterable[bytes]


class RealHub(Protocol):
    """What is asked for that is not here."""

    def ask(self, question: Question) -> Answer:
        """Returns the host's answer. Its body must be read to the end or closed. Raises Unreachable, NoAnswer,
        HubError.
        """
        ...


class NotAsked:
    """The real Hub that nobody asks. `why`: a sentence without its full stop, for the miss."""

    def __init__(self, why: str) -> None:
        self._why = why

    def ask(self, question: Question) -> Answer:  # noqa: ARG002
        """Raises Unreachable."""
        raise Unreachable(self._why)


class Upstream:
    """Asks one host."""

    def __init__(self, url: str) -> None:
        """`url`: `https://huggingface.co`, or that of a mirror, with a path or without."""
        self.url = url.rstrip("/")
        self._origin = _origin(self.url)
        self._turns = Turns(AT_ONCE, OF_A_CLIENT, WAITING)
        self._guard = threading.Lock()
        self._pool: urllib3.PoolManager | None = None
        #: Until when the host is not asked, and why.
        self._pause: tuple[float, str] = (0.0, "")

    def ask(self, question: Question) -> Answer:
        """See `RealHub.ask`."""
        until, why = self._pause
        if time.monotonic() < until:
            raise Unreachable(why)
        if not self._turns.take(question.client, READ_S):
            raise HubError(503, "", f"Too many requests wait for {self.url}; try again")
        give_back = partial(self._turns.give_back, question.client)
        try:
            response = self._followed(question)
            return Answer(response.status, self._headers(response, question), _Body(response, give_back))
        except _NOT_THERE as error:
            give_back()
            why = f"{self.url} cannot be reached: {_reason(error)}"
            _log.warning("%s", why)
            self._pause = (time.monotonic() + PAUSE_S, why)
            raise Unreachable(why) from error
        except HTTPError as error:
            give_back()
            is_late = isinstance(error, ReadTimeoutError)
            said = f"did not answer within {READ_S:g} s" if is_late else f"broke off its answer: {_reason(error)}"
            raise NoAnswer(f"{self.url} {said}; try again") from error
        except BaseException:
            give_back()
            raise

    def _followed(self, question: Question) -> urllib3.BaseHTTPResponse:
        """Asks, and follows redirects within the host. Raises HTTPError, HubError."""
        url = f"{self.url}{question.path}" + (f"?{question.query}" if question.query else "")
        until = time.monotonic() + READ_S
        for _ in range(MOST_REDIRECTS + 1):
            response = self._manager().request(
                question.method,
                url,
                headers=_headers_of(question),
                body=question.body,
                redirect=False,
                preload_content=False,
                decode_content=False,
            )
            target = _target(response, url)
            if target is None or not self._is_here(target):
                return response
            response.release_conn()
            response.close()
            if time.monotonic() > until:
                raise NoAnswer(f"{self.url} redirected for more than {READ_S:g} s; try again")
            url = target
        raise HubError(502, "", f"{self.url} redirects more than {MOST_REDIRECTS} times")

    def _is_here(self, url: str) -> bool:
        is_below = url.startswith((f"{self.url}/", f"{self.url}?"))
        return is_below and _origin(url) == self._origin and not climbs(urlsplit(url).path)

    def _headers(self, response: urllib3.BaseHTTPResponse, question: Question) -> list[tuple[str, str]]:
        found = [(name, response.headers[name]) for name in _PASSED if name in response.headers]
        if target := _target(response, self.url):
            found.append(("Location", target))
        if link := response.headers.get("Link"):
            # The next page of a list.
            found.append(("Link", link.replace(f"<{self.url}/", f"<{question.base}/")))
        return [(name, value) for name, value in found if value.isprintable()]

    def _manager(self) -> urllib3.PoolManager:
        with self._guard:
            if self._pool is None:
                self._pool = _made(self.url)
            return self._pool


class _Body:
    """A body that gives its turn back at its end."""

    def __init__(self, response: urllib3.BaseHTTPResponse, give_back: Callable[[], None]) -> None:
        self._response = response
        self._give_back = give_back
        self._open = True

    def __iter__(self) -> Iterator[bytes]:
        try:
            # What has come goes on at once. Waiting for a whole piece of a slow host, nobody would notice that the
            # client has gone, and its turn would be taken for hours.
            while piece := self._response.read1(_PIECE, decode_content=False):
                yield piece
        except HTTPError as error:
            raise OSError(f"the answer of the real Hub was cut: {_reason(error)}") from error
        finally:
            self.close()

    def close(self) -> None:
        if self._open:
            self._open = False
            self._response.close()
            self._give_back()


def _made(url: str) -> urllib3.PoolManager:
    """Makes the connections, through the proxy that the environment names. The user's netrc is not read."""
    timeout = urllib3.Timeout(connect=CONNECT_S, read=READ_S)
    proxy = getproxies().get(urlsplit(url).scheme)
    options: dict[str, Any] = {"timeout": timeout, "retries": False, "maxsize": AT_ONCE}
    if proxy and not proxy_bypass(urlsplit(url).hostname or ""):
        manager: urllib3.PoolManager = urllib3.ProxyManager(proxy, **options)
    else:
        manager = urllib3.PoolManager(**options)
    read_by_steps(manager)
    return manager


def _headers_of(question: Question) -> dict[str, str]:
    given = question.headers
    token = given.get("authorization", "")
    return {
        "User-Agent": "sagelet",
        "Accept-Encoding": "identity",
        **{name: given[name] for name in _ASKED if name in given},
        **({"Authorization": token} if token.lower().startswith(_TOKEN) else {}),
    }


def climbs(path: str) -> bool:
    """True if a quoted path has a part `.` or `..`, however often it is quoted. Who takes such parts away gets another
    path.
    """
    while (plain := unquote(path)) != path:
        path = plain
    return not {".", ".."}.isdisjoint(path.replace("\\", "/").split("/"))


def _target(response: urllib3.BaseHTTPResponse, url: str) -> str | None:
    """Returns where an answer to `url` redirects, None if it does not. Raises HubError if it is not a URL."""
    location = response.headers.get("Location")
    if not location or response.status not in _REDIRECTS:
        return None
    try:
        return urljoin(url, location)
    except ValueError as error:
        response.close()
        raise HubError(502, "", f"{url} redirects to something that is not a URL") from error


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    try:
        return parts.scheme, parts.hostname or "", parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", "", None


def _reason(error: HTTPError) -> str:
    """Returns the last cause of an error as text: urllib3 wraps the system's."""
    text = str(getattr(error, "reason", None) or error).rpartition(": ")[2]
    return re.sub(r"^\[Errno -?\d+\] ", "", text)[:200]
