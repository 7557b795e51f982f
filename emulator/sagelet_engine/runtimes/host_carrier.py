"""Where a node has no file system of the server's: brings a host's files to the node, and what changes back.

Run on the node as `python -I -S host_carrier.py HOST COMMAND...` around what works with the files, with the ticket in
the environment; standard library only. The files are at the same place as on the server, in a directory that the node
makes, and go with the host. What the server sends (plan, inputs, what is to stop) comes as parcels `down/N`, what the
host makes goes as parcels `up/N`: tar files that the other side unpacks in order. So on both sides all is as if they
shared a file system, a little late. A server that is away holds nothing up: what is due is sent when it is back.

HOST `allocation` is the script's: its files are the allocation's, which it has before any parcel comes.

The job may write to its files here, so they are read and unpacked through no link (`nofollow`, `data/members`).
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

# `-I -S` knows neither the package nor site-packages: only the former is wanted here.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sagelet_engine import nofollow
from sagelet_engine.data import members, packing
from sagelet_engine.runtimes.carrier_s3 import EndpointAway, EndpointRefuses, Parcels, Ticket
from sagelet_engine.runtimes.parcels import (
    ALLOCATION,
    DELETED,
    DOWN,
    MANIFEST,
    MOST_DELETED,
    MOST_OUTPUT,
    MOST_WORD,
    OFFSET,
    OUTPUT_PART,
    UP,
    Manifest,
    allocation_manifest,
    parcel,
)

TICKET = "SAGELET_TICKET"
#: Seconds between two looks at the files and at what the server has sent.
INTERVAL = 1.0
#: Seconds that a host which has ended waits for a server that is away; Slurm's own limit comes first if it is less.
LAST_PATIENCE = 3600
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)

Mark = tuple[int, int]


class Carrier:
    """The mirror of one host's files on the node. `root` is the data directory."""

    def __init__(self, parcels: Parcels, root: str, manifest: Manifest | None) -> None:
        """Without a manifest, it comes with the first parcel."""
        self._parcels = parcels
        self._root = root
        self.manifest = manifest
        self._received = 0
        self._sent = 0
        #: What the server has of each file.
        self._known: dict[str, Mark] = {}
        #: As of the last look.
        self._seen: dict[str, Mark] = {}
        self._output_sent = 0
        #: The parcel that the server may not have: it is sent again as it is, since it may have it all the same.
        self._due: tempfile._TemporaryFileWrapper[bytes] | None = None

    def receive(self) -> None:
        """Unpacks what has come."""
        while (answer := self._parcels.get(parcel(DOWN, self._received + 1))) is not None:
            try:
                with answer:
                    members.extract(members.Reader(answer), Path(self._root), divert=self._take)
                    # Raises where the answer was cut between two members.
                    answer.read()
            except (OSError, tarfile.TarError, http.client.HTTPException) as error:
                raise EndpointAway(f"parcel {self._received + 1} was cut: {error}") from error
            self._received += 1
            self._known.update({name: mark for name, mark in self._look() if name not in self._known})

    def _take(self, parts: members.Parts, _member: tarfile.TarInfo, content: "BinaryIO | None") -> bool:
        """See `members.Divert`."""
        if parts != (MANIFEST,) or content is None:
            return False
        self.manifest = Manifest(**nofollow.parsed(content.read(MOST_WORD + 1), MOST_WORD))
        return True

    def send(self, *, last: bool = False) -> None:
        """Sends what has changed and is at rest; with `last` all that has changed, and then how the host ended."""
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
        self._parcels.put(parcel(UP, self._sent + 1), self._due)  # type: ignore[arg-type]
        self._sent += 1
        self._due.close()
        self._due = None

    def _pack(self, manifest: Manifest, *, last: bool, without_end: bool) -> bool:
        """Makes the next parcel; False: there is nothing to send."""
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
            # Something of these may be in the place of what comes.
            resting = {}
        output = self._output(base, manifest)
        if not (resting or gone or output):
            return False
        due = tempfile.TemporaryFile()  # noqa: SIM115  # closed when it is sent
        with tarfile.open(fileobj=due, mode="w") as archive:
            _add(archive, OUTPUT_PART, output, {OFFSET: str(self._output_sent)})
            # Before what may come in their place.
            _add(archive, DELETED, json.dumps(gone).encode() if gone else b"", {})
            for name in sorted(resting):
                # It may go while we look.
                with contextlib.suppress(nofollow.NoFile):
                    packing.add(archive, base, name, name)
        self._due = due  # type: ignore[assignment]
        self._output_sent += len(output)
        self._known = {name: mark for name, mark in self._known.items() if name not in gone} | resting
        return True

    def _output(self, base: str, manifest: Manifest) -> bytes:
        """What the host has printed since."""
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
            # A longer name is none to the server's readers either.
            if not manifest.carries(parts) or len(os.fsencode("/".join(parts))) > members.MOST_NAME:
                continue
            if stat.S_ISREG(status.st_mode):
                yield "/".join(parts), _mark(status)
            elif stat.S_ISDIR(status.st_mode):
                yield "/".join(parts), _mark(status)
                yield from self._below(base, manifest, parts)
            elif target is not None and manifest.takes_link(parts, target) and _stays(base, manifest, parts, target):
                yield "/".join(parts), _mark(status)


