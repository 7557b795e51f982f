"""Distinguishes one directory from every other, by what the kernel knows of it and keeps when it is moved.

A copy has another inode than its original, whatever tool copied it. A renamed directory keeps its inode, and so do its
files, so a running host goes on writing to them. (A move to another file system is a copy whose original is deleted.
Hosts then write to deleted files.) An inode's number may be used again, so the time of birth is compared, too, if the
file system has it. Device numbers change when a machine restarts, so they only mean something within one start. There
they distinguish a snapshot, which has its original's inodes, from the original.
"""

import ctypes
import os
import struct
from dataclasses import dataclass
from pathlib import Path

_AT_FDCWD, _BIRTH = -100, 0x800
#: Offsets in struct statx of its mask and of the time of birth, and a number of bytes larger than the struct.
_MASK, _BORN, _SIZE = 0, 80, 512


@dataclass(frozen=True)
class DirectoryIdentity:
    """The path of a directory, and its identity for the kernel."""

    path: str
    inode: int
    device: int
    #: The kernel's id of this start of the machine. Empty if there is none.
    boot: str
    #: The time of birth in ns since the epoch. None if unknown.
    born_ns: int | None

    @classmethod
    def of(cls, directory: Path) -> "DirectoryIdentity":
        """Returns the identity of a directory. Raises OSError."""
        status = os.stat(directory)
        return cls(os.path.realpath(directory), status.st_ino, status.st_dev, _boot(), birth_ns(directory))

    def is_of_same(self, other: "DirectoryIdentity") -> bool:
        """True if both are of one directory, moved or not."""
        if self.inode != other.inode:
            return False
        if None not in (self.born_ns, other.born_ns) and self.born_ns != other.born_ns:
            return False
        # A file system that was mounted again may have another number.
        return self.device == other.device or self.boot != other.boot or self.path == other.path


def birth_ns(path: Path) -> int | None:
    """Returns the time of birth of a file or directory in ns since the epoch, or None if the system does not say."""
    buffer = ctypes.create_string_buffer(_SIZE)
    try:
        done = ctypes.CDLL(None).statx(_AT_FDCWD, os.fsencode(path), 0, _BIRTH, buffer)
    except (AttributeError, OSError):  # There is no statx: not Linux, or an old C library.
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
