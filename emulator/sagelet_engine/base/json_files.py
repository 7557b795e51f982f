"""JSON files that another process may read at any time, or may have written itself.

Standard library only: nodes of a cluster import it.
"""

import contextlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagelet_engine.base import nofollow
from sagelet_engine.base.wire import JsonObject

#: The size limit of a file that is read, in bytes. The largest is a host's plan, which has the job's environment.
MOST = 16 * 1024**2
#: The space that `reserve` takes, in bytes: enough for an exit status and the system's words for it.
RESERVED = 1024


def write_json(path: str | Path, content: Mapping[str, Any]) -> None:
    """Writes a file whole or not at all, readable by its owner only. It is on the disk when this returns."""
    temporary = f"{path}.{os.getpid()}.{threading.get_ident()}.tmp"
    try:
        _write(temporary, json.dumps(content))
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def reserved(path: str | Path) -> str:
    """Returns the path that holds a file's space until the file is written."""
    return f"{path}.reserved"


def reserve(path: str | Path) -> None:
    """Takes the space of a file that is to be written with `write_reserved`. Raises OSError on a full disk."""
    _write(reserved(path), " " * RESERVED)


def write_reserved(path: str | Path, content: JsonObject) -> None:
    """Writes a JSON file into the space that `reserve` took, so it succeeds even on a full disk."""
    text = json.dumps(content)
    if len(text) > RESERVED:
        write_json(path, content)
        return
    descriptor = os.open(reserved(path), os.O_WRONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "w") as file:
        file.write(text.ljust(RESERVED))
        file.flush()
        os.fsync(file.fileno())
    os.replace(reserved(path), path)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read_json(path: str | Path) -> JsonObject | None:
    """Returns the content of a file of `write_json`, or None if there is no file.

    Raises ValueError if it is not a JSON object.
    """
    try:
        with nofollow.open_path(path) as file:
            content = nofollow.parsed(nofollow.head(file, MOST + 1), MOST)
    except nofollow.NoFile:
        return None
    if not isinstance(content, dict):
        raise ValueError(f"{path} does not hold a JSON object")
    return content
