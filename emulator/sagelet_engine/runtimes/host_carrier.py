"""Where a node has no file system of the server's: brings a host's files to the node, and what changes back.

Run on the node as `python -I -S host_carrier.py HOST COMMAND...` around what works with the files, with the ticket in
the environment; standard library only. The files are at the same place as on the server, in a directory that the node
makes, and go with the host. What the server sends (plan, inputs, what is to stop) comes as parcels `down/N`, what the
host makes goes as parcels `up/N`: tar files that the other side unpacks in order. So on both sides all is as if they
shared a file system, a little late. A server that is away holds nothing up: what is due is sent when it is back.

HOST `allocation` is the script's: its files are the allocation's, which it has before any parcel comes.
"""

import base64
import contextlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

# `-I -S` knows neither the package nor site-packages: only the former is wanted here.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from sagelet_engine.runtimes import host_files, slurm_files
from sagelet_engine.runtimes.carrier_s3 import EndpointAway, EndpointRefuses, Parcels, Ticket

TICKET = "SAGELET_TICKET"
#: In a parcel: bytes to be appended to the host's output, and names that are gone.
OUTPUT_PART, DELETED = ".output", ".deleted.json"
#: In a host's first parcel: what of the files goes back (see Manifest).
MANIFEST = ".manifest.json"
ALLOCATION = "allocation"
#: Seconds between two looks at the files and at what the server has sent.
INTERVAL = 1.0
#: Bytes of output that one parcel takes.
OUTPUT_MOST = 8 * 1024 * 1024
#: Seconds that a host which has ended waits for a server that is away; Slurm's own limit comes first if it is less.
LAST_PATIENCE = 3600
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)

Mark = tuple[int, int]


def parcel(direction: str, number: int) -> str:
    """Names sort as numbers do."""
    return f"{direction}/{number:08d}.tar"


@dataclass(frozen=True)
class Manifest:
    """What goes back."""

    #: Relative to the data directory; all other names are relative to it.
    base: str
    #: Directories below; empty: all of it.
    parts: Sequence[str] = ("",)
    #: Files and directories that do not go.
    kept: Sequence[str] = ()
    #: A file of which only what is new goes.
    output: str = ""
    #: A file that goes last.
    end: str = ""
    #: Links go that stay in this directory.
    links: str = ""


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
        """Unpacks what has come. The server is believed."""
        while (answer := self._parcels.get(parcel("down", self._received + 1))) is not None:
            try:
                with answer, tarfile.open(fileobj=answer, mode="r|") as archive:
                    archive.extractall(self._root)
            except (OSError, tarfile.TarError) as error:
                raise EndpointAway(f"parcel {self._received + 1} was cut: {error}") from error
            self._received += 1
            found = host_files.read_json(os.path.join(self._root, MANIFEST))
            if found is not None:
                self.manifest = Manifest(**found)
                os.unlink(os.path.join(self._root, MANIFEST))
            self._known.update({name: mark for name, mark in self._look() if name not in self._known})

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
        self._parcels.put(parcel("up", self._sent + 1), self._due)  # type: ignore[arg-type]
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
        gone = sorted(self._known.keys() - looked.keys()) if without_end else []
        output = self._output(os.path.join(base, manifest.output))
        if not (resting or gone or output):
            return False
        due = tempfile.TemporaryFile()  # noqa: SIM115  # closed when it is sent
        with tarfile.open(fileobj=due, mode="w") as archive:
            _add(archive, OUTPUT_PART, output, {"SAGELET.offset": str(self._output_sent)})
            _add(archive, DELETED, json.dumps(gone).encode() if gone else b"", {})
            for name in sorted(resting):
                # It may go while we look.
                with contextlib.suppress(FileNotFoundError):
                    archive.add(os.path.join(base, name), name, recursive=False, filter=_anonymous)
        self._due = due  # type: ignore[assignment]
        self._output_sent += len(output)
        self._known = {name: mark for name, mark in self._known.items() if name not in gone} | resting
        return True

    def _output(self, path: str) -> bytes:
        """What the host has printed since."""
        try:
            with open(path, "rb") as file:
                file.seek(self._output_sent)
                return file.read(OUTPUT_MOST)
        except (FileNotFoundError, IsADirectoryError):
            return b""

    def _look(self) -> Iterator[tuple[str, Mark]]:
        if self.manifest is not None:
            for part in self.manifest.parts:
                yield from self._below(self.manifest, part)

    def _below(self, manifest: Manifest, directory: str) -> Iterator[tuple[str, Mark]]:
        base = os.path.join(self._root, manifest.base)
        try:
            entries = sorted(os.scandir(os.path.join(base, directory)), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            name = os.path.join(directory, entry.name)
            if name == manifest.output or name in manifest.kept or entry.name.endswith(".tmp"):
                continue
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    yield name, (0, 0)
                    yield from self._below(manifest, name)
                elif entry.is_file(follow_symlinks=False) or (
                    entry.is_symlink() and _stays(entry.path, os.path.join(base, manifest.links))
                ):
                    yield name, (status.st_size, status.st_mtime_ns)


def _stays(link: str, directory: str) -> bool:
    return not os.path.isabs(os.readlink(link)) and os.path.realpath(link).startswith(directory + os.sep)


def _add(archive: tarfile.TarFile, name: str, content: bytes, headers: dict[str, str]) -> None:
    if not content:
        return
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.pax_headers = headers
    archive.addfile(member, io.BytesIO(content))


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Users of the node are not the server's."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member if member.isreg() or member.isdir() or member.issym() else None


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
    kept = (slurm_files.GO, slurm_files.CONTROLS)
    own = Manifest(allocation, kept=kept, output=slurm_files.LOG) if host == ALLOCATION else None
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
