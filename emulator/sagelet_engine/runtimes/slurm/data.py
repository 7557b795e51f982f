"""Checks if a cluster's nodes can see the data directory, as far as this machine can tell.

A local disk may be exported to the nodes, and only a Slurm job could find that out. So it only causes a warning.
"""

import re
import socket
from collections.abc import Collection
from pathlib import Path

from sagelet_engine.base.errors import SettingsError

MOUNTS = Path("/proc/self/mountinfo")
#: File systems in memory, or of a container.
NEVER_SHARED = frozenset({"tmpfs", "ramfs", "devtmpfs", "overlay", "aufs"})
#: File systems on local disks, which a machine may export.
LOCAL = frozenset(
    {"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "jfs", "reiserfs", "bcachefs", "apfs", "vfat"}
)
REMEDY = "put --data where nodes see it, at the same path, or use --slurm-files s3"


def check_shared(data: Path, node_hosts: Collection[str], mounts: str | None = None) -> str:
    """Returns a warning, or an empty text. Raises SettingsError if the nodes can never see `data`.

    `node_hosts`: the host names of the nodes. `mounts` replaces this machine's mountinfo.
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
    """Returns the type of the file system of a path (proc(5): the first field after the hyphen)."""
    found = ("", "")
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), fields.split(" ")[4])
        # If several mounts are at one path, only the last is visible.
        if path.is_relative_to(place) and len(place) >= len(found[0]):
            found = place, rest.split(" ")[0]
    return found[1]
