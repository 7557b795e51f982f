"""Gives a host its own view of the machine: /opt/ml is the job directory, and the host name is `algo-1`.

Linux only, standard library only, no external programs. Root needs a mount namespace only; an ordinary user gets one
inside a user namespace. Where neither works, `enter` raises OSError and the runtime falls back to paths.
"""

import contextlib
import ctypes
import fcntl
import os
import re
import socket
import stat
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 0x1, 0x2, 0x4, 0x8, 0x20
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x4_0000
#: Flags of a mount as statvfs names them, and as mount(2) does.
LOCKED = {0x2: MS_NOSUID, 0x4: MS_NODEV, 0x8: MS_NOEXEC, 0x400: 0x400, 0x800: 0x800, 0x1000: 0x20_0000}
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1

OPT = "/opt"
OPT_ML = "/opt/ml"


@dataclass(frozen=True)
class View:
    """A host's view of the machine."""

    #: The directory to show as /opt/ml.
    opt_ml: str
    hostname: str
    #: Names of the job's hosts and their addresses, which are all on this machine.
    hosts: Mapping[str, str]
    #: The file that is shown as /etc/hosts. `enter` writes it.
    hosts_file: str
    #: True if the host gets a network of its own, which has only a loopback.
    isolate_network: bool
    #: Directories below /opt/ml, relative to it, that can only be read.
    read_only: tuple[str, ...] = ()
    #: Directories of this machine to show below /opt/ml: source, target relative to /opt/ml, True if read-only.
    mounts: Sequence[tuple[str, str, bool]] = ()
    #: Directories of this machine that become read-only at their own paths.
    protected: Sequence[str] = ()


def enter(view: View, *, user: bool) -> None:
    """Moves this (single-threaded) process into new namespaces. `user`: do it as an ordinary user can.

    Raises OSError if the kernel refuses. The process may then be in some of the namespaces already, so end it.
    """
    flags = CLONE_NEWNS | CLONE_NEWUTS
    flags |= CLONE_NEWUSER if user else 0
    flags |= CLONE_NEWNET if view.isolate_network else 0
    uid, gid = os.geteuid(), os.getegid()
    _call("unshare", flags)
    if user:
        _map_ids(uid, gid)
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    _show_hosts(view)
    # Opened before /opt is replaced.
    sources = [os.open(source, os.O_RDONLY | os.O_DIRECTORY) for source, _, _ in view.mounts]
    _show_opt_ml(view.opt_ml)
    for path in view.read_only:
        make_read_only(f"{OPT_ML}/{path}")
    for source, (_, target, read_only) in zip(sources, view.mounts, strict=True):
        _bind(f"/proc/self/fd/{source}", f"{OPT_ML}/{target}")
        os.close(source)
        if read_only:
            _protect(f"{OPT_ML}/{target}")
    for path in view.protected:
        make_read_only(path)
    socket.sethostname(view.hostname)
    if view.isolate_network:
        _loopback_up()


def make_read_only(path: str) -> None:
    """Makes a directory read-only in the namespace of this process."""
    _bind(path, path)
    _protect(path)


def _call(name: str, *arguments: int | bytes | None) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, name, None)
    if function is None:
        raise OSError(f"this system has no {name}()")
    if function(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _call("mount", encoded[0], encoded[1], encoded[2], flags, encoded[3])


def _bind(source: str, target: str) -> None:
    _mount(source, target, None, MS_BIND | MS_REC)


def _map_ids(uid: int, gid: int) -> None:
    """Maps the user's ids to themselves, so that files keep their owner and tools do not act as root."""
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def _show_hosts(view: View) -> None:
    """Makes `algo-N` resolve without waiting for DNS: torch's and gloo's rendezvous look up their own host name."""
    if not os.path.isfile("/etc/hosts"):
        return
    known = Path("/etc/hosts").read_text(errors="replace").rstrip("\n")
    ours = "".join(f"{address}\t{name}\n" for name, address in view.hosts.items())
    Path(view.hosts_file).write_text(f"{known}\n{ours}")
    _bind(view.hosts_file, "/etc/hosts")


def _show_opt_ml(opt_ml: str) -> None:
    """Mounts an empty /opt, binds its former children back, and shows the job directory as /opt/ml."""
    source = os.open(opt_ml, os.O_RDONLY | os.O_DIRECTORY)
    former = os.open(OPT, os.O_RDONLY | os.O_DIRECTORY)
    _mount("tmpfs", OPT, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")
    for name in os.listdir(former):
        if name != "ml":
            with contextlib.suppress(FileNotFoundError):  # removed after it was listed
                _bring_back(former, name)
    os.mkdir(OPT_ML)
    _bind(f"/proc/self/fd/{source}", OPT_ML)
    os.close(former)
    os.close(source)


def _protect(path: str) -> None:
    """Makes a bind and all mounts below it read-only.

    Flags that an outer namespace has locked (such as nosuid) must stay, or the kernel refuses.
    """
    for mounted in _mounted_at(path):
        flags = os.statvfs(mounted).f_flag
        kept = sum(mount for seen, mount in LOCKED.items() if flags & seen)
        _mount(None, mounted, None, MS_BIND | MS_REMOUNT | MS_RDONLY | kept)


def _mounted_at(path: str) -> list[str]:
    """Returns the mount points at a path and below it (proc(5): /proc/PID/mountinfo)."""
    places = set()
    with open("/proc/self/mountinfo", "rb") as file:
        for line in file:
            octal = re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), line.split(b" ")[4])
            places.add(os.fsdecode(octal))
    return sorted(place for place in places if place == path or place.startswith(f"{path}/"))


def _bring_back(former: int, name: str) -> None:
    target = f"{OPT}/{name}"
    mode = os.lstat(name, dir_fd=former).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(name, dir_fd=former), target)
        return
    if stat.S_ISDIR(mode):
        os.mkdir(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    _bind(f"/proc/self/fd/{former}/{name}", target)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH22x", b"lo", 0)
        answer = fcntl.ioctl(any_socket, SIOCGIFFLAGS, request)
        flags = struct.unpack_from("H", answer, 16)[0]
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", flags | IFF_UP))
