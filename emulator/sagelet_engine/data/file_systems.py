"""Finds the directory that a FileSystemDataSource shows to a job."""

import os
from collections.abc import Mapping
from pathlib import Path

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.model.file_systems import FileSystemSource


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
