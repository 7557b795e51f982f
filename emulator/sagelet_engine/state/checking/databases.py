"""Checks the two databases (SQLite's own check, their schema). Makes a new one from the readable rows of a bad one."""

from enum import Enum
from pathlib import Path

from sagelet_engine.base.database import remove_database
from sagelet_engine.base.database_damage import Saved, damage_of, save
from sagelet_engine.state import contents
from sagelet_engine.state.change import changing, workspace
from sagelet_engine.state.checking.report import Aside, Report


class State(Enum):
    SOUND = "sound"
    #: The readable content of a damaged database was saved into it.
    SAVED = "saved"
    #: It must be made anew, beside data that it knew.
    LOST = "lost"
    #: It does not exist, and there is no data that it would know.
    NONE = "none"
    DAMAGED = "damaged"

    @property
    def readable(self) -> bool:
        return self in (State.SOUND, State.SAVED)


def check_database(data: Path, name: str, report: Report, aside: Aside) -> State:
    """Checks a database. Raises UnknownSchema, OSError."""
    path = data / name
    if (lost := contents.lost_database(data, name)) is not None:
        return _lost(data, name, lost, report, aside)
    if not path.exists():
        return State.NONE
    found = damage_of(path, contents.SCHEMAS[name])
    if not found:
        return State.SOUND
    mended = _replace(data, name, aside) if report.repair else ""
    for one in found:
        report.add("database", f"{path}: {one}", "`sagelet check --repair` saves what can be read", mended=mended)
    return State.SAVED if report.repair else State.DAMAGED


def _lost(data: Path, name: str, lost: str, report: Report, aside: Aside) -> State:
    mended = ""
    if report.repair:
        # The new database would take SQLite's files beside the old one for its own.
        aside.leave_copy(name)
        remove_database(data / name)
        mended = "a new one is made; see below"
    report.add("database", lost, contents.LOST_REMEDY, mended=mended)
    return State.LOST


def _replace(data: Path, name: str, aside: Aside) -> str:
    kept = aside.leave_copy(name)
    if name == contents.JOBS_DATABASE:
        with changing(data) as change:
            saved = save(data / name, change.new / name, contents.SCHEMAS[name])
            change.commit([name])
    else:
        with workspace(data) as place:
            saved = save(data / name, place / "new.db", contents.SCHEMAS[name])
            # A crash in between leaves objects without a catalogue. The next repair makes one from their files.
            remove_database(data / name)
            (place / "new.db").rename(data / name)
    return f"replaced by a new one with {_told(saved)}; {kept}"


def _told(saved: Saved) -> str:
    rows = ", ".join(f"{count} {table}" for table, count in saved.rows.items() if count) or "no rows"
    return rows + (f" ({', '.join(saved.cut)} could not be read to the end)" if saved.cut else "")
