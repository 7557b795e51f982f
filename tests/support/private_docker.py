"""A Docker Engine for one test, which may be killed. It has its own directories, socket and network namespace.

In this machine's own namespace it would share docker0 with the machine's engine. An engine with its own address pools
that is killed and started again removes docker0, even if it was told to use another bridge.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from pathlib import Path

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from support.server import until
from support.tiny_image import ensure


def missing_dockerd() -> str | None:
    """Returns why this process cannot have an engine of its own, or None if it can."""
    if os.geteuid() != 0:
        return "only root starts a Docker Engine of its own: run these tests as root"
    absent = [name for name in ("dockerd", "containerd", "ip", "nsenter") if shutil.which(name) is None]
    return f"{', '.join(absent)} not installed: a test starts a Docker Engine of its own" if absent else None


class PrivateDocker:
    """A Docker Engine. It may be started and killed any number of times. `close` removes all of it."""

    def __init__(self, *, live_restore: bool) -> None:
        # A short path, because a socket's path must be short.
        self._root = Path(tempfile.mkdtemp(prefix="sgl-"))
        self.host = f"unix://{self._root}/docker.sock"
        self._namespace = f"sgl{uuid.uuid4().hex[:8]}"
        self._log = (self._root / "log").open("ab")
        subprocess.run(["ip", "netns", "add", self._namespace], check=True)
        containerd = f"{self._root}/containerd.sock"
        # containerd is a service of its own, so that it survives a killed engine.
        self._containerd = self._run(
            "containerd", "--address", containerd, "--root", f"{self._root}/cd", "--state", f"{self._root}/cd-state"
        )
        self._command = [
            "nsenter", f"--net=/run/netns/{self._namespace}",
            "dockerd", "--containerd", containerd, "--host", self.host, "--data-root", f"{self._root}/data",
            "--exec-root", f"{self._root}/exec", "--pidfile", f"{self._root}/pid",
            "--iptables=false", "--ip-masq=false", f"--live-restore={str(live_restore).lower()}",
        ]  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        # Leftovers of a killed engine would keep the next one from starting.
        (self._root / "pid").unlink(missing_ok=True)
        self._process = self._run(*self._command)
        until(self._answers)

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
        return docker.DockerClient(base_url=self.host, version="1.41")

    def load_tiny_image(self) -> str:
        client = self.client()
        try:
            return ensure(client)
        finally:
            client.close()

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._remove_containers()
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=120)
        self._containerd.terminate()
        self._containerd.wait(timeout=120)
        self._log.close()
        subprocess.run(["ip", "netns", "delete", self._namespace], check=True)
        for mounted in sorted(self._mounts(), reverse=True):
            subprocess.run(["umount", "--lazy", mounted], check=False)
        shutil.rmtree(self._root, ignore_errors=True)

    def _remove_containers(self) -> None:
        client = self.client()
        try:
            for container in client.containers.list(all=True, ignore_removed=True):
                container.remove(force=True)
            client.networks.prune()
        finally:
            client.close()

    def _mounts(self) -> list[str]:
        mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return [place for place in mounts if place.startswith(str(self._root))]
