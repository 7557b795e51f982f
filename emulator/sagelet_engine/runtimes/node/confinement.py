"""How a host's container is confined, both by the docker runtime and by a node's shim (`slurm/docker.py`).

Standard library only, because nodes run it. The options are those of docker-py's `create_host_config`; `flags` gives
them as options of the command line.
"""

import fnmatch
import os
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

#: User and group of containers if the server is root. They belong to nobody on this machine (distroless images call the
#: user nonroot).
NOBODY = 65532
#: As on AWS, for every user.
HOME = "/root"
#: Parts of the scratch directory: their paths in a container, and their modes.
PLACES = {"tmp": ("/tmp", 0o1777), "var-tmp": ("/var/tmp", 0o1777), "home": (HOME, 0o700)}
#: pip installs there if site-packages cannot be written. Python only has it on its path if it exists at the start, so
#: it is made for each version that an image may have.
USER_SITES = tuple(f".local/lib/python3.{minor}/site-packages" for minor in range(8, 16))
USER_COMMANDS = f"{HOME}/.local/bin"
#: The PATH if an image has none (Docker's own default).
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: If the machine's memory is used up, the kernel ends a process of a job and not one of the server.
OOM_SCORE_ADJ = 500
#: Memory of the machine that no container may take: in bytes, and on a small machine as a share.
MEMORY_LEFT, MEMORY_SHARE = 2 * 1024**3, 8

_FLAGS = {
    "cap_drop": "--cap-drop",
    "security_opt": "--security-opt",
    "pids_limit": "--pids-limit",
    "shm_size": "--shm-size",
    "cgroupns": "--cgroupns",
    "ipc_mode": "--ipc",
    "oom_score_adj": "--oom-score-adj",
    "mem_limit": "--memory",
    "memswap_limit": "--memory-swap",
    "nano_cpus": "--cpus",
}


class User(NamedTuple):
    uid: int
    gid: int

    def __str__(self) -> str:
        return f"{self.uid}:{self.gid}"


@dataclass(frozen=True)
class Exceptions:
    """Images that do not work under all of the confinement: patterns of local references, as for file names."""

    #: Their root file system is writable.
    writable: tuple[str, ...] = ()
    #: If the server is root, they run as root.
    root: tuple[str, ...] = ()

    def keeps_root_writable(self, image: str) -> bool:
        return any(fnmatch.fnmatchcase(image, pattern) for pattern in self.writable)

    def runs_as_root(self, image: str) -> bool:
        return any(fnmatch.fnmatchcase(image, pattern) for pattern in self.root)


NO_EXCEPTIONS = Exceptions()


class CannotGive(Exception):
    """The files of a host cannot be given to the user of its container. The message says what to do."""


def user_of(*, rootless: bool, as_root: bool) -> User | None:
    """Returns the user that a container runs as, or None for root. Root in a rootless engine is the server's own
    user.
    """
    if rootless:
        return None
    if os.getuid() != 0:
        # The container's files in /opt/ml must belong to the server.
        return User(os.getuid(), os.getgid())
    return None if as_root else User(NOBODY, NOBODY)


#: Options of a container, by docker-py's names for `create_host_config`.
DockerOptions = dict[str, Any]


def hardening(*, processes: int, shm_bytes: int, read_only: bool) -> DockerOptions:
    """Returns the options that every container gets."""
    return {
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "pids_limit": processes,
        "shm_size": shm_bytes,
        "cgroupns": "private",
        "ipc_mode": "private",
        "oom_score_adj": OOM_SCORE_ADJ,
        "read_only": read_only,
    }


def limits(memory_bytes: int | None, cpus: float | None) -> DockerOptions:
    """Returns limits as docker-py's options. None means no limit."""
    found: DockerOptions = {}
    if memory_bytes is not None:
        # The same limit with swap: a job that needs more memory fails, instead of slowing down.
        found |= {"mem_limit": memory_bytes, "memswap_limit": memory_bytes}
    if cpus is not None:
        found["nano_cpus"] = int(cpus * 1_000_000_000)
    return found


