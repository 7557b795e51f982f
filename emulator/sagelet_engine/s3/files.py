"""The files of the store: staged ones, and where objects' bytes end up.

DATA/s3/BUCKET/KEY         an object whose key makes file names
DATA/s3/.escaped/BUCKET/.. any other (`names.py`)
DATA/s3/.staged/FILE_ID    bytes on their way: being written, or of a multipart upload, or of an object whose row
                           is there while its rename is not
"""

import ctypes
import errno
import fcntl
import logging
import os
import uuid
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from sagelet_engine.base.database import NotFlushed
from sagelet_engine.base.volume import FULL, remedy
from sagelet_engine.s3 import names
from sagelet_engine.s3.checksums import Digests
from sagelet_engine.s3.errors import DiskFull
from sagelet_engine.s3.staged import CHUNK, StagedFile, flush_all

_log = logging.getLogger(__name__)

#: Errors of a file system on which a file cannot get a second name.
NO_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP, errno.ENOSYS)
_FICLONE = 0x40049409
#: FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_PUNCH_HOLE = 3


class Files:
    """The files of one store. Raises OSError where the file system does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._staged = root / ".staged"
        self._staged.mkdir(parents=True, exist_ok=True)
        self.folded = _ignores_case(self._staged)

    # --- staged -----------------------------------------------------------------------------------------------

    @contextmanager
    def stage(self, digests: Digests | None = None) -> Iterator[StagedFile]:
        """Makes a new staged file. It is removed again if the block fails. Raises DiskFull."""
        with clean_disk_full(self.root):
            staged = StagedFile(self._staged / uuid.uuid4().hex, digests or Digests())
        try:
            with clean_disk_full(self.root):
                yield staged
        except NotFlushed:
            # The row that names the file is visible to all by now.
            raise
        except BaseException:
            staged.discard()
            raise

    def flush_staged(self, file_ids: Sequence[str]) -> None:
        """Brings sealed files to the disk. Raises OSError."""
        flush_all(self._staged, file_ids)

    def staged(self, file_id: str) -> Path:
        return self._staged / file_id

    def staged_ids(self) -> list[str]:
        return sorted(path.name for path in self._staged.iterdir())

    def link_staged(self, file_id: str) -> str:
        """Gives a staged file a second name, which is a file id of its own, and returns it.

        Raises OSError. Its errno is in NO_LINK if the file system gives no second names.
        """
        other = uuid.uuid4().hex
        os.link(self.staged(file_id), self.staged(other))
        return other

    def remove_staged(self, file_id: str) -> None:
        self.staged(file_id).unlink(missing_ok=True)

    # --- in place ---------------------------------------------------------------------------------------------

    def choose_path(self, bucket: str, key: str, taken: Container[str] = ()) -> str:
        """Returns a free path for a new object, and makes its directory.

        `taken`: paths of objects whose files are not in their places yet.
        """
        path = names.natural(bucket, key, folded=self.folded)
        above = () if path is None else Path(path).parents
        if any(str(parent) in taken for parent in above):
            path = None
        if path is not None and not os.path.lexists(self.root / path):
            with suppress(FileExistsError, NotADirectoryError):
                (self.root / path).parent.mkdir(parents=True, exist_ok=True)
                return path
        path = names.escaped(bucket, key)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        return path

    def publish(self, file_id: str, path: str) -> None:
        """Moves a staged file to its place. If it cannot be moved now (a full disk), it stays and is read where it
        is.
        """
        target, staged = self.root / path, self.staged(file_id)
        try:
            try:
                staged.replace(target)
            except FileNotFoundError:
                # The directory was removed meanwhile, with the last object in it.
                target.parent.mkdir(parents=True, exist_ok=True)
                staged.replace(target)
        except FileNotFoundError:
            _log.warning("%s is neither staged nor in its place", path)
        except OSError as error:
            _log.warning("%s stays in %s for now: %s", path, staged, error)

    def withdraw(self, file_id: str, path: str) -> None:
        """Moves a file from its place back to the staged ones. The next start removes a staged file without a row.

        If the object's file never reached its place, the one there belongs to an object that this one replaced.
        """
        target, staged = self.root / path, self.staged(file_id)
        if os.path.lexists(staged):
            with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                target.unlink()
            return
        with suppress(FileNotFoundError):
            target.replace(staged)

    def prune(self, path: str) -> None:
        """Removes the empty directories above a path, up to the bucket's."""
        parents = Path(path).parents
        keep = 3 if path.startswith(f"{names.ESCAPED}/") else 2
        for parent in list(parents)[: len(parents) - keep]:
            try:
                (self.root / parent).rmdir()
            except OSError:
                return

    def remove_bucket(self, bucket: str) -> None:
        """Removes the bucket's directories. Files that somebody else put there stay."""
        for directory in (self.root / bucket, self.root / names.ESCAPED / bucket):
            with suppress(OSError):
                directory.rmdir()

    def open(self, file_id: str, path: str) -> BinaryIO | None:
        """Opens a file, staged or in its place. Returns None if it is in neither."""
        for place in (self.staged(file_id), self.root / path):
            with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return place.open("rb")
        return None


