"""Directories of this machine that stand in for EFS and FSx for Lustre file systems (FileSystemDataSource).

Only directories that were named at start can be reached: `--file-system fs-0123456789abcdef0=/directory`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

#: By FileSystemId. Empty if no directory stands in for one.
NO_FILE_SYSTEMS: Mapping[str, Path] = MappingProxyType({})


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
