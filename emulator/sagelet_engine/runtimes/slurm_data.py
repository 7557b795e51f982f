"""Whether the nodes of a cluster can see the data directory, as far as this machine can tell.

A disk of this machine may be exported to the nodes, and only a job of Slurm's could find out: that is said, no more.
"""

import re
import socket
from collections.abc import Collection
from pathlib import Path

from sagelet_engine.errors import SettingsError

MOUNTS = Path("/proc/self/mountinfo")
#: In memory, or a container's own.
NEVER_SHARED = frozenset({"tmpfs", "ramfs", "devtmpfs", "overlay", "aufs"})
#: Disks, which a machine may export.
LOCAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "reiserfs", "bcachefs", "apfs", "vfat"}
)
REMEDY = "put --data where nodes see it, at the same path, or use --slurm-files s3"


def check_shared(data: Path, node_hosts: Collection[str], mounts: str | None = None) -> str:
    """What there is to say about it; empty: nothing. Raises SettingsError.

    `node_hosts`: the host names of the nodes. `mounts`: in place of this machine's mountinfo.
    """
    here = _short(socket.gethostname())
    others = sorted(host for host in node_hosts if _short(host) != here)
    if not others:
        return ""
    if mounts is None:
        mounts = MOUNTS.read_text(errors="replace") if MOUNTS.exists() else ""
    kind = _kind_of(data.absolute().resolve(), mounts)
    if kind in NEVER_SHARED:
        raise SettingsError(f"--slurm-files shared: {data} is on {kind}, which {others[0]} cannot see; {REMEDY}")
    if kind in LOCAL:
        return f"; {data} is on {kind} of this machine, which has to be exported to the nodes: {REMEDY}"
    return ""


def _short(host: str) -> str:
    return host.partition(".")[0].lower()


def _kind_of(path: Path, mounts: str) -> str:
    """The type of the file system that a path is on (proc(5): the first field after the hyphen)."""
    found = ("", "")
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields.split(" ")[4])
        # Of several at one place the last is seen.
        if path.is_relative_to(place) and len(place) >= len(found[0]):
            found = place, rest.split(" ")[0]
    return found[1]
