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
import errno
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

from sagelet_engine.base import extraction, left_on_node, nofollow, packing
from sagelet_engine.base.inner_links import MOST_OPENED_IN_ALL, Budget, resolved
from sagelet_engine.base.key_names import Why
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

#: Size, time of the last change in ns, and what a link is sent as.
Mark = tuple[int, int, str]
Parts = tuple[str, ...]


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
        #: What the last look left out, by the path below the host's directory.
        self._left: dict[str, Why] = {}
        #: What the server knows of that.
        self._left_sent: dict[str, Why] = {}
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
        looked = dict(self._look(last=last))
        if without_end:
            looked.pop(manifest.end, None)
        changed = {name: mark for name, mark in looked.items() if self._known.get(name) != mark}
        resting = {name: mark for name, mark in changed.items() if last or self._seen.get(name) == mark}
        self._seen = looked
        all_gone = sorted(filter(self._is_gone, self._known.keys() - looked.keys())) if without_end else []
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
                try:
                    _add_entry(archive, base, name, resting[name])
                except (nofollow.NoFile, PermissionError):
                    # It was removed or closed meanwhile. The next look says which.
                    del resting[name]
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

    def _is_gone(self, name: str) -> bool:
        """False for a file that may not be read, or that is below such a directory."""
        places = [name, *(f"{name[:end]}/" for end, letter in enumerate(name) if letter == "/")]
        return not any(self._left.get(place) is Why.UNREADABLE for place in places)

    def _say_left(self, left: dict[str, Why]) -> None:
        """Writes what was left out into the host's file of that."""
        manifest = self.manifest
        if manifest is None or left == self._left_sent or not manifest.left_out:
            return
        self._left_sent = left
        root = f"{manifest.links}/"
        named = {path[len(root) :]: why for path, why in left.items() if path.startswith(root)}
        # The job may have removed the directory.
        with contextlib.suppress(nofollow.NoFile):
            nofollow.write(os.path.join(self._root, manifest.base), manifest.left_out, left_on_node.encoded(named))

    def _look(self, *, last: bool = False) -> Iterator[tuple[str, Mark]]:
        """Yields what comes up. Says what does not, if that is so at two looks, or at the `last`."""
        if self.manifest is None:
            return
        before, self._left = self._left, {}
        base = os.path.join(self._root, self.manifest.base)
        yield from self._tree(base, self.manifest)
        self._say_left({path: why for path, why in self._left.items() if last or before.get(path) == why})
        for word in self.manifest.words:
            parts = tuple(word.split("/"))
            with contextlib.suppress(FileNotFoundError), nofollow.directory(base, parts[:-1]) as parent:
                status = os.lstat(parts[-1], dir_fd=parent)
                if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
                    yield word, _mark(status)

    def _tree(self, base: str, manifest: Manifest) -> Iterator[tuple[str, Mark]]:
        """Yields files, directories and links. Notes in `_left` what stays."""
        budget = Budget(0, 0, MOST_OPENED_IN_ALL)
        # Not recursive, because a script may nest directories to any depth.
        waiting = [tuple(part.split("/")) for part in manifest.parts]
        while waiting:
            above = waiting.pop()
            for parts, status, target in self._entries(base, manifest, above):
                mark = self._marked(base, manifest, parts, status, target, budget)
                if mark is not None:
                    yield "/".join(parts), mark
                if stat.S_ISDIR(status.st_mode):
                    waiting.append(parts)

    def _marked(
        self, base: str, manifest: Manifest, parts: Parts, status: os.stat_result, target: "str | None", budget: Budget
    ) -> "Mark | None":
        """Returns the version of an entry. None, with a note of why, for one that does not come up."""
        if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            return _mark(status)
        if target is None:
            self._left["/".join(parts)] = Why.SPECIAL
        elif (sent := _sent_as(base, manifest, parts, target, budget)) is None:
            self._left["/".join(parts)] = Why.MANY if budget.is_spent else Why.LINK
        else:
            return _mark(status, sent)
        return None

    def _entries(self, base: str, manifest: Manifest, above: Parts) -> "list[tuple[Parts, os.stat_result, str | None]]":
        """Returns what a directory has that may come up, with the targets of links. Empty if the directory is gone."""
        found: list[tuple[Parts, os.stat_result, str | None]] = []
        try:
            with nofollow.directory(base, above, listing=True) as opened:
                for name in sorted(os.listdir(opened)):
                    parts = (*above, name)
                    if not manifest.carries(parts):
                        continue
                    # The server's readers refuse a longer name, too.
                    if len(os.fsencode("/".join(parts))) > extraction.MOST_NAME:
                        self._left["/".join(parts)] = Why.KEY
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        status = os.lstat(name, dir_fd=opened)
                        target = os.readlink(name, dir_fd=opened) if stat.S_ISLNK(status.st_mode) else None
                        if stat.S_ISREG(status.st_mode) and not _may_read(name, opened):
                            self._left["/".join(parts)] = Why.UNREADABLE
                            continue
                        found.append((parts, status, target))
        except nofollow.NoFile:
            return []
        except PermissionError:
            self._left["/".join(above) + "/"] = Why.UNREADABLE
        return found


def _may_read(name: str, parent: int) -> bool:
    return os.access(name, os.R_OK, dir_fd=parent, effective_ids=True)


def _add_entry(archive: tarfile.TarFile, base: str, name: str, mark: Mark) -> None:
    """Adds a file, a directory or a link to a batch. Raises nofollow.NoFile, or PermissionError."""
    if not mark[2]:
        packing.add(archive, base, name, name)
        return
    parts = tuple(name.split("/"))
    with nofollow.directory(base, parts[:-1]) as parent:
        try:
            status = os.lstat(parts[-1], dir_fd=parent)
        except FileNotFoundError as error:
            raise nofollow.NoFile(error.errno, error.strerror, name) from error
        if not stat.S_ISLNK(status.st_mode):
            raise nofollow.NoFile(errno.ENOENT, "not a link any more", name)
        archive.addfile(packing.member_of(name, status, mark[2]))


def _mark(status: os.stat_result, link: str = "") -> Mark:
    return (0, 0, "") if stat.S_ISDIR(status.st_mode) else (status.st_size, status.st_mtime_ns, link)


def _sent_as(base: str, manifest: Manifest, parts: Parts, target: str, budget: Budget) -> "str | None":
    """Returns what a link is sent as: its own words if they stay in its directory, else the way that it leads there
    (from an absolute path, or through other links). None if it leads out.
    """
    if not manifest.links:
        return None
    root = os.path.join(base, manifest.links)
    inner = parts[len(manifest.links.split("/")) :]
    if manifest.takes_link(parts, target) and nofollow.leads_within(root, inner, target):
        return target
    place = None if budget.is_spent else resolved(Path(root), inner, ("/opt/ml", root), budget)
    if not place:
        return None
    way = os.path.relpath("/".join(place), "/".join(inner[:-1]) or ".")
    return way if manifest.takes_link(parts, way) else None


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
