"""The hub as a WSGI application."""

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from http.client import responses
from typing import Any, Protocol, runtime_checkable
from urllib.parse import parse_qs

from sagelet_api.hub import documents
from sagelet_api.hub.errors import HubError, no_entry, no_repository, no_revision, no_such_path, read_only
from sagelet_api.hub.readers import Reader, Readers
from sagelet_api.hub.routes import Asked, Route, find_route
from sagelet_api.hub.upstream import NoAnswer, Question, RealHub, Unreachable, climbs
from sagelet_api.protocol.aws_errors import AwsError
from sagelet_api.protocol.calls import Call, Environ, StartResponse, read_body
from sagelet_api.protocol.file_body import FileBody
from sagelet_api.protocol.s3.errors import S3Error
from sagelet_api.services.s3.conditions import number, parse_range
from sagelet_engine.hub import records
from sagelet_engine.hub.access import MARK, PREFIX
from sagelet_engine.hub.canonical import names_of
from sagelet_engine.hub.names import COMMIT
from sagelet_engine.hub.records import Commit, DamagedRepository, Repository
from sagelet_engine.hub.store import HubStore

_log = logging.getLogger(__name__)

#: The only body is a list of paths.
_MAX_BODY = 8 * 1024 * 1024
_MOST_LISTED = 1000
#: Characters of a message in a header. Paths of repositories have up to 1,024.
_LONGEST_SAID = 2000
_HEADERS = [
    # A browser shows a file of a repository as text, if at all.
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'"),
    ("Cache-Control", "no-store"),
]


#: Misses that the real Hub may have. A repository that was added is whole: what it lacks is not asked for.
_MISSES = ("RepoNotFound", "RevisionNotFound")