def memory_of(wanted: int | None, machine: int) -> int | None:
    """Returns the limit of one host: its instance type's memory, or what this machine has to give. 0 stands for
    unknown.
    """
    most = machine - min(MEMORY_LEFT, machine // MEMORY_SHARE) if machine else None
    return min((bound for bound in (wanted, most) if bound is not None), default=None)


def cpus_of(wanted: int | None, machine: int) -> int | None:
    """Returns the limit, or None if the machine has no more CPUs than the instance type."""
    return wanted if wanted is not None and wanted < machine else None


def flags(options: Mapping[str, Any]) -> list[str]:
    """Returns the same options as flags of `docker run`."""
    found = []
    for name, value in options.items():
        if name == "read_only":
            found += ["--read-only"] if value else []
        elif name == "nano_cpus":
            found.append(f"{_FLAGS[name]}={value / 1_000_000_000:g}")
        else:
            found += [f"{_FLAGS[name]}={one}" for one in (value if isinstance(value, list) else [value])]
    return found


def environment(*, read_only: bool, user: User | None, path: str) -> dict[str, str]:
    """Returns defaults, which the request's own variables replace. `path`: the image's own PATH."""
    named = {} if user is None else {"USER": "sagelet", "LOGNAME": "sagelet"}
    if read_only:
        return {"HOME": HOME, "PATH": _with_user_commands(path or DEFAULT_PATH), **named}
    return {"HOME": "/tmp", **named} if user is not None else {}


def _with_user_commands(path: str) -> str:
    """Puts the user's commands before the system's, because pip replaces those there, but after those that the image
    puts first.
    """
    parts = path.split(":")
    system = (number for number, part in enumerate(parts) if part.startswith(("/usr", "/bin", "/sbin")))
    at = next(system, len(parts))
    return ":".join([*parts[:at], USER_COMMANDS, *parts[at:]])


def path_of(variables: Iterable[str] | None) -> str:
    """Returns the PATH in an image's Config.Env."""
    return next((one.removeprefix("PATH=") for one in variables or () if one.startswith("PATH=")), "")


def working_directory(given: str | None, *, read_only: bool) -> str | None:
    """Returns where a container's program starts, or None for the image's choice. `given`: the image's WorkingDir.

    A program that starts in `/` may write its files there on AWS. Where it cannot, it starts in the home directory.
    """
    return HOME if read_only and given in (None, "", "/") else None


def scratch_mounts(scratch: Path) -> list[tuple[str, str]]:
    """Returns source and target of each part."""
    return [(str(scratch / part), target) for part, (target, _) in PLACES.items()]


def make_scratch(scratch: Path, user: User | None) -> None:
    """Makes the scratch directory. Raises OSError."""
    scratch.mkdir(parents=True, exist_ok=True)
    for part, (_, mode) in PLACES.items():
        (scratch / part).mkdir(exist_ok=True)
        (scratch / part).chmod(mode)
    for site in USER_SITES:
        (scratch / "home" / site).mkdir(parents=True, exist_ok=True)
    give([scratch], user)


def give(roots: Sequence[Path], user: User | None, read_only: Sequence[Path] = ()) -> None:
    """Gives all files below the directories to the user, before the container starts. No link is followed.

    Files below `read_only` keep their owner, because they may be the object store's own, and can be read. Raises
    CannotGive.
    """
    if user is None or os.getuid() != 0:
        return
    try:
        left_out = {str(one) for one in read_only}
        for _, name, at in (entry for root in roots for entry in _entries(root, left_out)):
            os.chown(name, *user, dir_fd=at, follow_symlinks=False)
        for found, name, at in (entry for root in read_only for entry in _entries(root, set())):
            _make_readable(found, name, at, user)
    except OSError as error:
        raise CannotGive(
            f"the files of the job cannot be given to the user {user} of its container ({error.strerror}): "
            "let sagelet change owners (CAP_CHOWN), or name the image with --root-image"
        ) from error


def may_use(directory: Path, user: User | None, *, write: bool) -> bool:
    """True if a container may use what is mounted from there. The kernel is asked, because modes are not everything
    (ACLs).
    """
    if user is None or os.getuid() != 0:
        return True
    # Not by its path: directories above this one do not matter in a container.
    command = ["test", "-r", ".", "-a", "-x", ".", *(["-a", "-w", "."] if write else [])]
    asked = subprocess.run(command, cwd=directory, user=user.uid, group=user.gid, extra_groups=(), check=False)
    return asked.returncode == 0


def _entries(root: Path, left_out: set[str]) -> Iterator[tuple[os.stat_result, str, int]]:
    """Yields each entry, its name and the open directory that it is in. Of what is left out, only the directory
    itself.
    """
    parent = os.open(root.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield os.stat(root.name, dir_fd=parent, follow_symlinks=False), root.name, parent
    finally:
        os.close(parent)
    for place, directories, files, at in os.fwalk(root, follow_symlinks=False):
        for name in (*directories, *files):
            yield os.stat(name, dir_fd=at, follow_symlinks=False), name, at
        directories[:] = [name for name in directories if os.path.join(place, name) not in left_out]


def _make_readable(found: os.stat_result, name: str, at: int, user: User) -> None:
    """Makes a file readable by its group. A file that others could not read stays closed to them."""
    wanted = 0o5 if stat.S_ISDIR(found.st_mode) else 0o4
    if stat.S_ISLNK(found.st_mode) or found.st_mode & wanted == wanted:
        return
    os.chown(name, -1, user.gid, dir_fd=at, follow_symlinks=False)
    os.chmod(name, stat.S_IMODE(found.st_mode) | wanted << 3, dir_fd=at)
