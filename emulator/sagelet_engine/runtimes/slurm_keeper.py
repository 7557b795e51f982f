"""The task of one node of an allocation: finds out which host it is, and keeps that host (`host_shim`) to its end.

Run by srun as `python -I -S slurm_keeper.py ALLOCATION_DIRECTORY`; standard library only. All of a host's files are on
the file system that the nodes share with the server.

Requests come as bytes that are appended to the host's `control` file, so a host can be stopped while Slurm's controller
is away, and only its command hears of it; Slurm itself signals every process of the task, the command among them.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

# `-I -S` knows neither the package nor site-packages: only the former is wanted here.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sagelet_engine.runtimes import host_files, host_plan, host_shim, slurm_docker, slurm_images, slurm_usage
from sagelet_engine.runtimes import slurm_files as files
from sagelet_engine.runtimes.host_trial import best_namespaces

POLL_S = 0.25
#: Seconds by which a signal may reach us later than the command: one that ended of it, and one that may have heeded it.
LATE_S, HEEDED_S = 1.0, 0.2
CONTAINERS: dict[str, type[slurm_docker.Container | slurm_images.ImageFile]] = {
    "docker": slurm_docker.Container,
    "apptainer": slurm_images.ImageFile,
    "enroot": slurm_images.ImageFile,
}
REQUESTS = {files.TERMINATE: signal.SIGTERM, files.SLURM_ENDS: signal.SIGTERM, files.KILL: signal.SIGUSR1}


class Control(host_shim.Requests):
    """Opens the control file anew each time: an open file of NFS would not show what another machine appends."""

    def __init__(self, container_of: Callable[[], int] = int, patience: float | None = None) -> None:
        """`container_of`: the first process of a container that is no descendant of ours; 0: there is none.

        `patience`: seconds from Slurm's own signal to the end of such a one, which Slurm would not kill with us.
        """
        self._container_of = container_of
        self._patience = patience
        self._ends_at: float | None = None
        self._read = 0
        self._heard = ""

    def next(self) -> int:
        while True:
            if self._ends_at is not None and time.monotonic() >= self._ends_at:
                self._ends_at = None
                return host_shim.FORCE
            caught = signal.sigtimedwait(host_shim.WATCHED, POLL_S)
            if caught is not None:
                return self._signalled(caught.si_signo)
            with open(files.CONTROL) as file:
                request = file.read()[self._read : self._read + 1]
            self._read += len(request)
            if request == files.MEASURE:
                slurm_usage.write(self._container_of())
            elif request:
                self._heard += request
                return REQUESTS[request]

    def _signalled(self, number: int) -> int:
        if number not in host_shim.FORWARDED:
            return number
        if self._patience is not None and files.SIGNAL not in self._heard:
            self._ends_at = time.monotonic() + self._patience
        self._heard += files.SIGNAL
        # Whoever sent it to us has sent it to the command, too.
        return signal.SIGCHLD

    def heard(self, code: int | None) -> dict[str, Any]:
        # Slurm signals the processes of a task one by one: the command may have ended of it before we are told.
        late = LATE_S if code == 128 + signal.SIGTERM else HEEDED_S
        if not self._heard and signal.sigtimedwait(host_shim.FORWARDED, late):
            self._heard = files.SIGNAL
        return {files.HEARD: self._heard}


def main(allocation: str) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, host_shim.WATCHED)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # an ignored signal is not kept for sigwait everywhere
    go = host_files.read_json(os.path.join(allocation, files.GO))
    assert go is not None, f"no {files.GO} in {allocation}"
    number = int(os.environ["SLURM_NODEID"])
    addresses = dict(zip(go["hosts"], addresses_of_nodes(allocation), strict=True))
    os.chdir(go["run_dirs"][number])
    plan = host_files.read_json(host_files.PLAN)
    assert plan is not None, f"no {host_files.PLAN} in {os.getcwd()}"
    if os.path.exists(host_files.STARTED):
        return 0
    plan = finished(plan, addresses)
    if plan["container"] is None:
        return host_shim.run(plan, lambda: None, Control())
    container = CONTAINERS[plan["container"]["engine"]](plan)
    control = Control(container.root, plan["container"]["patience"])
    return host_shim.run(container.prepared(), lambda: None, control, container)


def finished(plan: dict[str, Any], addresses: dict[str, str]) -> dict[str, Any]:
    """The plan with what only the node knows."""
    # There is nobody else in a network of one's own, and no address of the node's.
    plan["hosts"] = dict.fromkeys(addresses, "127.0.0.1") if plan["isolate_network"] else addresses
    if plan["container"] is not None:
        return {**plan, "namespaces": "container"}
    if plan["gpus"]:
        # Slurm has chosen them.
        plan["environment"]["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    namespaces = best_namespaces(isolate_network=plan["isolate_network"])
    if plan["isolate_network"] and namespaces == "none":
        return {**plan, "namespaces": namespaces, "refused": "EnableNetworkIsolation: this node cannot isolate a task"}
    return host_plan.settled(plan, namespaces)


def addresses_of_nodes(allocation: str) -> list[str]:
    """By SLURM_NODEID. Slurm's NodeAddr, where it is a name, as this node resolves it."""
    with open(os.path.join(allocation, files.ADDRESSES)) as file:
        known = dict(line.split() for line in file if line.strip())
    with open(os.path.join(allocation, files.NODES)) as file:
        names = file.read().split()
    return [str(socket.getaddrinfo(known[name], None, socket.AF_INET)[0][4][0]) for name in names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
