"""A stand-in of the real Hub, as strict as it is: redirects, heads and tokens (huggingface.co, November 2026).

- A name from before 2024 is answered by a redirect within the host, as `gpt2` to `openai-community/gpt2`.
- A large file is answered by a redirect to a storage on another host. The redirect has commit, ETag and size.
- A repository that is missing, or private without its token, is 401 with RepoNotFound.
- A file has the headers of Xet storage, too, which a client follows to the host if it gets them.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sagelet_api.http.server import Server
from sagelet_api.hub.alone import HubAlone
from sagelet_engine.hub.access import PATH
from sagelet_engine.hub.store import HubStore

TOKEN = "hf_of_the_user"
PRIVATE = "org/private"


class RealHub:
    """A server; `with RealHub(data) as real`. `data` has its repositories."""

    def __init__(self, data: Path) -> None:
        self._hub = HubAlone(HubStore(data))
        self._server = Server(self._answer, "127.0.0.1", 0)
        self._storage = Server(self._stored, "127.0.0.1", 0)
        #: Method, path and Authorization of each request, and whether it came to the storage.
        self.seen: list[tuple[str, str, str]] = []
        self.stored: list[tuple[str, str, str]] = []

    def __enter__(self) -> "RealHub":
        self._server.start()
        self._storage.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.stop()
        self._storage.stop()

    @property
    def endpoint(self) -> str:
        return self._server.endpoint

    def _note(self, environ: dict[str, Any], where: list[tuple[str, str, str]]) -> str:
        path = str(environ["REQUEST_URI"]).partition("?")[0]
        where.append((environ["REQUEST_METHOD"], path, environ.get("HTTP_AUTHORIZATION", "")))
        return path

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        path = self._note(environ, self.seen)
        if PRIVATE in path and environ.get("HTTP_AUTHORIZATION") != f"Bearer {TOKEN}":
            return self._missing(environ, start)
        if path.startswith(("/gpt2/", "/api/models/gpt2")):
            start("307 Temporary Redirect", [
                ("Location", path.replace("gpt2", "openai-community/gpt2", 1)), ("Content-Length", "0"),
            ])  # fmt: skip
            return []
        if environ.get("QUERY_STRING") == "page":
            start("200 OK", [("Link", f'<{self.endpoint}{path}?cursor=2>; rel="next"'), ("Content-Length", "2")])
            return [b"[]"] if environ["REQUEST_METHOD"] != "HEAD" else []
        return self._of_hub(environ, path, start)

    def _of_hub(self, environ: dict[str, Any], path: str, start: Any) -> Iterable[bytes]:
        told: list[Any] = []
        body = self._hub(
            {**environ, "REQUEST_URI": f"{PATH}{path}", "PATH_INFO": f"{PATH}{path}"},
            lambda status, headers, _error=None: told.append((status, headers)),
        )
        status, headers = told[0]
        names = {name.lower(): value for name, value in headers}
        if names.get("x-error-code") == "RepoNotFound":
            return self._missing(environ, start)
        if "x-linked-etag" in names:
            headers = [one for one in headers if one[0].startswith("X-")]
            headers += [("Location", f"{self._storage.endpoint}{path}?signature=s"), ("Content-Length", "0")]
            start("302 Found", [*headers, ("X-Xet-Hash", "0" * 64)])
            return []
        start(status, headers)
        return body

    def _missing(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        body = json.dumps({"error": "Repository not found"}).encode()
        start("401 Unauthorized", [
            ("X-Error-Code", "RepoNotFound"), ("X-Error-Message", "Repository not found"),
            ("Content-Type", "application/json"), ("Content-Length", str(len(body))),
        ])  # fmt: skip
        return [body] if environ["REQUEST_METHOD"] != "HEAD" else []

    def _stored(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        """The storage. It is another host, to which no token goes, and which refuses one."""
        path = self._note(environ, self.stored)
        if urlsplit(environ["REQUEST_URI"]).query != "signature=s":
            start("403 Forbidden", [("Content-Length", "0")])
            return []
        where = f"{PATH}{path}"
        return self._hub({**environ, "REQUEST_URI": where, "PATH_INFO": where}, start)
