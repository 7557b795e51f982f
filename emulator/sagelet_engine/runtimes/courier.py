"""The server's side of `host_carrier`: parcels to and from hosts that do not share the data directory's file system.

Parcels are objects of the endpoint's own S3, in a bucket an account (`sagelet-staging-ACCOUNT`), below the launch id
and the host. The server writes and reads them in process; nodes do over HTTP, with the job's own credentials. How far
it has come is in a file a host: so a server that was killed goes on where it was.
"""

import base64
import contextlib
import io
import json
import logging
import os
import tarfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from sagelet_engine.data import tarballs
from sagelet_engine.data.objects import ObjectInfo, ObjectNotFound, ObjectStore
from sagelet_engine.database import StoreUnavailable
from sagelet_engine.jobs.session import SessionKey
from sagelet_engine.runtimes import host_files
from sagelet_engine.runtimes.carrier_s3 import Ticket
from sagelet_engine.runtimes.host_carrier import ALLOCATION, DELETED, MANIFEST, OUTPUT_PART, Manifest, parcel

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Route:
    """One host, or the script of its allocation, whose files are mirrored."""

    account: str
    region: str
    launch_id: str
    host: str
    #: Its directory, relative to the data directory. What it sends is about this and nothing else.
    base: str
    #: Files in it; empty: it has none.
    output: str = ""
    end: str = ""
    #: Parcels so far.
    sent: int = 0
    received: int = 0

    @property
    def bucket(self) -> str:
        return staging_bucket(self.account)

    @property
    def prefix(self) -> str:
        return f"{self.launch_id}/{self.host}/"


def staging_bucket(account: str) -> str:
    return f"sagelet-staging-{account}"