@contextmanager
def clean_disk_full(where: Path) -> Iterator[None]:
    """Turns the system's errors of a full disk into DiskFull."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(f"{where}: {error.strerror}. {remedy(where)}") from error
        raise


def give_back(descriptor: int, offset: int, size: int) -> None:
    """Frees the blocks of a stretch of a file. The rest of the file stays where it is.

    Best effort: not every file system can do this.
    """
    with suppress(AttributeError):  # There is no fallocate outside of Linux.
        ctypes.CDLL(None, use_errno=True).fallocate(
            descriptor, _PUNCH_HOLE, ctypes.c_int64(offset), ctypes.c_int64(size)
        )


def clone(source: int, target: int) -> bool:
    """Makes `target` share the blocks of `source` (btrfs, XFS, bcachefs). Returns False on file systems that cannot."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def copy_range(source: int, target: int, offset: int, size: int, target_offset: int = 0) -> None:
    """Copies bytes between two files within the kernel, or through memory if the kernel cannot. Raises OSError."""
    done = 0
    while done < size:
        step = _copy_some(source, target, min(size - done, 1 << 30), offset + done, target_offset + done)
        if not step:
            raise OSError(errno.EIO, f"the file ended {size - done} bytes early")
        done += step


def _copy_some(source: int, target: int, size: int, offset: int, target_offset: int) -> int:
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, target, size, offset, target_offset)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
    return os.pwrite(target, os.pread(source, min(size, CHUNK), offset), target_offset)


def copy_file(source: BinaryIO, target: Path) -> None:
    """Copies a file: shares its blocks if possible, otherwise copies within the kernel. Raises OSError."""
    with target.open("wb") as out:
        if not clone(source.fileno(), out.fileno()):
            copy_range(source.fileno(), out.fileno(), 0, os.fstat(source.fileno()).st_size)


def link_or_copy(path: Path, opened: BinaryIO, target: Path) -> None:
    """Makes `target` a second name of an opened file, or a copy if there can be no second name. Raises OSError."""
    try:
        os.link(path, target)
        if os.path.samestat(target.stat(), os.fstat(opened.fileno())):
            return
        target.unlink()  # Somebody replaced the object meanwhile.
    except OSError as error:
        if error.errno not in (*NO_LINK, errno.ENOENT):
            raise
    copy_file(opened, target)


def copy_bytes(source: BinaryIO, target: StagedFile, size: int) -> None:
    """Copies the next `size` bytes through memory, for a caller that needs their digests."""
    left = size
    while left and (data := source.read(min(CHUNK, left))):
        target.write(data)
        left -= len(data)
    if left:
        raise OSError(errno.EIO, f"the file ended {left} bytes early")


def _ignores_case(directory: Path) -> bool:
    probe = directory / f"probe-{uuid.uuid4().hex}"
    probe.touch()
    try:
        return (directory / probe.name.upper()).exists()
    finally:
        probe.unlink(missing_ok=True)
