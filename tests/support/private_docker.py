"""A Docker Engine for one test.

In this machine's own network namespace it would share docker0 with the machine's engine. An engine with its own address
pools that is killed and started again removes docker0, even if its configuration names another bridge.
"""

from support.private_engine import PrivateEngine, missing_engine


def missing_dockerd() -> str | None:
    return missing_engine("a Docker Engine", ("dockerd", "containerd"))


class PrivateDocker(PrivateEngine):
    def __init__(self, *, live_restore: bool) -> None:
        super().__init__()
        self._live_restore = live_restore
        # containerd is a service of its own, so that it survives a killed engine.
        self._containerd = self._run(
            "containerd", "--address", f"{self._root}/containerd.sock",
            "--root", f"{self._root}/cd", "--state", f"{self._root}/cd-state",
        )  # fmt: skip

    def _command(self) -> list[str]:
        # Leftovers of a killed engine would keep the next one from starting.
        (self._root / "pid").unlink(missing_ok=True)
        return [
            "dockerd", "--containerd", f"{self._root}/containerd.sock", "--host", self.host,
            "--data-root", f"{self._root}/data", "--exec-root", f"{self._root}/exec", "--pidfile", f"{self._root}/pid",
            "--iptables=false", "--ip-masq=false", f"--live-restore={str(self._live_restore).lower()}",
        ]  # fmt: skip

    def _end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._remove_containers()
        self._terminate(self._process)
        self._terminate(self._containerd)

    def _remove_containers(self) -> None:
        client = self.client()
        try:
            for container in client.containers.list(all=True, ignore_removed=True):
                container.remove(force=True)
            client.networks.prune()
        finally:
            client.close()