def _entries(base: str, above: tuple[str, ...]) -> list[tuple[str, os.stat_result, "str | None"]]:
    """What is in a directory, by name, and where links lead; empty where it is gone."""
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
    """Whether a link leads to something in its directory, through whatever other links there are."""
    above = tuple(manifest.links.split("/"))
    return nofollow.leads_within(os.path.join(base, *above), parts[len(above) :], target)


def _fitting(names: list[str]) -> list[str]:
    """As many as one parcel takes: the others are still gone at the next look."""
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


def _run(carrier: Carrier, command: list[str]) -> int:
    """The command's exit code."""
    while carrier.manifest is None:
        _patiently(carrier.receive)
        time.sleep(INTERVAL)
    child = subprocess.Popen(command)
    for number in FORWARDED:
        signal.signal(number, lambda received, _frame: child.send_signal(received))
    while child.poll() is None:
        for work in (carrier.receive, carrier.send):
            _patiently(work)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(INTERVAL)
    deadline = time.monotonic() + LAST_PATIENCE
    while not _patiently(lambda: carrier.send(last=True)) and time.monotonic() < deadline:
        time.sleep(INTERVAL)
    code = child.returncode
    return code if code >= 0 else 128 - code


def _patiently(work: Any) -> bool:
    """Whether it was done; an endpoint that is away is asked again later."""
    try:
        work()
    except EndpointAway as error:
        print(f"sagelet: {error}", file=sys.stderr, flush=True)
        return False
    return True


def main(host: str, command: list[str]) -> int:
    """Also takes the files of the host away that it has brought."""
    given = json.loads(base64.b64decode(os.environ[TICKET]))
    root, allocation = given.pop("root"), given.pop("allocation")
    ticket = Ticket(**{**given, "prefix": f"{given['prefix']}{host}/"})
    own = allocation_manifest(allocation) if host == ALLOCATION else None
    os.makedirs(os.path.join(root, allocation), mode=0o700, exist_ok=True)
    carrier = Carrier(Parcels(ticket), root, own)
    try:
        return _run(carrier, command)
    except EndpointRefuses as error:
        print(f"sagelet: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        if carrier.manifest is not None:
            shutil.rmtree(os.path.join(root, carrier.manifest.base), ignore_errors=True)
        if os.environ.get("SLURM_NODEID", "0") != "0":
            # The script, whose it is, runs on the first node.
            shutil.rmtree(os.path.join(root, allocation), ignore_errors=True)


def host_here() -> str:
    """The host that this node is."""
    return f"algo-{int(os.environ['SLURM_NODEID']) + 1}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if sys.argv[1] == ALLOCATION else host_here(), sys.argv[2:]))
