"""Checks the main promises of the process runtime as an ordinary user: `python ordinary_user.py DIRECTORY`.

It is a program and not a test module. The tests run as root in CI, and this runs as `nobody` under the system's Python.
"""

import os
import sys
import time
from pathlib import Path

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.model.runtime import WARM_POOL_CACHE, Handle, HostPlan, LaunchPlan, Mount
from sagelet_engine.runtimes.node import base_packages
from sagelet_engine.runtimes.process.runtime import ProcessRuntime, StandIn

DEADLINE_S = 120.0


class User:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.runtime = ProcessRuntime(directory / "state", StandIn((sys.executable,)), SystemClock())

    def start(
        self,
        name: str,
        script: str,
        *,
        isolated: bool = False,
        read_only: tuple[str, ...] = (),
        cache: Path | None = None,
        mounts: tuple[Mount, ...] = (),
    ) -> Handle:
        opt_ml = self.directory / name / "ml"
        for path in ("", *read_only, *([] if cache is None else [WARM_POOL_CACHE]), *(one.target for one in mounts)):
            (opt_ml / path).mkdir(parents=True)
        host = HostPlan("algo-1", opt_ml, self.directory / name / "run", read_only, cache, mounts)
        command = ("/bin/sh", "-c", script)
        plan = LaunchPlan(name, name, "none", (host,), entrypoint=command, arguments=(), network_isolation=isolated)
        return self.runtime.launch(plan)[0]

    def text(self, handle: Handle) -> list[str]:
        return [line.text for batch in self.runtime.lines(handle, None) for line in batch]

    def wait_for_line(self, handle: Handle, text: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        for batch in self.runtime.lines(handle, None):
            if any(line.text == text for line in batch):
                return
            assert time.monotonic() < deadline, f"no line {text!r}"
        raise AssertionError(f"the host ended without {text!r}: {self.runtime.observe(handle)}")


def sees_its_own_opt_ml(user: User) -> None:
    others = sorted(os.listdir("/opt"))
    handle = user.start("view", "hostname; id -u; echo x > /opt/ml/out; ls /opt; exit 7")
    assert user.text(handle) == ["algo-1", str(os.getuid()), *sorted({*others, "ml"})]
    assert user.runtime.observe(handle).exit_code == 7
    written = user.directory / "view" / "ml" / "out"
    assert written.read_text() == "x\n"
    assert written.stat().st_uid == os.getuid()
    assert sorted(os.listdir("/opt")) == others


def handles_the_request_to_stop(user: User) -> None:
    handle = user.start("stop", "trap 'echo saved; exit 3' TERM; echo ready; while true; do sleep 0.1; done")
    user.wait_for_line(handle, "ready")
    user.runtime.stop(handle)
    assert user.text(handle) == ["ready", "saved"]
    assert user.runtime.observe(handle).exit_code == 3


def is_ended_by_force(user: User) -> None:
    handle = user.start("force", "trap '' TERM; echo ready; setsid sleep 600 & while true; do sleep 0.1; done")
    user.wait_for_line(handle, "ready")
    user.runtime.stop(handle, force=True)
    assert user.text(handle) == ["ready"]
    assert user.runtime.observe(handle).exit_code == 137


def is_isolated_from_the_network(user: User) -> None:
    handle = user.start("isolated", "tail -n +3 /proc/net/dev | wc -l", isolated=True)
    assert [line.strip() for line in user.text(handle)] == ["1"]


def cannot_write_what_is_read_only(user: User) -> None:
    script = "(echo x > /opt/ml/data/x) 2>/dev/null; echo x > /opt/ml/y; ls /opt/ml /opt/ml/data"
    handle = user.start("read-only", script, read_only=("data",))
    assert user.text(handle) == ["/opt/ml:", "data", "y", "", "/opt/ml/data:"]


def has_a_cache(user: User) -> None:
    (user.directory / "kept").mkdir()
    for number, found in enumerate(([], ["0"])):
        script = f"cd /opt/ml/sagemaker/warmpoolcache; ls; touch {number}"
        handle = user.start(f"cache-{number}", script, cache=user.directory / "kept")
        assert user.text(handle) == found


def sees_directories_of_the_machine(user: User) -> None:
    files = user.directory / "files"
    files.mkdir()
    (files / "a").write_text("content\n")
    script = "cat /opt/ml/fixed/a; (echo x > /opt/ml/fixed/x) 2>/dev/null; echo y > /opt/ml/free/y"
    mounts = (Mount(files, "fixed", read_only=True), Mount(files, "free", read_only=False))
    handle = user.start("mounts", script, mounts=mounts)
    assert user.text(handle) == ["content"]
    assert sorted(os.listdir(files)) == ["a", "y"]


def has_an_environment_of_its_own(user: User) -> None:
    """The server's packages are read-only for a user's hosts, even if the user may write them."""
    packages = user.directory / "lib" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "module.py").write_text("")
    base_packages.described()["read_only"].append(str(packages))
    python = "python3 -c 'import os, sys; print(sys.prefix == os.environ[\"VIRTUAL_ENV\"])'"
    handle = user.start("environment", f"{python}; (echo x > {packages}/module.py) 2>/dev/null || echo refused")
    assert user.text(handle) == ["True", "refused"]
    assert (packages / "module.py").read_text() == ""


def main() -> None:
    assert os.geteuid() != 0
    user = User(Path(sys.argv[1]))
    assert user.runtime.namespaces() == "user", "this kernel gives ordinary users no namespaces"
    for holds in (
        sees_its_own_opt_ml,
        handles_the_request_to_stop,
        is_ended_by_force,
        is_isolated_from_the_network,
        cannot_write_what_is_read_only,
        has_a_cache,
        sees_directories_of_the_machine,
        has_an_environment_of_its_own,
    ):
        holds(user)
    print("all of it holds")


if __name__ == "__main__":
    main()
