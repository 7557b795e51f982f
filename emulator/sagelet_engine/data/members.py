"""Members of a tar file made safe, where Python cannot: `filter="data"` came with 3.10.12 and 3.11.4.

The rules are that filter's (PEP 706). Debian 12 has Python 3.11.2.
"""

import os
import tarfile
from pathlib import Path

#: What Python's own filter leaves of a file's permissions, and what it adds.
_MOST, _LEAST, _EXECUTE = 0o755, 0o600, 0o111


def extract(opened: tarfile.TarFile, directory: Path) -> None:
    """Extracts all members. Raises tarfile.TarError for one that would leave the directory or is no file."""
    for member in opened:
        _check(member, directory)
        opened.extract(member, directory)


def _check(member: tarfile.TarInfo, directory: Path) -> None:
    """Raises tarfile.TarError; else takes from the member what must not be the archive's to say."""
    member.name = member.name.lstrip("/" + os.sep)
    _check_place(member.name, directory, member)
    if member.islnk() or member.issym():
        if os.path.isabs(member.linkname):
            raise tarfile.ExtractError(f"{member.name!r} is a link to an absolute path")
        beside = os.path.dirname(member.name) if member.issym() else ""
        _check_place(os.path.join(beside, member.linkname), directory, member)
    elif member.isreg():
        mode = member.mode & _MOST
        member.mode = (mode if mode & 0o100 else mode & ~_EXECUTE) | _LEAST
    elif member.isdir():
        member.mode = _MOST
    else:
        raise tarfile.ExtractError(f"{member.name!r} is a special file")
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""


def _check_place(path: str, directory: Path, member: tarfile.TarInfo) -> None:
    """Links that were extracted before count: what is looked at is the real path."""
    root = os.path.realpath(directory)
    if os.path.commonpath([os.path.realpath(os.path.join(root, path)), root]) != root:
        raise tarfile.ExtractError(f"{member.name!r} would be extracted outside of the directory")
