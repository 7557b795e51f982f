"""Checks the databases of a data directory, even beside a server: a quick look often, a full one every hour."""

import threading
from pathlib import Path

from sagelet_engine.base.database import DatabaseDamaged, StoreUnavailable, UnknownSchema, schema_of
from sagelet_engine.base.database_damage import damage_of, has_header
from sagelet_engine.state import contents

#: Seconds between two full reads of all pages.
PERIOD = 3600.0
#: SQLite's errors while another connection holds what this one needs.
_BUSY = ("is locked", "locking protocol")


def damage(data: Path) -> dict[str, list[str]]:
    """Reads all pages of each database and returns what is wrong, by name. Databases that do not exist yet are left
    out.
    """
    found: dict[str, list[str]] = {}
    for name, schema in contents.SCHEMAS.items():
        if (lost := contents.lost_database(data, name)) is not None:
            found[name] = [lost]
        elif (data / name).exists():
            try:
                found[name] = [why for why in damage_of(data / name, schema, quick=True) if not _is_busy(why)]
            except UnknownSchema:
                found[name] = []
    return found


class IntegrityCheck(threading.Thread):
    """Reads the databases of a running server from time to time, and remembers the result."""

    def __init__(self, data: Path, closing: threading.Event) -> None:
        super().__init__(name="integrity", daemon=True)
        self._data = data
        self._closing = closing
        #: The databases that a server has opened before this is made.
        self._names = [name for name in contents.SCHEMAS if (data / name).exists()]
        self._found: dict[str, list[str]] = {}

    def run(self) -> None:
        while not self._closing.is_set():
            self._found = damage(self._data)
            self._closing.wait(PERIOD)

    def states(self) -> dict[str, str]:
        """Returns `ok`, or what is wrong, by the database's name."""
        return {name: self._state(name) for name in self._names}

    def _state(self, name: str) -> str:
        if self._found.get(name):
            return f"damaged: {self._found[name][0]}"
        if not (self._data / name).exists():
            return "missing"
        try:
            if not has_header(self._data / name):
                return "damaged: file is not a database"
            schema_of(self._data / name)
        except DatabaseDamaged as error:
            return f"damaged: {error.__cause__ or error}"
        except (StoreUnavailable, OSError) as error:
            why = str(error.__cause__ or error)
            return "ok" if _is_busy(why) else f"unavailable: {why}"
        return "ok"


def _is_busy(why: str) -> bool:
    """True if another connection is at work, which proves that the database can be read."""
    return any(word in why for word in _BUSY)
