"""A runtime under test for the contract tests, and a function to wait."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sagelet_engine.model.runtime import Handle, HostPlan, LaunchPlan, Line, Observation, Runtime

DEADLINE_S = 120.0
T = TypeVar("T")


def wait_for(what: str, condition: Callable[[], T | None]) -> T:
    """Waits for the first true value of `condition` and returns it. Looks more rarely the longer it waits."""
    begin = time.monotonic()
    while not (value := condition()):
        passed = time.monotonic() - begin
        assert passed < DEADLINE_S, f"{what}: not within {DEADLINE_S:.0f} s"
        time.sleep(max(0.02, min(0.25, passed / 20)))
    return value


@dataclass
class Harness:
    """One runtime under test. Commands are POSIX sh: the Docker image of these tests has nothing else."""

    name: str
    #: Makes a new runtime object, as a restarted server does.
    make: Callable[[], Runtime]
    directory: Path
    image: str = "none"
    jobs: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runtime = self.make()

    def plan(self, script: str, *, hosts: int = 1, **changes: Any) -> LaunchPlan:
        job_id = f"job-{uuid.uuid4().hex}"
        of_hosts = {name: changes.pop(name) for name in ("memory_bytes", "vcpus") if name in changes}
        return LaunchPlan(
            **{
                "job_id": job_id,
                "job_name": "contract-test",
                "image": self.image,
                "hosts": tuple(self._host(job_id, number, **of_hosts) for number in range(1, hosts + 1)),
                "entrypoint": ("/bin/sh", "-c", script),
                "arguments": (),
                "shm_bytes": 64 * 1024**2,
                **changes,
            }
        )

    def _host(self, job_id: str, number: int, **of_host: Any) -> HostPlan:
        name = f"algo-{number}"
        opt_ml = self.directory / job_id / name / "ml"
        opt_ml.mkdir(parents=True)
        return HostPlan(name, opt_ml, self.directory / job_id / name / "run", **of_host)

    def launch_all(self, plan: LaunchPlan) -> list[Handle]:
        self.jobs.append(plan.job_id)
        return self.runtime.launch(plan)

    def launch(self, plan: LaunchPlan) -> Handle:
        (handle,) = self.launch_all(plan)
        return handle

    def start(self, script: str, **changes: Any) -> Handle:
        return self.launch(self.plan(script, **changes))

    def output(self, handle: Handle, position: str | None = None) -> list[Line]:
        """Returns all lines until the host's end, for which it waits.

        As the port demands, the end of the lines counts only once the host is down: Docker closes its log first.
        """
        read: list[Line] = []
        deadline = time.monotonic() + DEADLINE_S
        while True:
            ended = not self.runtime.observe(handle).running
            for batch in self.runtime.lines(handle, read[-1].position if read else position):
                read += batch
                assert time.monotonic() < deadline, f"the host does not end; it said {read[-10:]}"
            if ended:
                return read
            assert time.monotonic() < deadline, f"the host does not end; it said {read[-10:]}"

    def text(self, handle: Handle, position: str | None = None) -> list[str]:
        return [line.text for line in self.output(handle, position)]

    def read_until(self, handle: Handle, text: str) -> list[Line]:
        """Follows until a line says `text`. Fails if the host ends before."""
        read: list[Line] = []
        deadline = time.monotonic() + DEADLINE_S
        for batch in self.runtime.lines(handle, None):
            read += batch
            if any(line.text == text for line in batch):
                return read
            assert time.monotonic() < deadline, f"no line {text!r} in {read}"
        raise AssertionError(f"the host ended without {text!r}: {read}, {self.runtime.observe(handle)}")

    def end(self, handle: Handle) -> Observation:
        def ended() -> Observation | None:
            now = self.runtime.observe(handle)
            return None if now.running else now

        return wait_for("end of the host", ended)

    def run(self, script: str, **changes: Any) -> tuple[list[str], Observation]:
        handle = self.start(script, **changes)
        return self.text(handle), self.end(handle)

    def clean_up(self) -> None:
        for job_id in self.jobs:
            for handle in self.runtime.find(job_id):
                self.runtime.stop(handle, force=True)
                self.end(handle)
            self.runtime.reap(job_id)
