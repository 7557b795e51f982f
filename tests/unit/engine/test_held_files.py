"""Who looks at a database's file takes no lock of SQLite's away, and a busy database is not called damaged."""

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sagelet_engine.base.database import DatabaseDamaged, StoreUnavailable
from sagelet_engine.base.database_damage import has_header
from sagelet_engine.state import integrity
from sagelet_engine.state.integrity import IntegrityCheck
from sagelet_engine.store.jobs import Store

#: Of SQLite's file format: a reader's lock is within these bytes.
SHARED_FIRST, SHARED_SIZE = 0x40000002, 510
#: Another process asks for what one that removes the log must have.
TRY = f"""
import fcntl, json, os, sys
file = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, {SHARED_SIZE}, {SHARED_FIRST})
except OSError:
    print(json.dumps("held"))
else:
    print(json.dumps("free"))
"""


def locks(path: Path) -> str:
    found: str = json.loads(subprocess.check_output([sys.executable, "-c", TRY, str(path)]))
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "jobs").mkdir()
    return tmp_path


def test_looks_at_a_database_leave_its_locks(data: Path) -> None:
    path = data / "sagelet.db"
    store = Store(path)
    try:
        assert locks(path) == "held"
        looking = IntegrityCheck(data, threading.Event())
        assert looking.states() == {"sagelet.db": "ok"}
        assert integrity.damage(data) == {"sagelet.db": []}
        assert has_header(path)
        assert locks(path) == "held"
        again = Store(path)
        again.close()
        assert has_header(path)
        assert locks(path) == "held"
    finally:
        store.close()
    assert locks(path) == "free"


def descriptors_of(path: Path) -> int:
    """Counts this process's open descriptors of the file. Other tests leave databases of other files open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found += os.readlink(f"/proc/self/fd/{name}") == str(path)
    return found


def test_nothing_is_held_of_a_closed_database(data: Path) -> None:
    path = data / "sagelet.db"
    for _ in range(3):
        store = Store(path)
        assert descriptors_of(path)
        store.close()
        store.close()
        assert not descriptors_of(path)


def test_a_question_after_the_close_is_answered(data: Path) -> None:
    path = data / "sagelet.db"
    store = Store(path)
    store.close()
    assert store.unfinished() == []
    assert not descriptors_of(path)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (StoreUnavailable("database is locked"), "ok"),
        (StoreUnavailable("locking protocol"), "ok"),
        (StoreUnavailable("disk I/O error"), "unavailable: disk I/O error"),
        (DatabaseDamaged(Path("x"), "malformed"), "damaged: x is damaged: malformed."),
    ],
)
def test_what_a_look_that_fails_says(
    data: Path, monkeypatch: pytest.MonkeyPatch, error: StoreUnavailable, state: str
) -> None:
    def schema_of(path: Path) -> int:
        raise error

    store = Store(data / "sagelet.db")
    looking = IntegrityCheck(data, threading.Event())
    monkeypatch.setattr(integrity, "schema_of", schema_of)
    assert looking.states()["sagelet.db"].startswith(state)
    store.close()
