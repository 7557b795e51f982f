"""How long packages stay that jobs installed from requirements files (`runtimes/node/kept_packages.py`)."""

import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sagelet_engine.data import removal
from sagelet_engine.runtimes.node.kept_packages import DIRECTORY, KEPT, LOCKS, MAKING, KeptPackages, locked

#: Seconds until an installation is given up if it is unknown whether a host still works on it.
GIVEN_UP = 86_400


@dataclass(frozen=True)
class Environment:
    key: str
    #: Size on the disk.
    bytes: int
    #: Last use, ms since the epoch.
    used_ms: int


class Environments:
    """Kept packages of one data directory. Hosts may come and go meanwhile."""

    def __init__(self, data: Path) -> None:
        self._root = data / DIRECTORY
        self._kept = KeptPackages(self._root)
        #: Sizes by key. Kept packages never change.
        self._sizes: dict[str, int] = {}

    def trim(self, before_ms: int, most: int | None, *, dry_run: bool = False) -> list[Environment]:
        """Removes unused packages last used before `before_ms`, and the least recently used while all exceed `most`.

        Returns what was removed, or would be. Raises OSError, DirectoryStays.
        """
        if not self._root.is_dir():
            return []
        found = sorted(self._all(), key=lambda one: one.used_ms)
        with self._kept.counting():
            gone = list(_too_much(found, self._kept.used(), before_ms, most))
            if dry_run:
                return gone
            for one in gone:
                self._withdraw(one.key)
        self._clear()
        return gone

    def _all(self) -> Iterator[Environment]:
        place = self._root / KEPT
        for path in place.iterdir() if place.is_dir() else ():
            if path.name not in self._sizes:
                self._sizes[path.name] = removal.bytes_below(path)
            yield Environment(path.name, self._sizes[path.name], path.stat().st_mtime_ns // 1_000_000)

    def _withdraw(self, key: str) -> None:
        """Moves packages away, so that no host finds them any more."""
        place = self._root / MAKING
        place.mkdir(exist_ok=True)
        self._kept.path(key).rename(place / f"{key[:12]}-{uuid.uuid4().hex}")
        self._sizes.pop(key)

    def _clear(self) -> None:
        """Removes incomplete installations, unless a host works on them."""
        for place in (MAKING, LOCKS):
            for path in (self._root / place).glob("*"):
                if _is_abandoned(path):
                    removal.remove(path)


def _too_much(found: list[Environment], used: set[str], before_ms: int, most: int | None) -> Iterator[Environment]:
    above = 0 if most is None else sum(one.bytes for one in found) - most
    for one in found:
        if one.key not in used and (one.used_ms <= before_ms or above > 0):
            above -= one.bytes
            yield one


def _is_abandoned(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        old = time.time() - os.fstat(file).st_mtime > GIVEN_UP
        return locked(file, otherwise=old)
    finally:
        os.close(file)
