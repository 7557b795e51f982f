"""What a node without the server's file system did not send, so that the job's log can name it.

The node writes the names into a file of the host's `run` directory, which comes up with the others. A job can write
that file, too: it is read with bounds, and what no node writes counts as empty. Standard library only, as nodes use it.
"""

import json
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from sagelet_engine.base import nofollow
from sagelet_engine.base.key_names import Why

#: The file in `run`: an object with the reasons (names of Why) by the paths below /opt/ml.
NAME = "left-out.json"
#: Bytes of the file, and characters of a path. A longer path is cut: lines of a log show less.
MOST, MOST_PATH = 1024**2, 1024


def encoded(left: Mapping[str, Why]) -> bytes:
    """Returns the content of the file, with as many of the first paths as it holds."""
    kept: dict[str, str] = {}
    room = MOST - 2
    for path in sorted(left):
        cut = path[:MOST_PATH]
        room -= len(json.dumps(cut)) + len(json.dumps(left[path].name)) + 4
        if room < 0:
            break
        kept[cut] = left[path].name
    return json.dumps(kept).encode()


def parsed(data: bytes) -> dict[str, Why]:
    """Raises ValueError for what no node writes."""
    content: Any = nofollow.parsed(data, MOST)
    if not isinstance(content, dict) or not all(value in Why.__members__ for value in content.values()):
        raise ValueError("it does not say by path why a file was left out")
    return {path: Why[why] for path, why in content.items()}


def left_below(run: Path, inner: PurePath) -> dict[str, Why]:
    """Returns what was left out below a directory of /opt/ml, by the names in that directory."""
    data = nofollow.read(run, NAME, MOST + 1)
    try:
        left = {} if data is None else parsed(data)
    except ValueError:
        # The job wrote it.
        return {}
    above = f"{inner}/"
    return {path[len(above) :]: why for path, why in left.items() if path.startswith(above) and path != above}
