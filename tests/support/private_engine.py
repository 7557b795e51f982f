"""A container engine for tests, which may be killed. It has its own directories, socket and network namespace."""

import ctypes
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from sagelet_engine.runtimes.docker.engine import prepared
from support.server import until
from support.tiny_image import ensure

T = TypeVar("T")
CLONE_NEWNET = 0x40000000


def missing_engine(engine: str, programs: Sequence[str]) -> str | None:
    """Returns why this process cannot have an engine of its own, or None if it can."""
    if os.geteuid() != 0:
        return f"only root starts {engine} of its own: run these tests as root"
    absent = [name for name in (*programs, "ip", "nsenter") if shutil.which(name) is None]
    return f"{', '.join(absent)} not installed: a test starts {engine} of its own" if absent else None


class PrivateEngine:
    """A container engine. It may be started and killed any number of times. `close` removes all of it."""

    def __init__(self) -> None:
        # A short path, because a socket's path must be short.
        self._root = Path(tempfile.mkdtemp(prefix="sgl-"))
        self.host = f"unix://{self._root}/engine.sock"
        self._namespace = f"sgl{uuid.uuid4().hex[:8]}"
        self._log = (self._root / "log").open("ab")
        self._process: subprocess.Popen[bytes] | None = None
        subprocess.run(["ip", "netns", "add", self._namespace], check=True)

    def start(self) -> None:
        self._process = self._run("nsenter", f"--net=/run/netns/{self._namespace}", *self._command())
        until(self._answers)

    def _command(self) -> list[str]:
        raise NotImplementedError

    def _run(self, *command: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(command, stdout=self._log, stderr=self._log, start_new_session=True)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._root / "log").read_text()[-3000:]
        client = self.client()
        try:
            client.ping()
        except (DockerException, RequestException):
            return False
        finally:
            client.close()
        return True

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def client(self) -> docker.DockerClient:
        return prepared(docker.DockerClient(base_url=self.host, version="1.41"))

    def load_tiny_image(self) -> str:
        client = self.client()
        try:
            return ensure(client)
        finally:
            client.close()

    def inside(self, make: Callable[[], T]) -> T:
        """Calls `make` in the engine's network namespace, in which containers take it for this machine.

        A socket that `make` returns stays in that namespace.
        """

        def enter() -> T:
            with Path("/run/netns", self._namespace).open() as namespace:
                if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
            return make()

        # The namespace is the thread's, and goes with it.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(enter).result()

    def close(self) -> None:
        self._end()
        self._log.close()
        subprocess.run(["ip", "netns", "delete", self._namespace], check=True)
        for mounted in sorted(self._mounts(), reverse=True):
            subprocess.run(["umount", "--lazy", mounted], check=False)
        shutil.rmtree(self._root, ignore_errors=True)

    def _end(self) -> None:
        """Ends the containers and all processes of the engine."""
        raise NotImplementedError

    def _terminate(self, process: "subprocess.Popen[bytes] | None") -> None:
        if process is not None and process.poll() is None:
            process.terminate()
            process.wait(timeout=120)

    def _mounts(self) -> list[str]:
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return [place for place in mounts if place.startswith(str(self._root))]
