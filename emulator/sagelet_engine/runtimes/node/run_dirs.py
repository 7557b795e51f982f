"""Notes where a host's files are. The note stays true when the data directory is moved."""

import os
from pathlib import Path

from sagelet_engine.base.wire import JsonObject

#: Number of parts of `jobs/ACCOUNT/REGION/JOB_ID/algo-1/run`, without and with `attempt-2` in it.
_PARTS = (6, 7)


def noted(run_dir: Path, data: Path) -> dict[str, str]:
    """Returns the members of a note. A directory outside `data` is noted by its absolute path."""
    path, root = os.path.abspath(run_dir), os.path.abspath(data)
    if os.path.commonpath((path, root)) == root:
        return {"within": os.path.relpath(path, root)}
    return {"run_dir": path}


def found(note: JsonObject, data: Path) -> Path:
    """Returns the directory of a note. Older notes have absolute paths, maybe from before `data` was moved."""
    if "within" in note:
        return data / str(note["within"])
    return here(str(note["run_dir"]), data)


def here(path: str, data: Path) -> Path:
    """Returns a path in the data directory, for one written when that directory may have had another path."""
    parts = Path(path).parts
    for count in _PARTS:
        if len(parts) > count and parts[-count] == "jobs":
            return data.joinpath(*parts[-count:])
    return Path(path)
