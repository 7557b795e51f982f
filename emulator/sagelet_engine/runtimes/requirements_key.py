"""What the packages of a file of requirements depend on, as one name. Standard library only."""

import codecs
import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

#: Changes when kept packages of before can no longer be used.
FORMAT = "1"
#: What names a file or a directory of the host's, by pip's rules.
_LOCAL = re.compile(r"^(\.|/|~|file:)|\.(whl|zip|tar|tgz|tar\.(gz|bz2|xz))$", re.IGNORECASE)
_NESTED = re.compile(r"^(?:-r|-c|--requirement|--constraint)[\s=]*(\S+)")
_EDITABLE = re.compile(r"^(?:-e|--editable)\b")
_REPOSITORY = re.compile(r"\b(git|hg|svn|bzr)\+")
_COMMENT = re.compile(r"(^|\s+)#.*$")
#: pip replaces it by the variable's value, where that is set and not empty.
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
#: The longer first: UTF-32's begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOTES = (".dist-info", ".egg-info", ".egg-link")


#: Variables of pip's that say where it installs, or keep it from that.
_ELSEWHERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_DRY_RUN", "PIP_EDITABLE")


class NotKept(Exception):
    """What is installed does not follow from the file alone; the message says why."""


def key_of(file: str, path: Iterable[str], environ: Mapping[str, str]) -> str:
    """64 hexadecimal digits. `path`: the interpreter's. Raises NotKept, OSError."""
    elsewhere = next((name for name in _ELSEWHERE if environ.get(name)), None)
    if elsewhere is not None:
        raise NotKept(f"{elsewhere} is set")
    parts = [FORMAT, sys.version, platform.platform(), *sorted(_installed(path))]
    parts += [f"{name}={value}" for name, value in sorted(environ.items()) if name.startswith("PIP_")]
    _read(Path(file), environ, parts, set())
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


def _installed(path: Iterable[str]) -> set[str]:
    """What is there already: pip installs what is missing."""
    found = set()
    for directory in path:
        if os.path.isdir(directory):
            found |= {f"{directory}/{name}" for name in os.listdir(directory) if name.endswith(_NOTES)}
    return found


def _read(file: Path, environ: Mapping[str, str], parts: list[str], read: set[Path]) -> None:
    if file.resolve() in read:
        return
    read.add(file.resolve())
    for raw in _text(file).replace("\\\n", " ").splitlines():
        # Messages have it as it is written: a variable may be a secret.
        written = _COMMENT.sub("", raw).strip()
        line = _VARIABLE.sub(lambda found: environ.get(found[1]) or found[0], written)
        parts.append(line)
        if _EDITABLE.match(line):
            raise NotKept(f"{written!r} is a directory of this job's")
        if _REPOSITORY.search(line):
            raise NotKept(f"{written!r} may be another tomorrow")
        nested = _NESTED.match(line)
        if nested is None:
            parts += [_digest(place, written) for place in _local(line, written, file.parent)]
        elif "://" in nested[1]:
            raise NotKept(f"{written!r} may be another tomorrow")
        else:
            _read(file.parent / nested[1], environ, parts, read)


def _text(file: Path) -> str:
    """As pip decodes it. Raises NotKept for what pip guesses at."""
    data = file.read_bytes()
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding).replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise NotKept(f"{file} is no UTF-8") from error


def _local(line: str, written: str, directory: Path) -> Iterable[Path]:
    """Files of the host's that a line names. Raises NotKept when they cannot be known."""
    for word in re.split(r"[\s=]+", line.partition(";")[0]):
        name = re.sub(r"\[[^\]]*\]$", "", word.removeprefix("-f"))
        remote = "://" in name and not name.startswith("file:")
        places = {Path(name.removeprefix("file://")), directory / name.removeprefix("file://")}
        found = [place for place in sorted(places) if name and not remote and place.exists()]
        if not found and not remote and _LOCAL.search(name):
            raise NotKept(f"{written!r} names a file that is not found")
        yield from found


def _digest(place: Path, line: str) -> str:
    if not place.is_file():
        raise NotKept(f"{line!r} names a directory of this job's")
    return hashlib.sha256(place.read_bytes()).hexdigest()
