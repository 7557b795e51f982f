"""`server.json` in the data directory: how to reach the server that runs on it, and how to end it.

`sagelet up` writes it when it is ready. After a `kill -9` the file is still there; the lock tells whether it is still
true.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from sagelet_engine.base.keys import write_private
from sagelet_engine.state.owner import owner_of

FILE = "server.json"


@dataclass(frozen=True)
class Notice:
    pid: int
    #: `http://127.0.0.1:4599`.
    endpoint: str
    #: The time when it was ready, in ms since the epoch.
    started_ms: int
    #: True if it outlives its terminal. Then its output is in `server.log`.
    detached: bool = False
    #: The name of this start, which the server's health has, too: so whoever asks an endpoint knows whose it is.
    instance: str = ""


def post_notice(data: Path, notice: Notice) -> None:
    """Writes the notice. Raises SettingsError."""
    write_private(data / FILE, json.dumps(asdict(notice)).encode())


def withdraw_notice(data: Path) -> None:
    (data / FILE).unlink(missing_ok=True)


def read_notice(data: Path) -> Notice | None:
    """Returns the notice of the ready `sagelet up` on a data directory, or None if there is none."""
    try:
        notice = Notice(**json.loads((data / FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return notice if owner_of(data) == notice.pid else None
