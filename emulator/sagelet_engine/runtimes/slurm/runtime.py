"""The slurm runtime: a job is an allocation of a cluster's nodes, a host is a task on one of them.

Slurm reports the state of an allocation (`queue.py`). Files of hosts and allocations on the shared file system report
what the hosts do (`files.py`, `host_files.py`). If a host left no `exit.json`, Slurm's last state of the job decides.
"""

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from sagelet_engine.base import json_files, nofollow
from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.model.cluster import AllocationRequest
from sagelet_engine.model.runtime import Capabilities, Handle, HostPlan, LaunchPlan, Line, Observation, Usage
from sagelet_engine.runtimes.file_follower import follow
from sagelet_engine.runtimes.node import host_end, host_files, run_dirs
from sagelet_engine.runtimes.ports import PortLeases
from sagelet_engine.runtimes.slurm import files
from sagelet_engine.runtimes.slurm import task as slurm_task
from sagelet_engine.runtimes.slurm.end import Ended, end_of
from sagelet_engine.runtimes.slurm.queue import HOLDING, UNDER_WAY, WAITING, SlurmQueue

#: Seconds after the end of an allocation in which a host's `exit.json` may still be on its way through NFS.
FINAL_S = 3.0
#: Seconds for a shim to obey a request. Then Slurm is asked to end the job.
SHIM_S = 20.0
#: Seconds for a shim to report what its host uses.
ANSWER_S = 3.0
#: Seconds after the end of its hosts until an allocation that has not ended by itself is cancelled.
LEAVE_S = 10.0
#: Seconds until the first look if such an allocation has ended. Each next pause is twice as long.
LEAVE_LOOK_S = 0.25
#: Seconds between two looks at the file of a host's end, while its output is followed.
END_S = 0.25
#: Bytes of an allocation's log that are passed on, and of a host's control file that are read.
MOST_LOG, MOST_ASKED = 1000, 65536


