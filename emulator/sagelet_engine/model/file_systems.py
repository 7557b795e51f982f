"""Directories of this machine that stand in for EFS and FSx for Lustre file systems (FileSystemDataSource).

Only directories that were named at start can be reached: `--file-system fs-0123456789abcdef0=/directory`.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sagelet_engine.base.errors import ClientFault, SettingsError

#: By FileSystemId. Empty if no directory stands in for one.
NO_FILE_SYSTEMS: Mapping[str, Path] = MappingProxyType({})

#: botocore shape FileSystemId.
_ID = re.compile(r"fs-[0-9a-f]{8,18}")


@dataclass(frozen=True)
class FileSystemSource:
    """DataSource.FileSystemDataSource of a channel."""

    id: str
    #: EFS or FSxLustre; both are a directory here.
    type: str
    #: DirectoryPath: from the root of the file system, with or without a leading slash.
    path: str
    #: True if FileSystemAccessMode is `rw`.
    writable: bool

    @classmethod
    def of(cls, source: Mapping[str, Any]) -> "FileSystemSource":
        return cls(
            source["FileSystemId"],
            source["FileSystemType"],
            source["DirectoryPath"],
            source["FileSystemAccessMode"] == "rw",
        )


def directory_of(source: FileSystemSource, file_systems: Mapping[str, Path]) -> Path:
    """Returns the directory that the channel shows, with links resolved. Raises ClientFault. All texts are
    sagelet's.
    """
    root = file_systems.get(source.id)
    if root is None:
        raise ClientFault(
            f"Unable to find the file system {source.id}. (sagelet: name the directory that stands in for it at start: "
            f"--file-system {source.id}=/DIRECTORY)"
        )
    inner = source.path.lstrip("/")
    if "\0" in inner or ".." in inner.split("/"):
        raise ClientFault(f"The DirectoryPath {source.path!r} of the file system {source.id} must not leave it")
    root = root.resolve()
    found = Path(os.path.realpath(root / inner))
    if not found.is_relative_to(root):
        raise ClientFault(f"The DirectoryPath {source.path!r} of the file system {source.id} is a link that leaves it")
    if not found.is_dir():
        raise ClientFault(f"The DirectoryPath {source.path!r} is not a directory of the file system {source.id}")
    return found


def check_file_systems(file_systems: Mapping[str, Path], data: Path) -> None:
    """Raises SettingsError for a directory that cannot stand in, or that would give jobs sagelet's own files."""
    for identifier, directory in file_systems.items():
        named = f"--file-system {identifier}={directory}"
        if not _ID.fullmatch(identifier):
            raise SettingsError(f"{named}: a file system's id is fs- and 8 to 18 of 0-9, a-f")
        if not directory.is_absolute() or not directory.is_dir():
            raise SettingsError(f"{named}: must be a directory that exists, by its absolute path")
        ours, theirs = data.resolve(), directory.resolve()
        if ours.is_relative_to(theirs) or theirs.is_relative_to(ours):
            raise SettingsError(f"{named}: holds or lies in --data {data}; jobs must not see sagelet's own files")