class Courier:
    """Thread-safe. Names are relative to `data`; `state` is a directory of its own."""

    def __init__(self, data: Path, state: Path, objects: ObjectStore) -> None:
        self._data = data
        self._state = state
        self._objects = objects
        self._guard = threading.Lock()
        #: Accounts and regions whose buckets are looked at.
        self._places: set[tuple[str, str]] = set()
        self._state.mkdir(parents=True, exist_ok=True)

    def open(self, route: Route) -> None:
        """Begins to carry for a host; one that is carried for already goes on."""
        self._objects.make_bucket(route.account, route.region, route.bucket)
        with self._guard:
            if self._read(route.launch_id, route.host) is None:
                self._write(route)

    def ticket(self, launch_id: str, allocation: str, endpoint: str, key: SessionKey, authority: str = "") -> str:
        """For the environment of all carriers of a launch. `allocation`: the directory that its script works in."""
        route = self.route(launch_id, ALLOCATION)
        ticket = Ticket(
            endpoint, route.region, route.bucket, f"{launch_id}/", key.access_key, key.secret, key.token, authority
        )
        content = {**asdict(ticket), "root": str(self._data.absolute()), "allocation": allocation}
        return base64.b64encode(json.dumps(content).encode()).decode()

    def send(self, launch_id: str, host: str, names: Sequence[str], manifest: Manifest | None = None) -> None:
        """Files and directories, as one parcel. A host's first brings its manifest."""
        with self._guard:
            route = self.route(launch_id, host)
            number = route.sent + 1
            # A server that was killed before it wrote down that it had sent it: the node may have it.
            while self._is_there(route, parcel("down", number)):
                number += 1
            key = f"{route.prefix}{parcel('down', number)}"
            with (
                self._objects.create(route.account, route.region, route.bucket, key) as out,
                tarfile.open(fileobj=out, mode="w|") as archive,
            ):
                if manifest is not None:
                    content = json.dumps(asdict(manifest)).encode()
                    member = tarfile.TarInfo(MANIFEST)
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
                for name in names:
                    archive.add(self._data / name, name)
            self._write(replace(route, sent=number))

    def collect(self) -> int:
        """Unpacks all that has come from any host; returns how many parcels that were. One listing an account."""
        taken = 0
        with self._guard:
            routes = {(route.bucket, route.prefix): route for route in self.routes()}
            self._places |= {(route.account, route.region) for route in routes.values()}
            for account, region in self._places:
                bucket = staging_bucket(account)
                # As a list: what is unpacked is deleted.
                for key in [found.key for found in self._listed(account, region, bucket)]:
                    prefix, direction, name = _parts(key)
                    route = routes.get((bucket, prefix))
                    if route is None:
                        # The last words of a host that is closed.
                        self._objects.delete(account, region, bucket, key)
                    if route is None or direction != "up":
                        continue
                    routes[bucket, prefix] = self._take(route, key, int(name.partition(".")[0]))
                    taken += 1
        return taken

    def close(self, launch_id: str) -> None:
        """Forgets a launch's hosts and what is left of their parcels."""
        with self._guard:
            for route in self.routes(launch_id):
                for found in list(self._listed(route.account, route.region, route.bucket, route.prefix)):
                    self._objects.delete(route.account, route.region, route.bucket, found.key)
                self._file(route.launch_id, route.host).unlink(missing_ok=True)

    def _take(self, route: Route, key: str, number: int) -> Route:
        """The parcels of a host come in order. One that is there again was taken by a server that was killed then."""
        if number > route.received + 1:
            log.warning("%s: parcel %d came before %d", route.prefix, number, route.received + 1)
            return route
        if number == route.received + 1:
            self._unpack(route, key)
            route = replace(route, received=number)
            self._write(route)
        self._objects.delete(route.account, route.region, route.bucket, key)
        if number == 1:
            # The host has started, so it has its inputs: they need not be here twice.
            self._objects.delete(route.account, route.region, route.bucket, f"{route.prefix}{parcel('down', 1)}")
        return route

    def _is_there(self, route: Route, name: str) -> bool:
        return any(True for _ in self._listed(route.account, route.region, route.bucket, f"{route.prefix}{name}"))

    def _unpack(self, route: Route, key: str) -> None:
        """May be repeated. A parcel that cannot be unpacked is the end of its host: bytes of it would be missing."""
        base = self._data / route.base
        with TemporaryDirectory(dir=self._state) as scratch:
            archive = Path(scratch, "parcel.tar")
            self._objects.download(route.account, route.region, route.bucket, key, archive)
            try:
                tarballs.unpack(archive, base)
                _append_output(base / OUTPUT_PART, base / route.output, _offset(archive))
                _remove_deleted(base)
            except (tarfile.TarError, OSError, ValueError) as error:
                log.exception("%s cannot be unpacked", key)
                said = f"what the node sent cannot be unpacked: {error}"
                if route.end:
                    host_files.write_json(base / route.end, {"exit_code": None, "error": said, "finished_ms": None})

    def _listed(self, account: str, region: str, bucket: str, prefix: str = "") -> Iterator[ObjectInfo]:
        with contextlib.suppress(ObjectNotFound, StoreUnavailable):
            yield from self._objects.list(account, region, bucket, prefix)

    # --- what is durable --------------------------------------------------------------------------------------

    def _file(self, launch_id: str, host: str) -> Path:
        return self._state / f"{launch_id}.{host}.json"

    def _read(self, launch_id: str, host: str) -> Route | None:
        found = host_files.read_json(self._file(launch_id, host))
        return None if found is None else Route(**found)

    def route(self, launch_id: str, host: str) -> Route:
        """Raises KeyError when nothing is carried for this host."""
        route = self._read(launch_id, host)
        if route is None:
            raise KeyError(f"nothing is carried for {launch_id} {host}")
        return route

    def _write(self, route: Route) -> None:
        host_files.write_json(self._file(route.launch_id, route.host), asdict(route))

    def routes(self, launch_id: str = "") -> list[Route]:
        """Of one launch, or all."""
        pattern = f"{launch_id}.*.json" if launch_id else "*.json"
        read = [host_files.read_json(path) for path in sorted(self._state.glob(pattern))]
        return [Route(**found) for found in read if found is not None]


def _parts(key: str) -> tuple[str, str, str]:
    """`LAUNCH/HOST/up/00000001.tar` -> `LAUNCH/HOST/`, `up`, `00000001.tar`."""
    host, _, name = key.rpartition("/")
    prefix, _, direction = host.rpartition("/")
    return f"{prefix}/", direction, name


def _offset(archive: Path) -> int:
    with tarfile.open(archive) as opened:
        for member in opened:
            if member.name == OUTPUT_PART:
                return int(member.pax_headers["SAGELET.offset"])
    return 0


def _append_output(part: Path, target: Path, offset: int) -> None:
    """Where the part belongs, so that a part which is appended again changes nothing."""
    if not part.exists():
        return
    with os.fdopen(os.open(target, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as output:
        output.seek(offset)
        output.write(part.read_bytes())
    part.unlink()


def _remove_deleted(root: Path) -> None:
    """Names below the root only; a directory goes when it is empty."""
    listing = root / DELETED
    if not listing.exists():
        return
    names = json.loads(listing.read_text())
    listing.unlink()
    inside = root.resolve()
    for name in sorted(names, reverse=True):
        path = root / name
        if not path.parent.resolve().is_relative_to(inside):
            raise ValueError(f"{name!r} is outside of the host's directory")
        with contextlib.suppress(FileNotFoundError, OSError):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
