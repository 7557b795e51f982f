"""The findings of a check, and the directory for files that the repair moves aside."""

import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from sagelet_engine.runtimes.lost_hosts import SET_ASIDE


@dataclass(frozen=True)
class Finding:
    #: `database`, `object`, `file`, `upload`, `job`, `hub`.
    kind: str
    #: What is wrong, for people.
    what: str
    #: What to do about it.
    remedy: str
    #: False if the problem has lost nothing and makes nothing wrong.
    damage: bool = True
    #: What the repair did about it. Empty if nothing.
    mended: str = ""


@dataclass
class Report:
    """The result of a check. `repair`: also mends what can be mended safely."""

    repair: bool
    findings: list[Finding] = field(default_factory=list)
    #: Objects that were checked, including those that the repair made from files.
    objects: int = 0
    #: Counts objects.
    bytes: int = 0
    jobs: int = 0
    #: Counts files of the hub.
    repositories: int = 0

    def add(self, kind: str, what: str, remedy: str, *, mended: str = "", damage: bool = True) -> None:
        self.findings.append(Finding(kind, what, remedy, damage, mended))

    @property
    def sound(self) -> bool:
        """True if nothing is left to repair."""
        return all(found.mended or not found.damage for found in self.findings)


class Aside:
    """A directory beside the rest, made when it is needed, for files that are in the way. So nothing is deleted."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._root = data / f"{SET_ASIDE}{uuid.uuid4().hex[:8]}"

    def place(self, name: str) -> Path:
        """Returns where `name` of the data directory goes. Raises OSError."""
        self._root.mkdir(mode=0o700, exist_ok=True)
        target = self._root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def move(self, name: str) -> str:
        """Moves something aside and returns where it is, for people. Raises OSError."""
        target = self.place(name)
        (self._data / name).rename(target)
        return f"moved to {target}"

    def leave_copy(self, name: str) -> str:
        """Copies a database with SQLite's files beside it. Raises OSError."""
        for suffix in ("", "-wal", "-shm"):
            source = self._data / f"{name}{suffix}"
            if source.exists():
                target = self.place(f"{name}{suffix}")
                target.write_bytes(source.read_bytes())
                os.chmod(target, 0o600)
        return f"its former state is in {self.place(name)}"
