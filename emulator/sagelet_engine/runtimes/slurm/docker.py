"""Runs a host as a container of its node's own Docker Engine, for the shim of the node. Standard library only.

The container is a process of the daemon, not of Slurm's step, so neither Slurm's signals nor its limits reach it. The
attached client passes signals on; the limits are given to the container again. One of these removes the container:
its shim, at the container's end or shortly before Slurm would kill the shim; the allocation's script, if a shim was
killed (`python -I -S docker.py OWNER`); or this server's next shim on the node.
"""

import contextlib
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

# `-I -S` hides both this package and site-packages; only this package is wanted here.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.runtime import SCRATCH
from sagelet_engine.runtimes.node import confinement, host_files, host_shim
from sagelet_engine.runtimes.node.plan import Container as Wanted
from sagelet_engine.runtimes.node.plan import End, Plan, container_of

User = confinement.User
#: Differs from the docker runtime's labels, so that a server with both runtimes does not confuse their containers.
LABEL = "org.sagelet.slurm."
OWNER, LAUNCH, JOB_NAME, HOST, NUMBER = (f"{LABEL}{name}" for name in ("owner", "launch-id", "job-name", "host", "job"))
ENVIRONMENT = "container.env"
#: Seconds to wait for the daemon's answer. It may be busy with other requests.
TIMEOUT_S = 120
#: Seconds from the start of the client to the start of the container.
START_S = 30.0


class DockerFault(Exception):
    """`docker` failed. The message is what `docker` printed."""


