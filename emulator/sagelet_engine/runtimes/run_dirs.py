"""How a data directory notes where a host's files are, so that the note is true when the directory is moved."""

import os
from pathlib import Path
from typing import Any

#: Parts of `jobs/ACCOUNT/REGION/JOB_ID/algo-1/run`, without and with `attempt-2` in it.
_PARTS = (6, 7)


def noted(run_dir: Path, data: Path) -> dict[str, str]:
    """Members of a note. A directory elsewhere is noted by its absolute path."""
    path, root = os.path.abspath(run_dir), os.path.abspath(data)
    if os.path.commonpath((path, root)) == root:
        return {"within": os.path.relpath(path, root)}
    return {"run_dir": path}


def found(note: dict[str, Any], data: Path) -> Path:
    """The directory that a note means. Older notes have absolute paths, which a data directory may have had before."""
    if "within" in note:
        return data / str(note["within"])
    return here(str(note["run_dir"]), data)


def here(path: str, data: Path) -> Path:
    """A path in a data directory, whatever that was called when the path was written."""
    parts = Path(path).parts
    for count in _PARTS:
        if len(parts) > count and parts[-count] == "jobs":
            return data.joinpath(*parts[-count:])
    return Path(path)
