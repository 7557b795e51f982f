"""The process runtime: each host is a process tree of this machine.

A shim (`host_shim.py`) holds each tree and outlives the server.

The state of a host is in the files of its `run_dir` (`host_files.py`); `state_dir` maps a job id to them. Memory and
shared memory are the machine's own: their limits are not enforced. The number of processes is limited where the system
can do that (`host_limits.py`).
"""

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from sagelet_engine.base import held_files, json_files, nofollow
from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import ClientFault, RuntimeUnavailable
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.model.runtime import Capabilities, Handle, HostPlan, LaunchPlan, Line, Observation, Usage
from sagelet_engine.runtimes.file_follower import follow
from sagelet_engine.runtimes.node import host_end, host_files, host_limits, host_packages, host_plan, run_dirs
from sagelet_engine.runtimes.node.host_environment import addresses_of
from sagelet_engine.runtimes.node.host_trial import Namespaces, best_namespaces, namespaces_work, shim_command
from sagelet_engine.runtimes.ports import PortLeases

log = logging.getLogger(__name__)

#: Seconds that a shim has to start its host, and to end a host that is killed. It kills for 10 s at most.
START_TIMEOUT_S = END_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class StandIn:
    """The Python environment that takes the training image's place in a runtime without images."""

    #: Takes the place of the image's `train`.
    command: tuple[str, ...]
    #: PYTHONPATH of what the command imports.
    python_path: str = ""
    #: The only image that this environment replaces.
    image: str = ""
    #: Maps each variant of the image to True if this environment has that variant's packages.
    variants: Mapping[str, bool] = field(default_factory=dict)
    #: The directory that keeps packages which jobs install from a requirements file, or None if none are kept.
    keep: Path | None = None
    #: Modules of the image that are not installed here.
    missing: tuple[str, ...] = ()

    @property
    def can_train(self) -> bool:
        """True if all is installed that any training job needs. Only jobs that XLA compiles need torch_xla, too."""
        return set(self.missing) <= {"torch_xla"}


def has_stand_in_for(stand_in: StandIn, image: str) -> bool:
    """True if the stand-in has the image's packages. Raises ClientFault for an image that it does not replace."""
    if image in stand_in.variants:
        return stand_in.variants[image] and stand_in.can_train
    if image != stand_in.image:
        raise ClientFault(
            f"The process runtime stands in for {stand_in.image} only and cannot run {image}: "
            "start a Docker Engine and use `sagelet up --runtime docker`"
        )
    if not stand_in.can_train:
        raise ClientFault(
            f"The process runtime cannot train: {', '.join(stand_in.missing)} not installed. "
            "Run `sagelet install-torch` and start the server again, or use Docker"
        )
    return True


GPU_REMEDY = (
    "install `jax-cuda13-plugin[with-cuda]`, or jax-cuda12-plugin for a driver older than 580, into sagelet's "
    "environment, and start the server again"
)


