"""Keeps packages that were installed from a requirements file, for all hosts with the same requirements.

Standard library only: a host looks for them, and installs them if they are missing. Below `DATA/environments`:

- `kept/KEY`: a whole installation, never changed: `lib/pythonX.Y/site-packages` and `bin`. One rename puts it there.
- `making/NAME`: an installation that is not whole yet. Its maker holds a lock on the directory.
- `locks/KEY`: held by the host that installs, while others wait.
- `users/KEY.N`: a link to the packages of a host that uses it. It counts as long as that directory exists.
- `lock`: held while users are counted, or one is added.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

DIRECTORY = "environments"
KEPT, MAKING, LOCKS, USERS, LOCK = "kept", "making", "locks", "users", "lock"
#: Seconds that a host waits for another host that installs the same packages, and seconds between two checks.
TIMEOUT_S, LOOK_S = 600.0, 0.2
#: Seconds to wait for the lock of counting.
COUNTING_S = 30.0


class KeptPackages:
    """The kept packages of one data directory. Any method may raise OSError."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, key: str) -> Path:
        return self.root / KEPT / key

    @contextlib.contextmanager
    def turn(self, key: str) -> Iterator[None]:
        """Lets one host at a time install. The wait is limited, since a second installation does no harm."""
        place = self.root / LOCKS
        place.mkdir(parents=True, exist_ok=True)
        with (place / key).open("a") as file:
            _wait_for(file.fileno(), TIMEOUT_S)
            yield

    @contextlib.contextmanager
    def draft(self, key: str) -> Iterator[Path]:
        """Gives an empty directory to install into. It is removed at the end unless it was published."""
        place = self.root / MAKING
        place.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f"{key[:12]}-", dir=place))
        lock = os.open(draft, os.O_RDONLY)
        try:
            locked(lock, otherwise=True)
            yield draft
        finally:
            os.close(lock)
            shutil.rmtree(draft, ignore_errors=True)

    def publish(self, draft: Path, key: str) -> None:
        """Keeps a draft, unless another host has kept the same key meanwhile."""
        # Its files reach the disk before its name does.
        os.sync()
        self.path(key).parent.mkdir(parents=True, exist_ok=True)
        try:
            draft.rename(self.path(key))
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            _forbid_writing(self.path(key))

    def acquire(self, key: str, user: Path) -> Path | None:
        """Returns the kept packages, or None if none are kept under the key.

        `user`: the directory of the host's own packages. The host counts as a user as long as it exists.
        """
        users = self.root / USERS
        users.mkdir(parents=True, exist_ok=True)
        with self.counting():
            if not self.path(key).is_dir():
                return None
            (users / f"{key}.{uuid.uuid4().hex}").symlink_to(user)
            os.utime(self.path(key))
        return self.path(key)

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Holds the lock of counting. Raises TimeoutError (an OSError) if another process does not release it."""
        with (self.root / LOCK).open("a") as file:
            if not _wait_for(file.fileno(), COUNTING_S):
                raise TimeoutError(f"{self.root / LOCK} is locked")
            yield

    def used(self) -> set[str]:
        """Returns the keys of packages that hosts use, and forgets users that are gone. Call it within `counting`."""
        found = set()
        for link in (self.root / USERS).glob("*"):
            if link.is_dir():
                found.add(link.name.partition(".")[0])
            else:
                link.unlink(missing_ok=True)
        return found


def _wait_for(file: int, patience: float) -> bool:
    """Takes the lock as soon as it is free. False if it was not free within `patience` seconds."""
    deadline = time.monotonic() + patience
    while not locked(file, otherwise=True):
        if time.monotonic() >= deadline:
            return False
        time.sleep(LOOK_S)
    return True


def locked(file: int, *, otherwise: bool) -> bool:
    """Takes the lock if it is free. `otherwise`: the answer if the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return otherwise
    return True


def _forbid_writing(root: Path) -> None:
    """Removes write permission, against mistakes of users other than root. The directory itself can still be moved."""
    for directory, names, files in os.walk(root):
        for path in (os.path.join(directory, name) for name in (*names, *files)):
            if not os.path.islink(path):
                os.chmod(path, stat.S_IMODE(os.stat(path).st_mode) & ~0o222)