class SlurmRuntime:
    """Hosts as tasks of a Slurm cluster, whose nodes see this server's data directory at the same place."""

    name = "slurm"
    #: Only the node knows whether it can make private mounts.
    capabilities = Capabilities("install it on the nodes", knows_images=False)
    awaits_time = True

    def __init__(
        self, state_dir: Path, queue: SlurmQueue, task: slurm_task.Task, clock: Clock, endpoint_host: str = "127.0.0.1"
    ) -> None:
        """`endpoint_host`: the name by which the nodes reach this machine."""
        self.cluster = queue
        self.endpoint_host = endpoint_host
        self._queue = queue
        self._task = task
        self._clock = clock
        self._data = state_dir.parent
        self._ports = PortLeases(state_dir / "ports")
        self._guard = threading.Lock()
        #: When each allocation was first seen to be over, in this process's monotonic seconds.
        self._over: dict[str, float] = {}
        #: When each host was asked to be killed.
        self._forced: dict[str, float] = {}

    def has_image(self, image: str) -> bool:
        """Raises ClientFault."""
        return self._task.has_image(image)

    def launch(self, plan: LaunchPlan) -> list[Handle]:
        """See the port. Submits an allocation if none was submitted before (`Cluster.submit`)."""
        self._task.check(plan)
        staging = self._queue.staging
        if staging is not None:
            staging.check(plan)
        instances = tuple("" for _ in plan.hosts)
        self._queue.submit(AllocationRequest(plan.job_id, plan.job_name, instances))
        directory = self._queue.directory(plan.job_id)
        if staging is not None:
            staging.nodes_are_known(plan.job_id, directory)
        if not (directory / files.GO).exists():
            self._write(plan, directory)
        if staging is not None:
            staging.bring(plan, directory)
        return self.find(plan.job_id)

    def find(self, job_id: str) -> list[Handle]:
        go = json_files.read_json(self._queue.directory(job_id) / files.GO)
        if go is None:
            return []
        places = [run_dirs.here(path, self._data) for path in go["run_dirs"]]
        pairs = zip(go["hosts"], places, strict=True)
        return [Handle(host, f"{job_id} {run_dir}", go["started_ms"]) for host, run_dir in pairs]

    def jobs(self) -> set[str]:
        return self._queue.jobs()

    def end_lost(self, *, dry_run: bool = False) -> list[str]:  # noqa: ARG002 - the port's
        # Only the nodes know the directory of an allocation of another server.
        return []

    def observe(self, handle: Handle) -> Observation:
        job_id, run_dir = _parts(handle)
        if not run_dir.exists():
            return Observation(running=False, error=f"the files of {handle.host} were removed")
        ended = _ended(run_dir)
        if ended is not None and ended.is_own(_asked(run_dir)):
            return ended.observation
        job = self._queue.job(job_id)
        if job is not None and job.state in WAITING | UNDER_WAY:
            self._insist(job_id, run_dir)
            return Observation(running=True)
        if not self._is_final(job_id):
            return Observation(running=True)
        # The host may have written its end meanwhile. That end counts.
        state = self._queue.accounted(job_id) if job is None else job.state
        return self._bury(run_dir, end_of(_ended(run_dir), job, state, _asked(run_dir), self._log_of(job_id)))

    def usage(self, handle: Handle) -> Usage | None:
        """Asks the shim, and waits for its answer."""
        _, run_dir = _parts(handle)
        if not (run_dir / host_files.STARTED).exists() or (run_dir / host_files.EXIT).exists():
            return None
        if self._queue.staging is not None:
            # The answer would be seconds late.
            return None
        answer = run_dir / files.USAGE
        before = _changed(answer)
        _ask(run_dir, files.MEASURE)
        deadline = time.monotonic() + ANSWER_S
        while _changed(answer) == before and time.monotonic() < deadline:
            time.sleep(0.02)
        return _usage(run_dir)

    def lines(self, handle: Handle, position: str | None) -> Iterator[list[Line]]:
        _, run_dir = _parts(handle)
        return follow(run_dir / host_files.OUTPUT, position, _Rarely(lambda: self._is_down(handle)), self._clock)

    def stop(self, handle: Handle, *, force: bool = False) -> None:
        job_id, run_dir = _parts(handle)
        if (run_dir / host_files.EXIT).exists() or not run_dir.exists():
            return
        _ask(run_dir, files.KILL if force else files.TERMINATE)
        if self._queue.staging is not None:
            self._queue.staging.tell(job_id, run_dir)
        if force:
            with self._guard:
                self._forced.setdefault(handle.ref, time.monotonic())
        if not (self._queue.directory(job_id) / files.CLAIMED).exists():
            # It still waits for its nodes, so it never starts.
            self._queue.cancel(job_id)

    def reap(self, job_id: str) -> None:
        if not self._leaves(job_id):
            self._queue.cancel(job_id)
        if self._queue.staging is not None:
            self._queue.staging.close(job_id)
        shutil.rmtree(self._queue.directory(job_id), ignore_errors=True)
        self._ports.release(job_id)
        with self._guard:
            self._over.pop(job_id, None)
            for ref in [ref for ref in self._forced if ref.startswith(f"{job_id} ")]:
                del self._forced[ref]

    def _write(self, plan: LaunchPlan, directory: Path) -> None:
        """Writes all that the nodes read. `go.json` comes last."""
        port = self._ports.lease(plan.job_id)
        for host in plan.hosts:
            self._write_host(plan, host, port)
        places = [str(host.run_dir.absolute()) for host in plan.hosts]
        (directory / files.CONTROLS).write_text("".join(f"{place}/{files.CONTROL}\n" for place in places))
        names = [host.name for host in plan.hosts]
        json_files.write_json(
            directory / files.GO, {"hosts": names, "run_dirs": places, "started_ms": self._clock.now_ms()}
        )

    def _write_host(self, plan: LaunchPlan, host: HostPlan, port: int) -> None:
        host.run_dir.mkdir(parents=True, exist_ok=True)
        (host.run_dir / host_files.OUTPUT).touch(mode=0o600)
        (host.run_dir / files.CONTROL).touch(mode=0o600)
        json_files.write_json(host.run_dir / host_files.PLAN, self._task.content(plan, host, port))

    def _insist(self, job_id: str, run_dir: Path) -> None:
        """Makes Slurm end the job if a shim did not kill its host when asked, since that shim is dead or stuck."""
        with self._guard:
            asked = self._forced.get(f"{job_id} {run_dir}")
        if asked is not None and time.monotonic() - asked > SHIM_S:
            self._queue.cancel(job_id)

    def _leaves(self, job_id: str) -> bool:
        """True if an allocation ends by itself. If it were cancelled at its end, Slurm's accounts would say so."""
        handles = self.find(job_id)
        if not handles or any(_ended(_parts(handle)[1]) is None for handle in handles):
            return False
        deadline, pause = time.monotonic() + LEAVE_S, LEAVE_LOOK_S
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(pause, left))
            if self._queue.state(job_id) not in HOLDING:
                return True
            pause *= 2
        return False

    def _is_final(self, job_id: str) -> bool:
        with self._guard:
            since = self._over.setdefault(job_id, time.monotonic())
        return time.monotonic() - since >= FINAL_S

    def _bury(self, run_dir: Path, end: Observation) -> Observation:
        """Writes the end down, since Slurm forgets it."""
        end = replace(end, finished_ms=end.finished_ms or self._clock.now_ms())
        json_files.write_json(run_dir / host_files.EXIT, {**asdict(end), host_files.HEARD: ""})
        return end

    def _is_down(self, handle: Handle) -> bool:
        try:
            return not self.observe(handle).running
        except RuntimeUnavailable:
            return False

    def _log_of(self, job_id: str) -> str:
        """Returns the end of what script, srun and shims printed."""
        try:
            with nofollow.open_path(self._queue.directory(job_id) / files.LOG) as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - MOST_LOG))
                return log.read(MOST_LOG).decode(errors="replace").strip()
        except nofollow.NoFile:
            return ""


class _Rarely:
    """Limits a check to one in END_S seconds, since each look at a file may go to the file system's server."""

    def __init__(self, ask: Callable[[], bool]) -> None:
        self._ask = ask
        self._next = 0.0

    def __call__(self) -> bool:
        if time.monotonic() < self._next:
            return False
        self._next = time.monotonic() + END_S
        return self._ask()


def _parts(handle: Handle) -> tuple[str, Path]:
    job_id, _, run_dir = handle.ref.partition(" ")
    return job_id, Path(run_dir)


def _ended(run_dir: Path) -> Ended | None:
    found = host_end.ended(run_dir)
    return None if found is None else Ended(*found)


def _ask(run_dir: Path, request: str) -> None:
    with nofollow.update(run_dir, files.CONTROL, append=True) as control:
        control.write(request.encode())


def _asked(run_dir: Path) -> str:
    with nofollow.open_file(run_dir, files.CONTROL) as control:
        return control.read(MOST_ASKED).decode(errors="replace")


def _usage(run_dir: Path) -> Usage | None:
    """Returns what a shim reports of its host, or None if no shim wrote the answer."""
    try:
        found = nofollow.read_json(run_dir, files.USAGE, host_end.MOST)
        usage = Usage(**found)
    except (ValueError, TypeError):
        return None
    values = asdict(usage).values()
    return usage if all(type(value) in (int, float) and 0 <= value < 2**63 for value in values) else None


def _changed(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_ino
    return 0
