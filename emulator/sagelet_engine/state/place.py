"""What tells one directory from every other: what the kernel knows of it, as far as that stays when it is moved.

A copy has another inode than its original, with every tool that copies. A directory that is renamed keeps its own, and
so do its files: a host that runs goes on writing to them. (Over to another file system nothing is renamed: that is a
copy whose original is deleted, and hosts write to what was deleted.) An inode's number may be given away again, so the
time of birth counts, too, where the file system has one. Device numbers change when a machine starts anew, and say
something within one start only: there they tell a snapshot, which has its original's inodes, from the original.
"""

import ctypes
import os
import struct
from dataclasses import dataclass
from pathlib import Path

_AT_FDCWD, _BIRTH = -100, 0x800
#: Of struct statx: where its mask is and the time of birth, and more bytes than it has.
_MASK, _BORN, _SIZE = 0, 80, 512


@dataclass(frozen=True)
class Place:
    """Where a directory is, and which it is."""

    path: str
    inode: int
    device: int
    #: The kernel's name for the time since the machine started; empty where there is none.
    boot: str
    #: Time of birth in ns since the epoch; None: not known.
    born_ns: int | None

    @classmethod
    def of(cls, directory: Path) -> "Place":
        """Raises OSError."""
        status = os.stat(directory)
        return cls(os.path.realpath(directory), status.st_ino, status.st_dev, _boot(), birth_ns(directory))

    def is_of_same(self, other: "Place") -> bool:
        """Whether both are of one directory, moved or not."""
        if self.inode != other.inode:
            return False
        if None not in (self.born_ns, other.born_ns) and self.born_ns != other.born_ns:
            return False
        # A file system that was mounted again may have another number.
        return self.device == other.device or self.boot != other.boot or self.path == other.path


def birth_ns(path: Path) -> int | None:
    """When a file or directory came to be, in ns since the epoch; None: the system does not say."""
    buffer = ctypes.create_string_buffer(_SIZE)
    try:
        done = ctypes.CDLL(None).statx(_AT_FDCWD, os.fsencode(path), 0, _BIRTH, buffer)
    except (AttributeError, OSError):  # no statx, so not Linux, or an old C library
        return None
    if done != 0 or not struct.unpack_from("I", buffer.raw, _MASK)[0] & _BIRTH:
        return None
    seconds, nanoseconds = struct.unpack_from("qI", buffer.raw, _BORN)
    return int(seconds) * 10**9 + int(nanoseconds)


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
