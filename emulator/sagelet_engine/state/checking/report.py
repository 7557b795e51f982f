"""The findings of a check, and the directory into which it moves what is in the way."""

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
    #: False: nothing is lost or wrong by it.
    damage: bool = True
    #: What a repair did about it; empty: nothing.
    mended: str = ""


@dataclass
class Report:
    """`repair`: whether to mend what can be mended safely."""

    repair: bool
    findings: list[Finding] = field(default_factory=list)
    #: Those that were looked at, those that the repair made of files among them.
    objects: int = 0
    #: Of the objects.
    bytes: int = 0
    jobs: int = 0
    #: Of the hub.
    repositories: int = 0

    def add(self, kind: str, what: str, remedy: str, *, mended: str = "", damage: bool = True) -> None:
        self.findings.append(Finding(kind, what, remedy, damage, mended))

    @property
    def sound(self) -> bool:
        """Whether nothing is left to mend."""
        return all(found.mended or not found.damage for found in self.findings)


class Aside:
    """A directory beside the rest, made when it is needed: nothing of anybody's is deleted."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._root = data / f"{SET_ASIDE}{uuid.uuid4().hex[:8]}"

    def place(self, name: str) -> Path:
        """Where `name` of the data directory goes. Raises OSError."""
        self._root.mkdir(mode=0o700, exist_ok=True)
        target = self._root / name
        target.parent.mkdir(parents=True, exist_ok=True)
        return target

    def move(self, name: str) -> str:
        """Moves something there; says where it is, for people. Raises OSError."""
        target = self.place(name)
        (self._data / name).rename(target)
        return f"moved to {target}"

    def leave_copy(self, name: str) -> str:
        """A copy of a database with all that SQLite has beside it. Raises OSError."""
        for suffix in ("", "-wal", "-shm"):
            source = self._data / f"{name}{suffix}"
            if source.exists():
                target = self.place(f"{name}{suffix}")
                target.write_bytes(source.read_bytes())
                os.chmod(target, 0o600)
        return f"as it was it is in {self.place(name)}"
