"""Runs a host as a container of apptainer or enroot, from an image file. Standard library only; it runs on the node.

Neither program has a daemon: the container is a descendant of the shim. So Slurm's limits and signals reach it, and no
process of it can be left behind. **Nobody has run this with the real programs**; it follows their sources:

- If apptainer has no terminal, it passes signals on to the container's first process and ends with that process's exit
  code (`prepare_linux.go`: "cases we need to propagate signals to container process: when pgrp == 0 because container
  won't run in a terminal"; `monitor_linux.go`). So a process that Slurm signals gets the signal twice.
- enroot replaces itself by the command with exec (`runtime.sh`: "exec enroot-unshare", "exec enroot-switchroot"), so
  the command itself gets a SIGTERM. pyxis runs enroot inside a Slurm step. Here that would be a step of an `srun`
  of its own, which kills its tasks when it gets a SIGTERM (Slurm 22.05: "srun: forcing job termination ... Killed").
"""

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence

from sagelet_engine.runtimes.node import host_shim
from sagelet_engine.runtimes.node.plan import End, Plan, container_of
from sagelet_engine.runtimes.slurm.docker import mount_option

HOSTS = "hosts"
#: Names in the host's `run_dir`: the container's directory for /tmp and the like, its environment, and how it starts.
SCRATCH, ENVIRONMENT, CONFIGURATION, COMMAND = "scratch", "container.env", "container.conf", "container.rc"
#: Names of image files, `sagelet+training+0.1.0`.
SUFFIXES = {"apptainer": ".sif", "enroot": ".sqsh"}
REMEDIES = {
    "apptainer": "apptainer build {file} docker-daemon:{image}",
    "enroot": "enroot import --output {file} dockerd://{image}",
}


def file_of(directory: str, program: str, image: str) -> str:
    """Returns the path where an image's file has to be. Names are unique, in the form that enroot uses."""
    return os.path.join(directory, re.sub(r"[/:@]", "+", image) + SUFFIXES[program])


def absent(file: str, program: str, image: str) -> str:
    return f"no {file}: make it with `{REMEDIES[program].format(file=shlex.quote(file), image=image)}`"


class ImageFile(host_shim.Body):
    """The container of the plan of one host."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def prepared(self) -> Plan:
        """Returns the plan with the program as its command, or with the reason why it cannot run."""
        plan, container = self._plan, container_of(self._plan)
        program, image = container["engine"], container["image"]
        file = file_of(container["images"], program, image)
        node = os.environ.get("SLURMD_NODENAME", "this node")
        if shutil.which(program) is None:
            return {**plan, "refused": f"{program} is not installed on {node}"}
        if not os.path.exists(file):
            return {**plan, "refused": f"{node} has {absent(file, program, image)}"}
        with open(HOSTS, "w") as hosts:
            names = {"localhost": "127.0.0.1", **plan["hosts"]}
            hosts.writelines(f"{address} {name}\n" for name, address in names.items())
        try:
            command, environment = COMMANDS[program](plan, file, os.environ)
        except ValueError as error:
            return {**plan, "refused": f"{program}: {error}"}
        command[0] = shutil.which(program) or program
        return {**plan, "command": command, "environment": environment, "directory": os.getcwd()}

    def end(self, code: int | None, error: str | None) -> End:
        shutil.rmtree(SCRATCH, ignore_errors=True)
        for name in (ENVIRONMENT, CONFIGURATION, COMMAND):
            if os.path.exists(name):
                os.unlink(name)
        return super().end(code, error)

    def root(self) -> int:
        """Returns 0, since the container's processes descend from the shim."""
        return 0


def apptainer(plan: Plan, file: str, node: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Returns apptainer's command line and environment. It passes on the variables that are marked for that."""
    container = container_of(plan)
    os.makedirs(SCRATCH, mode=0o700, exist_ok=True)
    options = [
        "--containall", "--no-home", "--writable-tmpfs", "--pwd=/", f"--hostname={plan['hostname']}",
        # Without it, /tmp is a file system of 64 MB in memory.
        f"--workdir={os.path.abspath(SCRATCH)}",
        *(f"--mount={mount_option(*mount)}" for mount in container["mounts"]),
        f"--mount={mount_option(os.path.abspath(HOSTS), '/etc/hosts', True)}",
        *(["--net", "--network=none"] if plan["isolate_network"] else []),
        *(["--nv"] if plan["gpus"] else []),
    ]  # fmt: skip
    own = {f"APPTAINERENV_{name}": value for name, value in _environment(plan, node).items()}
    entrypoint = container["entrypoint"]
    verb = "run" if entrypoint is None else "exec"
    # Only the script's own lines go into its log.
    command = ["apptainer", "--silent", verb, *options, file, *(entrypoint or []), *container["arguments"]]
    return command, {**node, **own}


def enroot(plan: Plan, file: str, node: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """Returns enroot's command line and environment. The container's environment is in a file."""
    container = container_of(plan)
    environment = _environment(plan, node)
    if plan["gpus"]:
        # Only GPUs that Slurm lets the job see.
        defaults = {"NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
        environment = {**defaults, **environment, "NVIDIA_VISIBLE_DEVICES": "all"}
    for name, value in environment.items():
        if "\n" in value:
            raise ValueError(f"{name} of the Environment has several lines")
    # enroot removes one pair of quotation marks.
    _write(ENVIRONMENT, "".join(f'{name}="{value}"\n' for name, value in environment.items()))
    _write(CONFIGURATION, f"environ() {{ cat {shlex.quote(os.path.abspath(ENVIRONMENT))}; }}\n")
    mounts = [*container["mounts"], (os.path.abspath(HOSTS), "/etc/hosts", True)]
    options = ["--rw", f"--conf={os.path.abspath(CONFIGURATION)}", *(f"--mount={_line(*mount)}" for mount in mounts)]
    entrypoint: Sequence[str] | None = container["entrypoint"]
    if entrypoint is not None:
        _write(COMMAND, 'exec "$@"\n')
        options.append(f"--rc={os.path.abspath(COMMAND)}")
    return ["enroot", "start", *options, file, *(entrypoint or []), *container["arguments"]], dict(node)


COMMANDS = {"apptainer": apptainer, "enroot": enroot}


def _environment(plan: Plan, node: Mapping[str, str]) -> dict[str, str]:
    return {**plan["environment"], "CUDA_VISIBLE_DEVICES": node.get("CUDA_VISIBLE_DEVICES", "") if plan["gpus"] else ""}


def _line(source: str, target: str, read_only: bool) -> str:
    """Returns a mount as a line of fstab, with colons between its fields."""
    if re.search(r"[\s:]", source + target):
        raise ValueError(f"it cannot mount a path with a colon or a space in it: {source}")
    kind = "file" if os.path.isfile(source) else "dir"
    return f"{source}:{target}:none:x-create={kind},bind,{'ro' if read_only else 'rw'}"


def _write(path: str, text: str) -> None:
    with open(path, "w", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(text)
