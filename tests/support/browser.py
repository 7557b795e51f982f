"""A headless Chromium, and the servers of a page that attacks another."""

import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

#: Names under which Debian, other distributions and Chrome itself install it.
NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def visiting(page: str, profile: Path, names: Mapping[str, str]) -> Iterator[None]:
    """Runs a browser that opens a page. `names` maps host names to addresses, as an attacker's DNS would."""
    program = find_chromium()
    assert program is not None
    rules = ", ".join(f"MAP {name} {address}" for name, address in names.items())
    command = [
        program, "--headless=new", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
        # CI's containers run as root and cannot make namespaces.
        "--no-sandbox",
        "--disable-background-networking", "--disable-component-update", "--no-proxy-server",
        f"--user-data-dir={profile}", f"--host-resolver-rules={rules}", page,
    ]  # fmt: skip
    with (profile.parent / "chromium.log").open("w") as log:
        browser = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield
        finally:
            browser.kill()
            browser.wait(60)


class Attacker(ThreadingHTTPServer):
    """Serves a page and collects what it reports: `reports` by name."""

    daemon_threads = True

    def __init__(self, page: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.page = page
        #: The browser opens a page with these in frames.
        self.frames: list[str] = []
        self.reports: dict[str, Any] = {}

    def __enter__(self) -> "Attacker":
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Attacker

    def do_GET(self) -> None:
        frames = "".join(f'<iframe src="{escape(url)}"></iframe>' for url in self.server.frames)
        self._answer(frames.encode() if self.path == "/" else self.server.page, "text/html")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        name = parse_qs(urlsplit(self.path).query)["name"][0]
        self.server.reports[name] = json.loads(body)
        self._answer(b"", "text/plain")

    def log_message(self, *_arguments: object) -> None:
        pass

    def _answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


class ReboundName:
    """A port whose name is first the attacker's and then the victim's, as with DNS rebinding.

    A connection that asks for `/attack` goes to the attacker's page. All others go, byte for byte, to `victim`.
    """

    def __init__(self, attacker: int, victim: int) -> None:
        self._attacker = attacker
        self._victim = victim
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> "ReboundName":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            first = client.recv(65536)
            port = self._attacker if first.startswith(b"GET /attack") else self._victim
            with socket.create_connection(("127.0.0.1", port)) as other:
                other.sendall(first)
                back = threading.Thread(target=_copy, args=(other, client), daemon=True)
                back.start()
                _copy(client, other)
                back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