class ProcessRuntime:
    """Runs hosts as process trees."""

    name = "process"
    awaits_time = True
    endpoint_host = "127.0.0.1"
    cluster = None

    def __init__(
        self,
        state_dir: Path,
        stand_in: StandIn,
        clock: Clock,
        *,
        namespaces: Namespaces | None = None,
    ) -> None:
        self._state_dir = state_dir
        self._stand_in = stand_in
        self._clock = clock
        self._namespaces = namespaces
        self._can_isolate: bool | None = None
        self._probing = threading.Lock()
        self._ports = PortLeases(state_dir / "ports")

    def namespaces(self) -> Namespaces:
        """Returns the namespaces that this machine allows. The first call tries them out."""
        with self._probing:
            self._namespaces = self._namespaces or best_namespaces()
            return self._namespaces

    def has_image(self, image: str) -> bool:
        """Raises ClientFault for any image except the training image, for which this runtime stands in."""
        return has_stand_in_for(self._stand_in, image)

    def launch(self, plan: LaunchPlan) -> list[Handle]:
        """See the port. Raises ClientFault if the job asks for more isolation than processes can give."""
        if plan.network_isolation:
            self._check_isolation(plan)
        master_port = self._ports.lease(plan.job_id)
        return [self._launch_host(plan, host, master_port) for host in plan.hosts]

    def find(self, job_id: str) -> list[Handle]:
        handles = []
        for entry in sorted(self._index(job_id).glob("*.json")):
            known = json_files.read_json(entry)
            if known is None:  # it was reaped after the directory was listed
                continue
            run_dir = run_dirs.found(known, self._state_dir.parent)
            if (run_dir / host_files.STARTED).exists() or held_files.is_locked(run_dir / host_files.LOCK):
                handles.append(self._started(known["host"], run_dir))
        return handles

    def observe(self, handle: Handle) -> Observation:
        run_dir = Path(handle.ref)
        if (ended := _ended(run_dir)) is not None:
            return ended
        if held_files.is_locked(run_dir / host_files.LOCK):
            return Observation(running=True)
        # The shim writes exit.json before it frees the lock, so look again before calling it dead.
        return _ended(run_dir) or self._bury(run_dir)

    def usage(self, handle: Handle) -> Usage | None:
        started = json_files.read_json(Path(handle.ref, host_files.STARTED))
        if started is None or not self.observe(handle).running:
            return None
        # Imported here because it loads psutil, which is needed only for this call.
        from sagelet_engine.runtimes.process import usage as process_usage

        return process_usage.below(started["pid"])

    def lines(self, handle: Handle, position: str | None) -> Iterator[list[Line]]:
        output = Path(handle.ref, host_files.OUTPUT)
        return follow(output, position, lambda: not self.observe(handle).running, self._clock)

    def stop(self, handle: Handle, *, force: bool = False) -> None:
        run_dir = Path(handle.ref)
        started = json_files.read_json(run_dir / host_files.STARTED)
        if started is None or not self.observe(handle).running:
            return
        # The lock is held, so the shim lives and the process id is still its own.
        with contextlib.suppress(ProcessLookupError):
            os.kill(started["pid"], signal.SIGUSR1 if force else signal.SIGTERM)

    @property
    def capabilities(self) -> Capabilities:
        # Without mount namespaces, file modes alone do not stop a determined script.
        return Capabilities(GPU_REMEDY, binds_read_only=self.namespaces() != "none")

    def reap(self, job_id: str) -> None:
        handles = self.find(job_id)
        for handle in handles:
            self.stop(handle, force=True)
        for handle in handles:
            self._await_end(handle)
            # A shim that was killed meanwhile could neither end its host nor remove the packages.
            self.observe(handle)
            shutil.rmtree(Path(handle.ref, host_packages.DIRECTORY), ignore_errors=True)
        failpoint(Failpoint.BEFORE_REAP)
        shutil.rmtree(self._index(job_id), ignore_errors=True)
        self._ports.release(job_id)

    def _await_end(self, handle: Handle) -> None:
        """Waits until the shim has ended. Until then it writes into its directory, which the caller may remove next."""
        deadline = time.monotonic() + END_TIMEOUT_S
        while held_files.is_locked(Path(handle.ref, host_files.LOCK)):
            if time.monotonic() > deadline:
                raise RuntimeUnavailable(f"{handle.host} was killed, and did not end within {END_TIMEOUT_S:.0f} s")
            time.sleep(0.005)

    def jobs(self) -> set[str]:
        with contextlib.suppress(FileNotFoundError):
            return {unquote(name) for name in os.listdir(self._state_dir / "hosts")}
        return set()

    def end_lost(self, *, dry_run: bool = False) -> list[str]:  # noqa: ARG002 - the port's
        return []  # Its hosts are processes of this machine: execution/orphans.py finds them.

    def _index(self, job_id: str) -> Path:
        return self._state_dir / "hosts" / quote(job_id, safe="")

    def _check_isolation(self, plan: LaunchPlan) -> None:
        if len(plan.hosts) > 1:
            raise ClientFault(
                "EnableNetworkIsolation with more than one instance needs the docker runtime: "
                "isolated processes cannot reach each other. Start sagelet with --runtime docker."
            )
        namespaces = self.namespaces()
        if self._can_isolate is None:
            self._can_isolate = namespaces != "none" and namespaces_work(namespaces, isolate_network=True)
        if not self._can_isolate:
            raise ClientFault(
                "EnableNetworkIsolation: the process runtime cannot isolate the network on this machine. "
                "Start sagelet with --runtime docker, or submit the job without network isolation."
            )

    def _launch_host(self, plan: LaunchPlan, host: HostPlan, master_port: int) -> Handle:
        host.run_dir.mkdir(parents=True, exist_ok=True)
        if not (host.run_dir / host_files.STARTED).exists():
            self._write_plan(plan, host, master_port)
            failpoint(Failpoint.BEFORE_HOST)
            self._start_shim(host)
            failpoint(Failpoint.AFTER_HOST)
        return self._started(host.name, host.run_dir)

    def _write_plan(self, plan: LaunchPlan, host: HostPlan, master_port: int) -> None:
        image = self._stand_in
        content = host_plan.described(
            plan, host, image.command, image.python_path, os.environ, master_port, addresses_of(plan), image.keep
        )
        content = host_plan.with_namespaces(content, self.namespaces())
        json_files.write_json(host.run_dir / host_files.PLAN, content)
        (host.run_dir / host_files.OUTPUT).touch(mode=0o600)
        self._index(plan.job_id).mkdir(parents=True, exist_ok=True)
        entry = self._index(plan.job_id) / f"{quote(host.name, safe='')}.json"
        json_files.write_json(entry, {"host": host.name, **run_dirs.noted(host.run_dir, self._state_dir.parent)})

    def _start_shim(self, host: HostPlan) -> None:
        """Starts the shim and waits until it runs. A shim that runs already is left alone."""
        command = shim_command(str(host.run_dir.absolute()))
        with (host.run_dir / host_files.SHIM_LOG).open("ab") as log:
            first = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            status = first.wait(START_TIMEOUT_S)
        except subprocess.TimeoutExpired as error:
            raise RuntimeUnavailable(f"{host.name} did not start within {START_TIMEOUT_S:.0f} s") from error
        if status not in (host_files.READY, host_files.IN_USE, host_files.ALREADY_STARTED):
            raise RuntimeUnavailable(f"{host.name} could not be started: {_last_words(host.run_dir)}")

    def _started(self, name: str, run_dir: Path) -> Handle:
        """Returns the handle of a host whose shim runs. `started.json` may be about to be written."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while (started := json_files.read_json(run_dir / host_files.STARTED)) is None:
            if time.monotonic() > deadline:
                raise RuntimeUnavailable(f"{name} did not start within {START_TIMEOUT_S:.0f} s: {_last_words(run_dir)}")
            time.sleep(0.01)
        return Handle(name, str(run_dir), started["started_ms"])

    def _bury(self, run_dir: Path) -> Observation:
        """Kills the processes of a host whose shim was killed, and writes the host's end in the shim's place."""
        started = json_files.read_json(run_dir / host_files.STARTED)
        if started is None:
            return Observation(running=False, error="the host was never started")
        if _is_of(started, run_dir):
            host_files.kill_by_cookie(started["cookie"])
            host_limits.remove_left(host_limits.group_of(started["cookie"]))
            error = f"the host's shim ended unexpectedly. {_last_words(run_dir)}"
        else:
            error = "the host runs in the data directory that this one is a copy of"
        ended = Observation(running=False, error=error, finished_ms=self._clock.now_ms())
        try:
            json_files.write_json(run_dir / host_files.EXIT, asdict(ended))
        except OSError as failed:
            # The next call finds the same state and tries again.
            log.warning("the end of a host cannot be noted: %s", failed)
        return ended


def _is_of(started: Mapping[str, Any], run_dir: Path) -> bool:
    """True if a host was started in this directory. False if in another directory, of which this one is a copy."""
    status = run_dir.stat()
    # An older shim did not note its directory; its host counts as started here.
    return list(started.get("directory", (status.st_dev, status.st_ino))) == [status.st_dev, status.st_ino]


def _ended(run_dir: Path) -> Observation | None:
    found = host_end.ended(run_dir)
    return None if found is None else found[0]


def _last_words(run_dir: Path) -> str:
    """Returns the last 2,000 characters that the shim itself printed: a traceback, or nothing."""
    said = nofollow.read(run_dir, host_files.SHIM_LOG, 1024**2) or b""
    return said.decode(errors="replace").strip()[-2000:]
