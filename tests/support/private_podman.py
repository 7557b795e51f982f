"""Podman's service for tests, with Docker's API. Its containers outlive a killed service: it is not a daemon."""

import resource
import subprocess

from support.private_engine import PrivateEngine, missing_engine

#: The service takes this limit itself, and containers get no higher one.
MOST_PROCESSES = 32_768


def missing_podman() -> str | None:
    return missing_engine("Podman's service", ("podman", "runc"))


class PrivatePodman(PrivateEngine):
    def __init__(self) -> None:
        super().__init__()
        files, processes = (resource.getrlimit(limit)[1] for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC))
        files, processes = _least(files, 1_048_576), _least(processes, MOST_PROCESSES)
        # Where root may not raise limits (no CAP_SYS_RESOURCE), Podman's own defaults would be too high. crun, Podman's
        # first choice, refuses machines whose control groups are partly of version 1 and partly of version 2.
        (self._root / "containers.conf").write_text(
            f"""
            [containers]
            default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
            [engine]
            cgroup_manager = "cgroupfs"
            events_logger = "file"
            runtime = "runc"
            [network]
            network_backend = "netavark"
            network_config_dir = "{self._root}/networks"
            """
        )

    def _command(self) -> list[str]:
        return self._podman("system", "service", "--time", "0", self.host)

    def _podman(self, *arguments: str) -> list[str]:
        configuration = f"CONTAINERS_CONF={self._root}/containers.conf"
        places = ("--root", f"{self._root}/data", "--runroot", f"{self._root}/run", "--tmpdir", f"{self._root}/tmp")
        return ["env", configuration, "podman", *places, *arguments]

    def _end(self) -> None:
        inside = ("nsenter", f"--net=/run/netns/{self._namespace}")
        subprocess.run([*inside, *self._podman("rm", "--all", "--force", "--time", "0")], check=True, stdout=self._log)
        self._terminate(self._process)


def _least(limit: int, wanted: int) -> int:
    return wanted if limit == resource.RLIM_INFINITY else min(limit, wanted)
