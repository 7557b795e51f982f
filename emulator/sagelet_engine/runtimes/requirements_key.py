"""What the packages of a file of requirements depend on, as one name. Standard library only."""

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

#: Changes when kept packages of before can no longer be used.
FORMAT = "1"
#: What names a file or a directory of the host's, by pip's rules.
_LOCAL = re.compile(r"^(\.|/|~|file:)|\.(whl|zip|tar|tgz|tar\.(gz|bz2|xz))$", re.IGNORECASE)
_NESTED = re.compile(r"^(?:-r|-c|--requirement|--constraint)[\s=]*(\S+)")
_EDITABLE = re.compile(r"^(?:-e|--editable)\b")
_REPOSITORY = re.compile(r"\b(git|hg|svn|bzr)\+")
_COMMENT = re.compile(r"(^|\s+)#.*$")
_NOTES = (".dist-info", ".egg-info", ".egg-link")


#: Variables of pip's that say where it installs, or keep it from that.
_ELSEWHERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_DRY_RUN", "PIP_EDITABLE")


_CONSTRAINT = "PIP_CONSTRAINT"


class NotKept(Exception):
    """What is installed does not follow from the file alone; the message says why."""


def key_of(file: str, path: Iterable[str], environ: Mapping[str, str]) -> str:
    """64 hexadecimal digits. `path`: the interpreter's. Raises NotKept, OSError."""
    elsewhere = next((name for name in _ELSEWHERE if environ.get(name)), None)
    if elsewhere is not None:
        raise NotKept(f"{elsewhere} is set")
    parts = [FORMAT, sys.version, platform.platform(), *sorted(_installed(path))]
    options = {name: value for name, value in environ.items() if name.startswith("PIP_") and name != _CONSTRAINT}
    parts += [f"{name}={value}" for name, value in sorted(options.items())]
    read: set[Path] = set()
    for constraints in environ.get(_CONSTRAINT, "").split():
        # Each job has a file of its own; what is in it counts.
        parts.append(_CONSTRAINT)
        _read(_file_of(constraints), parts, read)
    _read(Path(file), parts, read)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _file_of(name: str) -> Path:
    """Of a path, or of a URL of a file. Raises NotKept."""
    if name.startswith("file://"):
        return Path(url2pathname(urlparse(name).path))
    if "://" in name:
        raise NotKept(f"{_CONSTRAINT}={name} may be another tomorrow")
    return Path(name)


def _installed(path: Iterable[str]) -> set[str]:
    """What is there already: pip installs what is missing."""
    found = set()
    for directory in path:
        if os.path.isdir(directory):
            found |= {f"{directory}/{name}" for name in os.listdir(directory) if name.endswith(_NOTES)}
    return found


def _read(file: Path, parts: list[str], read: set[Path]) -> None:
    if file in read:
        return
    read.add(file)
    for raw in file.read_text(errors="surrogateescape").replace("\\\n", " ").splitlines():
        line = _COMMENT.sub("", raw).strip()
        parts.append(line)
        if _EDITABLE.match(line):
            raise NotKept(f"{line!r} is a directory of this job's")
        if _REPOSITORY.search(line):
            raise NotKept(f"{line!r} may be another tomorrow")
        nested = _NESTED.match(line)
        if nested is None:
            parts += [_digest(place, line) for place in _local(line, file.parent)]
        elif "://" in nested[1]:
            raise NotKept(f"{line!r} may be another tomorrow")
        else:
            _read(file.parent / nested[1], parts, read)


def _local(line: str, directory: Path) -> Iterable[Path]:
    """Files of the host's that a line names. Raises NotKept when they cannot be known."""
    for word in re.split(r"[\s=]+", line.partition(";")[0]):
        name = re.sub(r"\[[^\]]*\]$", "", word)
        remote = "://" in name and not name.startswith("file:")
        places = {Path(name.removeprefix("file://")), directory / name.removeprefix("file://")}
        found = [place for place in sorted(places) if name and not remote and place.exists()]
        if not found and not remote and _LOCAL.search(name):
            raise NotKept(f"{line!r} names a file that is not found")
        yield from found


def _digest(place: Path, line: str) -> str:
    if not place.is_file():
        raise NotKept(f"{line!r} names a directory of this job's")
    return hashlib.sha256(place.read_bytes()).hexdigest()
