"""Makes one key from everything that determines the packages of a requirements file. Standard library only."""

import codecs
import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from sagelet_engine.runtimes.node.pip_settings import PREFIX, settings

#: Increased when packages that were kept before can no longer be used.
FORMAT = "1"
#: A name that pip takes for a file or a directory of the host.
_LOCAL = re.compile(r"^(\.|/|~|file:)|\.(whl|zip|tar|tgz|tar\.(gz|bz2|xz))$", re.IGNORECASE)
_NESTED = re.compile(r"^(?:-r|-c|--requirement|--constraint)[\s=]*(\S+)")
_EDITABLE = re.compile(r"^(?:-e|--editable)\b")
_REPOSITORY = re.compile(r"\b(git|hg|svn|bzr)\+")
_COMMENT = re.compile(r"(^|\s+)#.*$")
#: pip replaces it by the variable's value, if that is set and not empty.
_VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
#: Longer marks first: UTF-32's begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOTES = (".dist-info", ".egg-info", ".egg-link")


#: pip's settings that say where it installs, or that it does not install.
_ELSEWHERE = frozenset({"target", "prefix", "root", "python", "dry_run", "editable"})
#: pip's settings that name files and directories but do not change what is installed.
_ASIDE = frozenset({"cache_dir", "cert", "client_cert", "log", "log_file", "local_log", "src"})
_CONSTRAINT, _REQUIREMENT = "constraint", "requirement"
#: Variables that affect how a package is built.
_BUILDING = re.compile(
    r"CC|CXX|CFLAGS|CPPFLAGS|CXXFLAGS|LDFLAGS|(CMAKE|SKBUILD|SETUPTOOLS|DS_BUILD)_\w+|FORCE_CUDA|TORCH_CUDA_ARCH_LIST"
)
#: Where a job's own files are, unless SAGEMAKER_BASE_DIR names another directory.
_JOBS = "/opt/ml"


class NotKept(Exception):
    """The file alone does not determine what is installed. The message says why."""


def key_of(file: str, path: Iterable[str], environ: Mapping[str, str]) -> str:
    """Returns 64 hexadecimal digits. `path`: the interpreter's sys.path. Raises NotKept or OSError."""
    parts = [FORMAT, sys.version, platform.platform(), *sorted(_installed(path))]
    parts += [f"{name}={value}" for name, value in sorted(environ.items()) if _BUILDING.fullmatch(name)]
    read: set[Path] = set()
    for name, value in settings(environ):
        if name in _ELSEWHERE and value:
            raise NotKept(f"{PREFIX}{name.upper()} is set")
        if name in (_CONSTRAINT, _REQUIREMENT):
            # Each job has its own file, so only the content counts.
            parts.append(name)
            for one in value.split():
                _read(_file_of(one, name), environ, parts, read)
        elif name not in _ASIDE:
            parts += [f"{name}={value}", *_named(name, value, environ)]
    _read(Path(file), environ, parts, read)
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


def _file_of(place: str, name: str) -> Path:
    """Returns the file that a path or a URL names. Raises NotKept."""
    if place.startswith("file://"):
        return Path(url2pathname(urlparse(place).path))
    if "://" in place:
        raise NotKept(f"{PREFIX}{name.upper()}={place} may be different tomorrow")
    return Path(place)


def _named(name: str, value: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Yields the contents of files that a setting names. A directory counts as an index, like one in the network."""
    for word in value.split():
        if "://" in word and not word.startswith("file://"):
            continue
        place = _file_of(word, name)
        if place.is_file():
            yield _digest(place, word)
        elif place.is_dir() and _is_of_job(place, environ):
            raise NotKept(f"{PREFIX}{name.upper()} names a directory of this job's")


def _is_of_job(place: Path, environ: Mapping[str, str]) -> bool:
    jobs = os.path.realpath(environ.get("SAGEMAKER_BASE_DIR") or _JOBS)
    return not place.is_absolute() or place.resolve().is_relative_to(jobs)


def _installed(path: Iterable[str]) -> set[str]:
    """Returns the installed packages: pip installs only what is missing."""
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
        # Messages show the line as it is written, since a variable may hold a secret.
        written = _COMMENT.sub("", raw).strip()
        line = _VARIABLE.sub(lambda found: environ.get(found[1]) or found[0], written)
        parts.append(line)
        if _EDITABLE.match(line):
            raise NotKept(f"{written!r} is a directory of this job's")
        if _REPOSITORY.search(line):
            raise NotKept(f"{written!r} may be different tomorrow")
        nested = _NESTED.match(line)
        if nested is None:
            parts += [_digest(place, written) for place in _local(line, written, file.parent)]
        elif "://" in nested[1]:
            raise NotKept(f"{written!r} may be different tomorrow")
        else:
            _read(file.parent / nested[1], environ, parts, read)


def _text(file: Path) -> str:
    """Returns the text as pip decodes it. Raises NotKept if pip would guess the encoding."""
    data = file.read_bytes()
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "utf-8")
    try:
        return data.decode(encoding).replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise NotKept(f"{file} is not UTF-8") from error


def _local(line: str, written: str, directory: Path) -> Iterable[Path]:
    """Returns the host's files that a line names. Raises NotKept if they cannot be known."""
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
