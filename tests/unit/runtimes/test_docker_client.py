"""The client of a container engine that fails for a moment."""

import json
import os
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import docker
import pytest
from docker.errors import APIError

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.model.runtime import Handle
from sagelet_engine.runtimes.docker.engine import prepared
from sagelet_engine.runtimes.docker.runtime import DockerRuntime

#: As Podman 4.3.1 answered in CI.
GONE = "read /proc/25137/cgroup: no such process"


class Engine(socketserver.ThreadingUnixStreamServer):
    """An engine with one container, whose next `failures` answers are 500. `asked`: the methods of its requests."""

    daemon_threads = True
    failures = 0

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Handler)
        self.asked: list[str] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Engine

    def _answer(self) -> None:
        self.server.asked.append(self.command)
        if self.server.failures:
            self.server.failures -= 1
            return self._say(500, {"message": GONE})
        state = {"Status": "running", "Running": True, "StartedAt": "2026-11-24T10:00:00Z"}
        return self._say(200, {"Id": "one", "State": state})

    do_GET = do_POST = _answer

    def _say(self, status: int, value: dict[str, object]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "engine.sock") as made:
        threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture
def runtime(engine: Engine) -> Iterator[DockerRuntime]:
    client = prepared(docker.DockerClient(base_url=f"unix://{engine.server_address}", version="1.41"))
    yield DockerRuntime(client, "owner", SystemClock())
    client.close()


def test_what_could_not_be_read_for_a_moment_is_read_again(engine: Engine, runtime: DockerRuntime) -> None:
    engine.failures = 3
    assert runtime.observe(Handle("algo-1", "one", 0)).running
    assert engine.asked == ["GET"] * 4


def test_an_engine_that_goes_on_failing_is_not_asked_for_ever(engine: Engine, runtime: DockerRuntime) -> None:
    engine.failures = 1000
    with pytest.raises(RuntimeUnavailable, match=GONE):
        runtime.observe(Handle("algo-1", "one", 0))
    assert engine.asked == ["GET"] * 5


def test_only_reads_are_repeated(engine: Engine, runtime: DockerRuntime) -> None:
    engine.failures = 1
    with pytest.raises(APIError, match=GONE):
        runtime._api.kill("one", "SIGTERM")
    assert engine.asked == ["POST"]


@pytest.mark.parametrize("host", ["", "unix:///var/run/docker.sock", "ssh://user@far"])
def test_only_an_engine_behind_ssh_needs_paramiko(host: str) -> None:
    program = "import sys, sagelet_engine.runtimes.docker.engine; print('paramiko' in sys.modules)"
    said = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "DOCKER_HOST": host}, stdout=subprocess.PIPE, text=True,
        check=True, timeout=120,
    ).stdout  # fmt: skip
    assert said.strip() == str(host.startswith("ssh://"))