class Container(host_shim.Body):
    """The container of the plan of one host.

    `docker run` is the client, since `docker start --attach` of Docker 28 ends on a SIGTERM.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._wanted = container_of(plan)
        self._name = self._wanted["name"]
        self._has_client = False

    def prepared(self) -> Plan:
        """Returns the plan with the container's client as its command, or with the reason why there is no client."""
        plan, container = self._plan, self._wanted
        try:
            refused = self._refused()
            if refused is not None:
                return {**plan, "refused": refused}
            remove_left(container["labels"][OWNER])
            user = _user(container)
            _give(container, user)
            command = [_client(), *options(plan, os.environ, user, _configuration_of(container["image"]))]
        except DockerFault as fault:
            return {**plan, "failed": f"Docker on {_node()}: {fault}"}
        with open(ENVIRONMENT, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.writelines(f"{name}={value}\n" for name, value in plan["environment"].items() if "\n" not in value)
        lines = {name: value for name, value in plan["environment"].items() if "\n" in value}
        self._has_client = True
        return {**plan, "command": command, "environment": {**os.environ, **lines}, "directory": os.getcwd()}

    def terminate(self, child: int) -> None:
        """Signals the container directly, since the client passes no signal on before the container runs."""
        deadline = time.monotonic() + START_S
        while self._is_to_start() and time.monotonic() < deadline:
            if child not in host_files.descendants(os.getpid()):
                return
            time.sleep(0.1)
        self._signal("TERM")

    def kill(self, child: int) -> None:
        """Kills the container. The client ends with it; killing the client would leave the container's state open."""
        if not self._signal("KILL"):
            super().kill(child)

    def end(self, code: int | None, error: str | None) -> End:
        if not self._has_client:
            return super().end(code, error)
        os.unlink(ENVIRONMENT)
        try:
            state = self._state()
            _docker("rm", "--force", "--volumes", self._name)
        except DockerFault as fault:
            return super().end(None, f"Docker on {_node()}: {fault}. {_last_words()}")
        shutil.rmtree(SCRATCH, ignore_errors=True)
        if state["Status"] == "created" and not state["Error"]:
            # The client was killed before it could start the container.
            return super().end(code, error)
        if state["Running"]:
            return super().end(None, f"docker's client on {_node()} ended before its container did")
        return {**super().end(state["ExitCode"], state["Error"] or error), "out_of_memory": state["OOMKilled"]}

    def root(self) -> int:
        """Returns the container's first process, as the node sees it, or 0 if there is none."""
        try:
            return int(self._state()["Pid"])
        except DockerFault:
            return 0

    def _refused(self) -> str | None:
        if shutil.which("docker") is None:
            return f"docker is not installed on {_node()}"
        if self._plan["gpus"] and not gpus_given(os.environ):
            return f"Slurm does not say which GPUs of {_node()} are the job's (gres.conf needs their files)"
        image = self._wanted["image"]
        try:
            _docker("image", "inspect", "--format", "{{.Id}}", image)
        except DockerFault as fault:
            if "no such image" not in str(fault).lower():
                raise
            return f"{_node()} has no image {image}: `docker pull` or `docker load` it on every node that may get jobs"
        return None

    def _signal(self, name: str) -> bool:
        """Sends a signal. False if the container does not run, or the engine does not answer."""
        try:
            _docker("kill", f"--signal={name}", self._name)
        except DockerFault:
            return False
        return True

    def _is_to_start(self) -> bool:
        try:
            return bool(self._state()["Status"] == "created")
        except DockerFault:  # the container does not exist
            return True

    def _state(self) -> JsonObject:
        state: JsonObject = json.loads(_docker("container", "inspect", "--format", "{{json .State}}", self._name))
        return state


def options(plan: Plan, slurm: Mapping[str, str], user: User | None, image: JsonObject) -> list[str]:
    """Returns docker's command line for a container that is hardened like the docker runtime's.

    `slurm`: the variables of the step. `image`: its Config, as Docker inspects it.
    """
    container = container_of(plan)
    isolated, read_only = plan["isolate_network"], container["read_only"]
    defaults = confinement.environment(read_only=read_only, user=user, path=confinement.path_of(image.get("Env")))
    directory = confinement.working_directory(image.get("WorkingDir"), read_only=read_only)
    found = [
        "run", f"--name={container['name']}", f"--hostname={plan['hostname']}",
        # The hosts of several nodes reach each other by the nodes' own addresses.
        f"--network={'none' if isolated else 'host'}",
        *confinement.flags(
            confinement.hardening(
                processes=plan["most_processes"], shm_bytes=container["shm_bytes"], read_only=read_only
            )
        ),
        # The shim keeps the output.
        "--log-driver=none", "--pull=never", f"--env-file={ENVIRONMENT}",
    ]  # fmt: skip
    # The file cannot hold values with line ends. Docker takes these from the client's environment.
    found += [f"--env={name}" for name, value in plan["environment"].items() if "\n" in value]
    labels = {**container["labels"], NUMBER: slurm["SLURM_JOB_ID"]}
    found += [f"--label={name}={value}" for name, value in labels.items()]
    found += [f"--add-host={name}:{address}" for name, address in plan["hosts"].items()]
    found += [f"--mount={mount_option(*mount)}" for mount in container["mounts"]]
    scratch = confinement.scratch_mounts(Path(SCRATCH).absolute()) if read_only else []
    found += [f"--mount={mount_option(*mount, read_only=False)}" for mount in scratch]
    found += _limits(container["memory_bytes"], container["cpus"], slurm)
    if plan["gpus"]:
        found.append(f'--gpus="device={gpus_given(slurm)}"')
    found += [] if user is None else [f"--user={user}"]
    found += [] if directory is None else [f"--workdir={directory}"]
    found += [f"--env={name}={value}" for name, value in defaults.items() if name not in plan["environment"]]
    entrypoint = container["entrypoint"]
    if entrypoint is None:
        return [*found, container["image"], *container["arguments"]]
    return [*found, f"--entrypoint={entrypoint[0]}", container["image"], *entrypoint[1:], *container["arguments"]]


def mount_option(source: str, target: str, read_only: bool) -> str:
    """Returns a mount for docker and apptainer: a line of CSV, so a path may hold a comma or a quotation mark."""
    line = io.StringIO()
    fields = ["type=bind", f"source={source}", f"destination={target}", *(["ro"] if read_only else [])]
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()


def gpus_given(slurm: Mapping[str, str]) -> str:
    """Returns the indices, as the node counts them, of the GPUs that this Slurm step has.

    CUDA_VISIBLE_DEVICES counts from 0 if Slurm hides the other GPUs (srun(1), SLURM_STEP_GPUS: "The global GPU IDs of
    the GPUs allocated to this step ... are not relative to any device cgroup").
    """
    names = ("SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES")
    return next((slurm[name] for name in names if slurm.get(name)), "")


def _user(container: Wanted) -> User | None:
    return confinement.user_of(rootless=os.getuid() != 0 and _is_rootless(), as_root=container["as_root"])


def _give(container: Wanted, user: User | None) -> None:
    """Gives the host's files to the user of its container. Raises DockerFault."""
    try:
        if container["read_only"]:
            confinement.make_scratch(Path(SCRATCH).absolute(), user)
        confinement.give([Path(one) for one in container["own"]], user, [Path(one) for one in container["linked"]])
    except (confinement.CannotGive, OSError) as error:
        raise DockerFault(str(error)) from error


def _limits(memory_bytes: int | None, vcpus: int | None, slurm: Mapping[str, str]) -> list[str]:
    """Returns the container's limits. Slurm's limits bind only the processes of its own step."""
    megabytes = int(slurm.get("SLURM_MEM_PER_NODE", 0)) or (
        int(slurm.get("SLURM_MEM_PER_CPU", 0)) * int(slurm.get("SLURM_CPUS_ON_NODE", 0))
    )
    bounds = [bound for bound in (memory_bytes, megabytes * 1024**2) if bound]
    memory = confinement.memory_of(min(bounds, default=None), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    cpus = os.sched_getaffinity(0)
    return [
        *confinement.flags(confinement.limits(memory, confinement.cpus_of(vcpus, len(cpus)))),
        *([f"--cpuset-cpus={','.join(map(str, sorted(cpus)))}"] if len(cpus) < (os.cpu_count() or 1) else []),
    ]


def remove(owner: str, number: str) -> None:
    """Removes what is left of a Slurm job on this node. Raises DockerFault."""
    for container, job in _containers(owner).items():
        if job == number:
            _forget(container)


def remove_left(owner: str) -> None:
    """Removes what is left of jobs that have no living process on this node."""
    left = _containers(owner)
    if left:
        alive = _jobs_here()
        for container, job in left.items():
            if job not in alive:
                _forget(container)


def _containers(owner: str) -> dict[str, str]:
    """Returns this owner's containers on this node, with the numbers of their Slurm jobs."""
    shape = f'{{{{.ID}}}} {{{{.Label "{NUMBER}"}}}}'
    said = _docker("ps", "--all", "--no-trunc", f"--filter=label={OWNER}={owner}", f"--format={shape}")
    return dict(line.split(maxsplit=1) for line in said.splitlines() if " " in line.strip())


def _forget(container: str) -> None:
    # Another process may be removing it, too.
    with contextlib.suppress(DockerFault):
        _docker("rm", "--force", "--volumes", container)


def _jobs_here() -> set[str]:
    """Returns the Slurm jobs that have a process of this user on this machine."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isascii() and name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                found |= {part[13:].decode() for part in file.read().split(b"\0") if part.startswith(b"SLURM_JOB_ID=")}
    return found


def _configuration_of(image: str) -> JsonObject:
    """Returns the image's Config."""
    said: JsonObject = json.loads(_docker("image", "inspect", "--format", "{{json .Config}}", image))
    return said


def _is_rootless() -> bool:
    """True for a rootless engine, in whose containers root is this user already."""
    return "rootless" in _docker("info", "--format", "{{.SecurityOptions}}")


def _last_words() -> str:
    """Returns the end of the client's output."""
    with open(host_files.OUTPUT, errors="replace") as file:
        return file.read()[-300:].strip()


def _node() -> str:
    return os.environ.get("SLURMD_NODENAME", "this node")


def _client() -> str:
    return shutil.which("docker") or "docker"


def _docker(*arguments: str) -> str:
    """Runs docker and returns its output. Raises DockerFault."""
    try:
        done = subprocess.run(
            [_client(), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise DockerFault(f"no answer within {TIMEOUT_S} s") from None
    except OSError as error:
        raise DockerFault(str(error)) from None
    if done.returncode != 0:
        raise DockerFault(done.stderr.strip().removeprefix("Error response from daemon: ")[-500:])
    return done.stdout


if __name__ == "__main__":
    # The cleaning is short, and no signal may interrupt it.
    signal.pthread_sigmask(signal.SIG_BLOCK, host_shim.FORWARDED)
    remove(sys.argv[1], os.environ["SLURM_JOB_ID"])
