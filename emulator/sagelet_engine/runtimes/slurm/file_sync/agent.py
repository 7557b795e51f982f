"""Brings a host's files to a node that shares no file system with the server, and sends changes back.

Run on the node as `python -I -S agent.py HOST COMMAND...` around the command that works with the files, with the ticket
in the environment; standard library only. The files are at the same path as on the server, in a directory that the
node makes; they are removed with the host. What the server sends (plan, inputs, what is to stop) comes as batches
`down/N`. What the host makes goes as batches `up/N`. A batch is a tar file that the other side unpacks in order. So
both sides see what they would see on a shared file system, a little late. If the server is away, the host goes on, and
the agent sends what is due when the server is back.

HOST `allocation` stands for the allocation's script: its files are the allocation's, which it has before any batch.

The job may write to these files. So no link is followed at reading and unpacking (`nofollow.py`, `extraction.py`).
"""

import base64
import contextlib
import http.client
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

# `-I -S` hides both this package and site-packages; only this package is wanted here.
sys.path.append(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))
)

from sagelet_engine.base import extraction, nofollow, packing
from sagelet_engine.model.batch_keys import ALLOCATION, DOWN, UP, batch_name
from sagelet_engine.runtimes.slurm.file_sync.batches import (
    DELETED,
    MANIFEST,
    MOST_DELETED,
    MOST_OUTPUT,
    MOST_WORD,
    OFFSET,
    OUTPUT_PART,
    Manifest,
    allocation_manifest,
)
from sagelet_engine.runtimes.slurm.file_sync.s3 import Batches, EndpointAway, EndpointRefuses, Ticket

TICKET = "SAGELET_TICKET"
#: Seconds between two looks at the files and at what the server has sent.
INTERVAL = 1.0
#: Seconds that an ended host waits for a server that is away, unless Slurm's own limit is shorter.
LAST_TIMEOUT_S = 3600
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)

Mark = tuple[int, int]


class FileSyncAgent:
    """Mirrors one host's files on the node. `root` is the data directory."""

    def __init__(self, batches: Batches, root: str, manifest: Manifest | None) -> None:
        """If `manifest` is None, it comes with the first batch."""
        self._batches = batches
        self._root = root
        self.manifest = manifest
        self._received = 0
        self._sent = 0
        #: The version of each file that the server has.
        self._known: dict[str, Mark] = {}
        #: The version of each file at the last look.
        self._seen: dict[str, Mark] = {}
        self._output_sent = 0
        #: The batch that the server may not have yet. It is sent again unchanged, since it may have arrived before.
        self._due: tempfile._TemporaryFileWrapper[bytes] | None = None

    def receive(self) -> None:
        """Unpacks the batches that have come."""
        while (answer := self._batches.get(batch_name(DOWN, self._received + 1))) is not None:
            try:
                with answer:
                    extraction.extract(extraction.Reader(answer), Path(self._root), divert=self._take)
                    # Raises if the answer was cut between two members.
                    answer.read()
            except (OSError, tarfile.TarError, http.client.HTTPException) as error:
                raise EndpointAway(f"batch {self._received + 1} was cut: {error}") from error
            self._received += 1
            self._known.update({name: mark for name, mark in self._look() if name not in self._known})

    def _take(self, parts: extraction.Parts, _member: tarfile.TarInfo, content: "BinaryIO | None") -> bool:
        """See `extraction.Divert`."""
        if parts != (MANIFEST,) or content is None:
            return False
        self.manifest = Manifest(**nofollow.parsed(content.read(MOST_WORD + 1), MOST_WORD))
        return True

    def send(self, *, last: bool = False) -> None:
        """Sends changed files that are no longer being written. With `last`, sends all of them, then the host's end."""
        if self.manifest is None:
            return
        self._flush()
        while self._pack(self.manifest, last=last, without_end=True):
            self._flush()
            if not last:
                return
        if last and self._pack(self.manifest, last=True, without_end=False):
            self._flush()

    def _flush(self) -> None:
        if self._due is None:
            return
        self._batches.put(batch_name(UP, self._sent + 1), self._due)  # type: ignore[arg-type]
        self._sent += 1
        self._due.close()
        self._due = None

    def _pack(self, manifest: Manifest, *, last: bool, without_end: bool) -> bool:
        """Makes the next batch. False if there is nothing to send."""
        base = os.path.join(self._root, manifest.base)
        looked = dict(self._look())
        if without_end:
            looked.pop(manifest.end, None)
        changed = {name: mark for name, mark in looked.items() if self._known.get(name) != mark}
        resting = {name: mark for name, mark in changed.items() if last or self._seen.get(name) == mark}
        self._seen = looked
        all_gone = sorted(self._known.keys() - looked.keys()) if without_end else []
        gone = _fitting(all_gone)
        if len(gone) < len(all_gone):
            # Other files may have come to the paths of deleted files, and must wait for the next batch.
            resting = {}
        output = self._output(base, manifest)
        if not (resting or gone or output):
            return False
        due = tempfile.TemporaryFile()  # noqa: SIM115  # closed when it is sent
        with tarfile.open(fileobj=due, mode="w") as archive:
            _add(archive, OUTPUT_PART, output, {OFFSET: str(self._output_sent)})
            # Deletions come before files that may be at the same paths.
            _add(archive, DELETED, json.dumps(gone).encode() if gone else b"", {})
            for name in sorted(resting):
                # It may be removed meanwhile.
                with contextlib.suppress(nofollow.NoFile):
                    packing.add(archive, base, name, name)
        self._due = due  # type: ignore[assignment]
        self._output_sent += len(output)
        self._known = {name: mark for name, mark in self._known.items() if name not in gone} | resting
        return True

    def _output(self, base: str, manifest: Manifest) -> bytes:
        """Returns what the host has printed since the last batch."""
        if not manifest.output:
            return b""
        try:
            with nofollow.open_file(base, manifest.output) as file:
                file.seek(self._output_sent)
                return file.read(MOST_OUTPUT)
        except nofollow.NoFile:
            return b""

    def _look(self) -> Iterator[tuple[str, Mark]]:
        if self.manifest is None:
            return
        base = os.path.join(self._root, self.manifest.base)
        for word in self.manifest.words:
            parts = tuple(word.split("/"))
            with contextlib.suppress(FileNotFoundError), nofollow.directory(base, parts[:-1]) as parent:
                status = os.lstat(parts[-1], dir_fd=parent)
                if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                    yield word, _mark(status)
        for part in self.manifest.parts:
            yield from self._below(base, self.manifest, tuple(part.split("/")))

    def _below(self, base: str, manifest: Manifest, above: tuple[str, ...]) -> Iterator[tuple[str, Mark]]:
        for name, status, target in _entries(base, above):
            parts = (*above, name)
            # The server's readers refuse a longer name, too.
            if not manifest.carries(parts) or len(os.fsencode("/".join(parts))) > extraction.MOST_NAME:
                continue
            if stat.S_ISREG(status.st_mode):
                yield "/".join(parts), _mark(status)
            elif stat.S_ISDIR(status.st_mode):
                yield "/".join(parts), _mark(status)
                yield from self._below(base, manifest, parts)
            elif target is not None and manifest.takes_link(parts, target) and _stays(base, manifest, parts, target):
                yield "/".join(parts), _mark(status)


