"""The task of one node of an allocation: finds out which host it is, and runs that host (`host_shim.py`) to its end.

srun runs it as `python -I -S shim.py ALLOCATION_DIRECTORY`; standard library only. All files of a host are on the
file system that the nodes share with the server.

Requests are bytes that are appended to the host's `control` file. So a host can be stopped while Slurm's controller is
away, and the request reaches only its command. A signal from Slurm would reach every process of the task.
"""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable

# `-I -S` hides both this package and site-packages; only this package is wanted here.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from sagelet_engine.base import json_files
from sagelet_engine.runtimes.node import host_files, host_plan, host_shim
from sagelet_engine.runtimes.node.host_trial import best_namespaces
from sagelet_engine.runtimes.node.plan import End, Plan, read_plan
from sagelet_engine.runtimes.slurm import docker as slurm_docker
from sagelet_engine.runtimes.slurm import files
from sagelet_engine.runtimes.slurm import images as slurm_images
from sagelet_engine.runtimes.slurm import usage as slurm_usage

POLL_S = 0.25
#: Seconds by which a signal may reach the shim later than the command: LATE_S if the command ended because of it,
#: HEEDED_S if the command may have handled it.
LATE_S, HEEDED_S = 1.0, 0.2
CONTAINERS: dict[str, type[slurm_docker.Container | slurm_images.ImageFile]] = {
    "docker": slurm_docker.Container,
    "apptainer": slurm_images.ImageFile,
    "enroot": slurm_images.ImageFile,
}
REQUESTS = {files.TERMINATE: signal.SIGTERM, files.SLURM_ENDS: signal.SIGTERM, files.KILL: signal.SIGUSR1}


class Control(host_shim.Requests):
    """Reads requests from the control file. It opens the file each time, since an open file of NFS shows no appends."""

    def __init__(self, container_of: Callable[[], int] = int, patience: float | None = None) -> None:
        """`container_of` gives the first process of a container that does not descend from this one, or 0.

        `patience`: seconds from Slurm's own signal to the end of such a container, which Slurm would not kill with this
        task.
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
        # The command got the signal, too.
        return signal.SIGCHLD

    def heard(self, code: int | None) -> End:
        # Slurm signals the processes of a task one by one, so the command may have ended before the signal arrives
        # here.
        late = LATE_S if code == 128 + signal.SIGTERM else HEEDED_S
        if not self._heard and signal.sigtimedwait(host_shim.FORWARDED, late):
            self._heard = files.SIGNAL
        return {"heard": self._heard}


def main(allocation: str) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, host_shim.WATCHED)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # some systems do not keep an ignored signal for sigwait
    go = json_files.read_json(os.path.join(allocation, files.GO))
    assert go is not None, f"no {files.GO} in {allocation}"
    number = int(os.environ["SLURM_NODEID"])
    addresses = dict(zip(go["hosts"], addresses_of_nodes(allocation), strict=True))
    os.chdir(go["run_dirs"][number])
    plan = read_plan()
    assert plan is not None, f"no {host_files.PLAN} in {os.getcwd()}"
    if os.path.exists(host_files.STARTED):
        return 0
    plan = finished(plan, addresses)
    wanted = plan["container"]
    if wanted is None:
        return host_shim.run(plan, lambda: None, Control())
    container = CONTAINERS[wanted["engine"]](plan)
    control = Control(container.root, wanted["patience"])
    return host_shim.run(container.prepared(), lambda: None, control, container)


def finished(plan: Plan, addresses: dict[str, str]) -> Plan:
    """Completes the plan with what only the node knows."""
    # An isolated network has neither the other hosts nor the node's address.
    plan["hosts"] = dict.fromkeys(addresses, "127.0.0.1") if plan["isolate_network"] else addresses
    if plan["container"] is not None:
        return {**plan, "namespaces": "container"}
    if plan["gpus"]:
        # Slurm has chosen the GPUs.
        plan["environment"]["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    namespaces = best_namespaces(isolate_network=plan["isolate_network"])
    if plan["isolate_network"] and namespaces == "none":
        return {**plan, "namespaces": namespaces, "refused": "EnableNetworkIsolation: this node cannot isolate a task"}
    return host_plan.with_namespaces(plan, namespaces)


def addresses_of_nodes(allocation: str) -> list[str]:
    """Returns addresses by SLURM_NODEID. If Slurm's NodeAddr is a name, this node resolves it."""
    with open(os.path.join(allocation, files.ADDRESSES)) as file:
        known = dict(line.split() for line in file if line.strip())
    with open(os.path.join(allocation, files.NODES)) as file:
        names = file.read().split()
    return [str(socket.getaddrinfo(known[name], None, socket.AF_INET)[0][4][0]) for name in names]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
