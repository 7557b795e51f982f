"""Unpacks a batch from a node. Anybody with the job's credentials may have made the batch.

`base/extraction.py` unpacks the host's tree (`Manifest.parts`), as it does every archive. The files that the server
itself reads (output, names that are gone, words) are never unpacked: they are checked and written whole.
"""

import json
import os
import tarfile
from pathlib import Path
from typing import Any, BinaryIO

from sagelet_engine.base import extraction, left_on_node, nofollow
from sagelet_engine.base.extraction import Parts
from sagelet_engine.base.volume import room
from sagelet_engine.runtimes.node import host_end
from sagelet_engine.runtimes.slurm.file_sync.batches import (
    DELETED,
    MOST_DELETED,
    MOST_OUTPUT,
    MOST_WORD,
    OFFSET,
    OUTPUT_PART,
    Manifest,
)

_MOST_DIGITS = 18


class BadBatch(Exception):
    """No host of sagelet sends such a batch. The message tells the job's owner what is wrong."""


def unpack(archive: Path, data: Path, manifest: Manifest) -> None:
    """Unpacks a batch; may be repeated. Raises BadBatch, or OSError if the fault is this machine's."""
    base = data / manifest.base
    delivery = _Delivery(base, manifest)
    try:
        with archive.open("rb") as packed:
            extraction.extract(extraction.Reader(packed), base, room(data).for_jobs, delivery.take)
    except extraction.TooLarge as error:
        raise BadBatch(f"{error}: that is what the disk of the data directory has left") from error
    except tarfile.TarError as error:
        raise BadBatch(str(error)) from error


class _Delivery:
    """Takes members that do not belong in the host's tree, and lets the others through."""

    def __init__(self, base: Path, manifest: Manifest) -> None:
        self._base = base
        self._manifest = manifest

    def take(self, parts: Parts, member: tarfile.TarInfo, content: BinaryIO | None) -> bool:
        """See `extraction.Divert`. Raises BadBatch."""
        name, manifest = "/".join(parts), self._manifest
        if name == OUTPUT_PART:
            self._append_output(member, _whole(name, content, MOST_OUTPUT))
        elif name == DELETED:
            self._remove(_whole(name, content, MOST_DELETED))
        elif name == manifest.end and name:
            self._end(_whole(name, content, MOST_WORD))
        elif name == manifest.left_out and name:
            self._left_out(_whole(name, content, MOST_WORD))
        elif name in manifest.words:
            self._word(parts, member, content)
        elif not manifest.carries(parts):
            raise BadBatch(f"{name!r} is not what a host sends")
        else:
            self._check_kind(parts, member)
            return False
        return True

    def _check_kind(self, parts: Parts, member: tarfile.TarInfo) -> None:
        if member.issym() and not self._manifest.takes_link(parts, member.linkname):
            raise BadBatch(f"{member.name!r} is a link that leads out of the host's files: {member.linkname!r}")
        if not (member.isreg() or member.isdir() or member.issym()):
            raise BadBatch(f"{member.name!r} is not a file, directory or symbolic link")

    def _append_output(self, member: tarfile.TarInfo, part: bytes) -> None:
        """Writes the part at its offset, so that writing it again changes nothing."""
        said = str(member.pax_headers.get(OFFSET, ""))
        if not (said.isascii() and said.isdigit() and len(said) <= _MOST_DIGITS):
            raise BadBatch(f"its output has no {OFFSET}")
        if not self._manifest.output:
            raise BadBatch("it has output, but its host has none")
        with nofollow.update(self._base, self._manifest.output) as output:
            if int(said) > os.fstat(output.fileno()).st_size:
                raise BadBatch(f"its output begins at byte {said}: the bytes before are missing")
            output.seek(int(said))
            output.write(part)

    def _remove(self, listing: bytes) -> None:
        """Removes files, and directories that are empty. Names that a host may not send stay."""
        names = _json(DELETED, listing)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise BadBatch(f"{DELETED} is not a list of names")
        for name in sorted(names, reverse=True):
            parts = extraction.parts_of(name)
            if self._manifest.carries(parts):
                nofollow.remove(self._base, parts)

    def _end(self, content: bytes) -> None:
        written = _json(self._manifest.end, content)
        try:
            host_end.parsed(written)
        except ValueError as error:
            raise BadBatch(host_end.damaged(error)) from error
        nofollow.write(self._base, self._manifest.end, json.dumps(written).encode())

    def _left_out(self, content: bytes) -> None:
        try:
            left_on_node.parsed(content)
        except ValueError as error:
            raise BadBatch(f"{self._manifest.left_out!r} is not what a node writes: {error}") from error
        nofollow.write(self._base, self._manifest.left_out, content)

    def _word(self, parts: Parts, member: tarfile.TarInfo, content: BinaryIO | None) -> None:
        if member.isdir():
            with nofollow.directory(self._base, parts[:-1]) as parent:
                nofollow.make_directory_at(parent, parts[-1])
            return
        nofollow.write(self._base, parts, _whole("/".join(parts), content, MOST_WORD))


def _whole(name: str, content: BinaryIO | None, most: int) -> bytes:
    data = None if content is None else content.read(most + 1)
    if data is None or len(data) > most:
        raise BadBatch(f"{name!r} is not a file of up to {most} bytes")
    return data


def _json(name: str, data: bytes) -> Any:
    try:
        return nofollow.parsed(data, MOST_DELETED)
    except ValueError as error:
        raise BadBatch(f"{name} is not JSON: {error}") from error