def _entries(base: str, above: tuple[str, ...]) -> list[tuple[str, os.stat_result, "str | None"]]:
    """Returns the entries of a directory, with the targets of links. Empty if the directory is gone."""
    found = []
    try:
        with nofollow.directory(base, above, listing=True) as opened:
            for name in sorted(os.listdir(opened)):
                with contextlib.suppress(FileNotFoundError):
                    status = os.lstat(name, dir_fd=opened)
                    target = os.readlink(name, dir_fd=opened) if stat.S_ISLNK(status.st_mode) else None
                    found.append((name, status, target))
    except nofollow.NoFile:
        return []
    return found


def _mark(status: os.stat_result) -> Mark:
    return (0, 0) if stat.S_ISDIR(status.st_mode) else (status.st_size, status.st_mtime_ns)


def _stays(base: str, manifest: Manifest, parts: tuple[str, ...], target: str) -> bool:
    """True if a link leads to something in its directory, also through other links."""
    above = tuple(manifest.links.split("/"))
    return nofollow.leads_within(os.path.join(base, *above), parts[len(above) :], target)


def _fitting(names: list[str]) -> list[str]:
    """Returns as many names as one batch takes. The next batch takes the others."""
    left = MOST_DELETED - 2
    for number, name in enumerate(names):
        left -= len(json.dumps(name)) + 2
        if left < 0:
            return names[:number]
    return names


def _add(archive: tarfile.TarFile, name: str, content: bytes, headers: dict[str, str]) -> None:
    if not content:
        return
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.pax_headers = headers
    archive.addfile(member, io.BytesIO(content))


def _run(agent: FileSyncAgent, command: list[str]) -> int:
    """Runs the command beside the agent. Returns its exit code."""
    while agent.manifest is None:
        _patiently(agent.receive)
        time.sleep(INTERVAL)
    child = subprocess.Popen(command)
    for number in FORWARDED:
        signal.signal(number, lambda received, _frame: child.send_signal(received))
    while child.poll() is None:
        for work in (agent.receive, agent.send):
            _patiently(work)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(INTERVAL)
    deadline = time.monotonic() + LAST_TIMEOUT_S
    while not _patiently(lambda: agent.send(last=True)) and time.monotonic() < deadline:
        time.sleep(INTERVAL)
    code = child.returncode
    return code if code >= 0 else 128 - code


def _patiently(work: Any) -> bool:
    """Calls `work`. False if the endpoint is away: it is asked again later."""
    try:
        work()
    except EndpointAway as error:
        print(f"sagelet: {error}", file=sys.stderr, flush=True)
        return False
    return True


def main(host: str, command: list[str]) -> int:
    """Runs the agent. At the end it removes the files that it brought for the host."""
    given = json.loads(base64.b64decode(os.environ[TICKET]))
    root, allocation = given.pop("root"), given.pop("allocation")
    ticket = Ticket(**{**given, "prefix": f"{given['prefix']}{host}/"})
    own = allocation_manifest(allocation) if host == ALLOCATION else None
    os.makedirs(os.path.join(root, allocation), mode=0o700, exist_ok=True)
    agent = FileSyncAgent(Batches(ticket), root, own)
    try:
        return _run(agent, command)
    except EndpointRefuses as error:
        print(f"sagelet: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        if agent.manifest is not None:
            shutil.rmtree(os.path.join(root, agent.manifest.base), ignore_errors=True)
        if os.environ.get("SLURM_NODEID", "0") != "0":
            # The first node keeps it: the script that owns it runs there.
            shutil.rmtree(os.path.join(root, allocation), ignore_errors=True)


def host_here() -> str:
    """Returns the name of the host that runs on this node."""
    return f"algo-{int(os.environ['SLURM_NODEID']) + 1}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if sys.argv[1] == ALLOCATION else host_here(), sys.argv[2:]))