@runtime_checkable
class Closable(Protocol):
    """A body that holds something."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Reply:
    status: int
    headers: list[tuple[str, str]]
    body: Iterable[bytes]
    phrase: str = ""


class Hub:
    """Answers the Hub's read API. `readers` identify the caller of a request."""

    def __init__(self, store: HubStore, readers: Readers, upstream: RealHub) -> None:
        """`upstream`: the real Hub, which is asked for what is not here."""
        self._store = store
        self._upstream = upstream
        self._readers = readers
        self._answers: dict[Asked, Callable[[Route, Call, Environ], Reply]] = {
            Asked.LIST: self._list,
            Asked.INFO: self._info,
            Asked.TREE: self._tree,
            Asked.PATHS: self._paths,
            Asked.REFS: self._refs,
            Asked.COMMITS: self._commits,
            Asked.FILE: self._file,
        }

    def __call__(self, call: Call, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        who = Reader("")
        try:
            path = environ.get("REQUEST_URI", call.path).partition("?")[0].removeprefix(PREFIX)
            part, path = _parted(path)
            who = self._readers.find(part, environ)
            try:
                reply = self._answer(path, call, environ)
            except HubError as error:
                if who.isolated or error.code not in _MISSES or climbs(path):
                    raise
                reply = self._passed_on(error, who, part, path, call, environ)
        except HubError as error:
            if error.code == "RepoNotFound" or isinstance(error.__cause__, NoAnswer):
                _log.warning("%s: %s", who.name, error.message)
            reply = _refusal(error)
        except AwsError as error:
            reply = _refusal(HubError(error.status, "", error.message))
        except DamagedRepository as error:
            _log.warning("%s: %s", who.name, error)
            reply = _refusal(HubError(500, "", str(error)))
        # The real Hub and what stands before it have statuses of their own.
        phrase = reply.phrase or responses.get(reply.status, "Unknown")
        start(f"{reply.status} {phrase}", [*_HEADERS, *reply.headers])
        if call.method != "HEAD":
            return reply.body
        if isinstance(reply.body, Closable):
            reply.body.close()
        return []

    def _answer(self, path: str, call: Call, environ: Environ) -> Reply:
        route = find_route(path)
        if route is None:
            raise no_such_path(path) if call.method in ("GET", "HEAD") else read_only(call.method)
        if call.method not in ("GET", "HEAD") and (call.method, route.asked) != ("POST", Asked.PATHS):
            raise read_only(call.method)
        return self._answers[route.asked](route, call, environ)

    def _passed_on(self, miss: HubError, who: Reader, part: str, path: str, call: Call, environ: Environ) -> Reply:
        """Returns the real Hub's answer in place of a miss. Raises the miss if that host cannot be reached."""
        where = f"{PREFIX}{part}" if part else PREFIX.rstrip("/")
        base = f"{environ['wsgi.url_scheme']}://{call.headers.get('host', '')}{where}"
        body = read_body(environ, _MAX_BODY) if call.method == "POST" else None
        query = str(environ.get("QUERY_STRING", ""))
        try:
            answer = self._upstream.ask(
                Question(
                    method=call.method,
                    path=f"/{path}",
                    query=query,
                    headers=call.headers,
                    body=body,
                    base=base,
                    client=who.client,
                )
            )
        except Unreachable as error:
            raise HubError(miss.status, miss.code, f"{miss.message}. {error}") from error
        except NoAnswer as error:
            # Not a miss: clients remember that a file is missing, and try again what is a server's fault.
            raise HubError(504, "", f"{miss.message}. {error}") from error
        said = next((value for name, value in answer.headers if name.lower() == "x-error-message"), "")
        return Reply(answer.status, answer.headers, answer.body, _of_a_header(said) if said else "")

    def _found(self, route: Route) -> tuple[Repository, Commit]:
        """Returns the repository and commit, by any name that the repository has here."""
        for name in names_of(route.kind, route.repository):
            repository = self._store.find(route.kind, name)
            if repository is None:
                continue
            commit = repository.commit(route.revision)
            if commit is None:
                raise no_revision(route.kind, route.repository, route.revision)
            # Clients look for what they have loaded under the commit number that they asked for.
            told = route.revision if COMMIT.fullmatch(route.revision) else commit.id
            return repository, replace(commit, id=told)
        raise no_repository(route.kind, route.repository)

    def _list(self, route: Route, call: Call, _environ: Environ) -> Reply:
        found = [one for one in self._store.repositories() if one.kind is route.kind]
        chosen = [one for one in found if documents.matches(one, call.query)][: _limit(call)]
        return _json([documents.described(one, one.newest, blobs=False) for one in chosen])

    def _info(self, route: Route, call: Call, _environ: Environ) -> Reply:
        repository, commit = self._found(route)
        return _json(documents.described(repository, commit, blobs=_is_true(call.query.get("blobs", ""))))

    def _tree(self, route: Route, call: Call, _environ: Environ) -> Reply:
        _, commit = self._found(route)
        recursive, expand = (_is_true(call.query.get(name, "")) for name in ("recursive", "expand"))
        found = documents.tree(commit, route.path, recursive=recursive, expand=expand)
        if found is None:
            raise no_entry(route.kind, route.repository, route.path)
        return _json(found, commit)

    def _paths(self, route: Route, call: Call, environ: Environ) -> Reply:
        _, commit = self._found(route)
        paths, expand = _asked_paths(read_body(environ, _MAX_BODY), call.headers.get("content-type", ""))
        return _json(documents.entries_at(commit, paths, expand=expand), commit)

    def _refs(self, route: Route, _call: Call, _environ: Environ) -> Reply:
        repository = next(filter(None, (self._store.find(route.kind, one) for one in _names(route))), None)
        if repository is None:
            raise no_repository(route.kind, route.repository)
        return _json(documents.refs(repository))

    def _commits(self, route: Route, call: Call, _environ: Environ) -> Reply:
        found = documents.commits(*self._found(route))
        return _json(found if call.query.get("p", "0") == "0" else [])

    def _file(self, route: Route, call: Call, _environ: Environ) -> Reply:
        _, commit = self._found(route)
        file = commit.files.get(route.path)
        headers = [("X-Repo-Commit", commit.id)]
        if file is None:
            error = no_entry(route.kind, route.repository, route.path)
            reply = _refusal(error)
            return Reply(reply.status, [*headers, *reply.headers], reply.body, reply.phrase)
        headers += [
            ("ETag", f'"{records.etag(route.path, file)}"'),
            ("Accept-Ranges", "bytes"),
            ("Content-Type", "text/plain; charset=utf-8" if not records.is_large(route.path, file) else _BINARY),
        ]
        if records.is_large(route.path, file):
            headers += [("X-Linked-ETag", f'"{file.sha256}"'), ("X-Linked-Size", str(file.size))]
        try:
            span = parse_range(_range(call, records.etag(route.path, file)), file.size)
        except S3Error as error:
            headers.append(("Content-Range", f"bytes */{file.size}"))
            refusal = _refusal(HubError(416, "", str(error)))
            return Reply(416, [*headers[:1], *headers[-1:], *refusal.headers], refusal.body)
        first, length = span or (0, file.size)
        headers.append(("Content-Length", str(length)))
        if span is not None:
            headers.append(("Content-Range", f"bytes {first}-{first + length - 1}/{file.size}"))
        body = FileBody(self._store.open(file), first, length)
        return Reply(200 if span is None else 206, headers, body)


def _range(call: Call, etag: str) -> str | None:
    """Returns the range to send. RFC 9110: for GET only, and with If-Range only if the ETag matches. This server sends
    no dates.
    """
    known = call.headers.get("if-range")
    return call.headers.get("range") if call.method == "GET" and known in (None, f'"{etag}"') else None


_BINARY = "application/octet-stream"


def _names(route: Route) -> Iterable[str]:
    return names_of(route.kind, route.repository)


def _parted(path: str) -> tuple[str, str]:
    """Returns the part of the path that identifies the caller (empty if none does), and the rest."""
    if not path.startswith(MARK):
        return "", path
    reader, _, rest = path.partition("/")
    return reader, rest


def _json(content: Any, commit: Commit | None = None) -> Reply:
    body = json.dumps(content).encode()
    headers = [("Content-Type", "application/json; charset=utf-8"), ("Content-Length", str(len(body)))]
    return Reply(200, [*headers, *([("X-Repo-Commit", commit.id)] if commit else [])], [body])


def _refusal(error: HubError) -> Reply:
    body = json.dumps({"error": error.message}).encode()
    said = _of_a_header(error.message)
    headers = [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Length", str(len(body))),
        *([("X-Error-Code", error.code)] if error.code else []),
        ("X-Error-Message", said),
    ]
    return Reply(error.status, headers, [body], said)


def _of_a_header(text: str) -> str:
    """Returns a message that fits a header.

    It repeats the request's path: any character, and up to the length of a path, more than clients read in a head
    (aiohttp: 8,190 bytes a line).
    """
    shown = "".join(
        letter if letter.isprintable() else " " if letter == "\n" else ascii(letter)[1:-1] for letter in text
    )
    said = shown.encode("ascii", "backslashreplace").decode()
    return said if len(said) <= _LONGEST_SAID else f"{said[: _LONGEST_SAID // 2]} ... {said[-_LONGEST_SAID // 2 :]}"


def _asked_paths(body: bytes, content_type: str) -> tuple[list[str], bool]:
    """Returns the paths and `expand` of a form or of JSON. Clients have sent both."""
    try:
        if "json" in content_type:
            told = json.loads(body)
            paths, expand = told.get("paths", []), bool(told.get("expand"))
        else:
            form = parse_qs(body.decode())
            paths, expand = form.get("paths", []), _is_true(form.get("expand", [""])[0])
    except (ValueError, AttributeError, RecursionError) as error:
        raise HubError(400, "", f"The body of paths-info cannot be read: {error}") from error
    found = [paths] if isinstance(paths, str) else paths
    if not isinstance(found, list) or not all(isinstance(path, str) for path in found):
        raise HubError(400, "", "paths must be a list of strings")
    return [path.strip("/") for path in found], expand


def _limit(call: Call) -> int:
    text = call.query.get("limit", "")
    return min(number(text), _MOST_LISTED) if text.isascii() and text.isdecimal() else _MOST_LISTED


def _is_true(text: str) -> bool:
    return text.lower() in ("true", "1")
