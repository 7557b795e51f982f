"""Small file systems of a test's own: an ext4 in a file, mounted by the loop device."""

import ctypes
import errno
import functools
import itertools
import os
import shutil
import subprocess
from pathlib import Path

from sagelet_engine.runtimes.node.host_namespaces import CLONE_NEWNS

BLOCK = 64 * 1024


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def missing_mounts() -> str | None:
    """Returns why this process cannot have file systems of its own, or None if it can."""
    if os.geteuid() != 0:
        return "only root mounts file systems: run these tests as root"
    absent = [name for name in ("losetup", "mkfs.ext4", "mount") if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed: tests make small file systems"
    found = subprocess.run(["losetup", "--find"], check=False, capture_output=True)
    return None if found.returncode == 0 else "there is no loop device: run these tests outside of a container"


@functools.cache
def own_mounts() -> None:
    """Gives this thread, and what it starts, a mount namespace: the kernel unmounts the disks of killed tests, too."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    run("mount", "--make-rprivate", "/")


class SmallDisk:
    """A disk of some MiB at a directory. Every method may be repeated."""

    def __init__(self, file: Path, place: Path, mebibytes: int, inodes: int = 0) -> None:
        """`inodes`: the number of inodes, or 0 for mkfs's own choice."""
        self.place = place
        self._file = file
        place.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as sparse:
            sparse.truncate(mebibytes * 1024**2)
        run("mkfs.ext4", "-q", "-m", "0", *(("-N", str(inodes)) if inodes else ()), str(file))
        self.mount()

    def mount_again(self) -> None:
        """Mounts a copy of the disk as it was before it failed. A namespace made meanwhile still holds the old one."""
        self.unmount()
        again = self._file.with_name(f"{self._file.name}-again")
        shutil.copyfile(self._file, again)
        self._file.unlink()
        self._file = again
        self.mount()

    def mount(self) -> None:
        run("mount", "-o", "loop", str(self._file), str(self.place))

    def fill(self) -> None:
        """Fills the disk to the last byte that a new file can have."""
        size = BLOCK
        with (self.place / "filler").open("ab", buffering=0) as filler:
            while size:
                try:
                    filler.write(b"\0" * size)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def fill_inodes(self) -> None:
        """Uses up all inodes. Most of the bytes stay free."""
        (self.place / "fillers").mkdir()
        try:
            for number in itertools.count():
                (self.place / "fillers" / str(number)).touch()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise

    def free(self) -> None:
        shutil.rmtree(self.place / "fillers", ignore_errors=True)
        (self.place / "filler").unlink(missing_ok=True)

    def fail(self) -> None:
        """Does what ext4 does after a device error: nothing can be written until the disk is mounted again."""
        run("mount", "-o", "remount,abort", str(self.place))

    def unmount(self) -> None:
        run("umount", "--lazy", str(self.place))

    def remove(self) -> None:
        self._file.unlink(missing_ok=True)


def bind(source: Path, place: Path) -> None:
    """Mounts another directory, with its own disk, at a place."""
    for directory in (source, place):
        directory.mkdir(parents=True, exist_ok=True)
    run("mount", "--bind", str(source), str(place))


def unbind(place: Path) -> None:
    run("umount", "--lazy", str(place))
