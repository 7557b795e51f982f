"""The server's side of `host_carrier`: parcels to and from hosts that do not share the data directory's file system.

Parcels are objects of the endpoint's own S3, in a bucket an account (`sagelet-staging-ACCOUNT`), below the launch id
and the host. The server writes and reads them in process; nodes do over HTTP, with the job's own credentials. How far
it has come is in a file a host: so a server that was killed goes on where it was.

What comes is the job's word. A parcel that no host of sagelet's sends fails its own job, and nothing else: the parcels
of the others are taken as if it were not there.
"""

import base64
import contextlib
import io
import json
import logging
import tarfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from sagelet_engine.data import packing
from sagelet_engine.data.objects import ObjectInfo, ObjectNotFound, ObjectStore
from sagelet_engine.database import StoreUnavailable
from sagelet_engine.jobs.session import SessionKey
from sagelet_engine.runtimes import host_files, parcel_unpacking
from sagelet_engine.runtimes.carrier_s3 import Ticket
from sagelet_engine.runtimes.parcel_unpacking import BadParcel
from sagelet_engine.runtimes.parcels import (
    ALLOCATION,
    DOWN,
    MANIFEST,
    UP,
    Manifest,
    ParcelKey,
    allocation_manifest,
    parcel,
    staging_bucket,
)

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
    #: Of a host: what becomes its /opt/ml.
    opt_ml: str = "opt-ml"
    #: Parcels so far.
    sent: int = 0
    received: int = 0
    #: Why nothing is taken from it any more; empty: it is.
    failed: str = ""

    @property
    def manifest(self) -> Manifest:
        """What comes from it: node and server go by the same."""
        if self.host == ALLOCATION:
            return replace(allocation_manifest(self.base), output=self.output)
        run = self.end.rpartition("/")[0]
        return Manifest(
            self.base,
            (self.opt_ml,),
            (f"{self.opt_ml}/input", f"{self.opt_ml}/code"),
            (f"{run}/{host_files.STARTED}", self.end),
            self.output,
            self.end,
            self.opt_ml,
        )

    @property
    def bucket(self) -> str:
        return staging_bucket(self.account)

    @property
    def prefix(self) -> str:
        return f"{self.launch_id}/{self.host}/"


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
            allocation = self._read(route.launch_id, ALLOCATION)
            if allocation is not None and allocation.failed:
                self._end(route, allocation.failed)

    def ticket(self, launch_id: str, allocation: str, endpoint: str, key: SessionKey, authority: str = "") -> str:
        """For the environment of all carriers of a launch. `allocation`: the directory that its script works in."""
        route = self.route(launch_id, ALLOCATION)
        ticket = Ticket(
            endpoint, route.region, route.bucket, f"{launch_id}/", key.access_key, key.secret, key.token, authority
        )
        content = {**asdict(ticket), "root": str(self._data.absolute()), "allocation": allocation}
        return base64.b64encode(json.dumps(content).encode()).decode()

    def send(self, launch_id: str, host: str, names: Sequence[str]) -> None:
        """Files and directories, as one parcel. A host's first brings its manifest."""
        with self._guard:
            route = self.route(launch_id, host)
            number = route.sent + 1
            # A server that was killed before it wrote down that it had sent it: the node may have it.
            while self._is_there(route, parcel(DOWN, number)):
                number += 1
            key = f"{route.prefix}{parcel(DOWN, number)}"
            with (
                self._objects.create(route.account, route.region, route.bucket, key) as out,
                tarfile.open(fileobj=out, mode="w|") as archive,
            ):
                if route.sent == 0 and host != ALLOCATION:
                    content = json.dumps(asdict(route.manifest)).encode()
                    member = tarfile.TarInfo(MANIFEST)
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
                for name in names:
                    packing.add_tree(archive, self._data, name)
            self._write(replace(route, sent=number))

    def collect(self) -> int:
        """Takes in all that has come from any host; returns how many parcels that were. One listing an account."""
        taken = 0
        with self._guard:
            routes = {(route.bucket, route.prefix): route for route in self.routes()}
            self._places |= {(route.account, route.region) for route in routes.values()}
            #: Hosts of which nothing more is taken at this look: what comes next must not overtake.
            waiting = set[tuple[str, str]]()
            for account, region in self._places:
                bucket = staging_bucket(account)
                # As a list: what is unpacked is deleted.
                for key in [found.key for found in self._listed(account, region, bucket)]:
                    named = ParcelKey.parse(key)
                    where = (bucket, "" if named is None else f"{named.launch_id}/{named.host}/")
                    try:
                        if named is None or where not in routes:
                            # The last words of a host that is closed, or nothing of ours.
                            self._objects.delete(account, region, bucket, key)
                        elif named.direction == UP and where not in waiting:
                            routes[where] = self._take(routes[where], key, named.number)
                            taken += 1
                    except (_Later, OSError, StoreUnavailable, ObjectNotFound) as error:
                        log.warning("%s cannot be taken in: %s; trying again", key, error)
                        waiting.add(where)
        return taken

    def close(self, launch_id: str) -> None:
        """Forgets a launch's hosts and what is left of their parcels."""
        with self._guard:
            for route in self.routes(launch_id):
                for found in list(self._listed(route.account, route.region, route.bucket, route.prefix)):
                    self._objects.delete(route.account, route.region, route.bucket, found.key)
                self._file(route.launch_id, route.host).unlink(missing_ok=True)

    def _take(self, route: Route, key: str, number: int) -> Route:
        """The parcels of a host come in order. One that is there again was taken by a server that was killed then.

        Raises _Later, OSError, StoreUnavailable or ObjectNotFound when the fault is not the parcel's.
        """
        due = route.received + 1
        if not route.failed and number > due and self._is_there(route, parcel(UP, due)):
            raise _Later(f"parcel {due} comes first")
        if not route.failed and number >= due:
            route = self._received(route, key, number)
        self._objects.delete(route.account, route.region, route.bucket, key)
        if number == 1:
            # The host has started, so it has its inputs: they need not be here twice.
            self._objects.delete(route.account, route.region, route.bucket, f"{route.prefix}{parcel(DOWN, 1)}")
        return route

    def _received(self, route: Route, key: str, number: int) -> Route:
        try:
            if number > route.received + 1:
                raise BadParcel(f"parcel {number} came before parcel {route.received + 1}")
            with TemporaryDirectory(dir=self._state) as scratch:
                archive = Path(scratch, "parcel.tar")
                self._objects.download(route.account, route.region, route.bucket, key, archive)
                parcel_unpacking.unpack(archive, self._data, route.manifest)
        except BadParcel as error:
            return self._fail(route, f"what the node of {route.host} sent cannot be taken: {error}")
        except (OSError, StoreUnavailable, ObjectNotFound):
            raise
        except Exception as error:
            # Whatever it is, it is this parcel's doing, and must not hold up the others.
            log.exception("%s cannot be unpacked", key)
            return self._fail(route, f"what the node of {route.host} sent cannot be taken: {error!r}")
        route = replace(route, received=number)
        self._write(route)
        return route

    def _fail(self, route: Route, why: str) -> Route:
        """The end of its host, of all hosts where it is the allocation: nothing more is taken from it."""
        log.warning("%s: %s", route.prefix, why)
        for other in self.routes(route.launch_id) if route.host == ALLOCATION else [route]:
            self._end(other, why)
        failed = replace(route, failed=why)
        self._write(failed)
        return failed

    def _end(self, route: Route, why: str) -> None:
        """As if the host had said so itself, and no other attempt would fare better."""
        if route.end:
            end = {"exit_code": None, "error": why, "finished_ms": None, "refused": True}
            host_files.write_json(self._data / route.base / route.end, end)

    def _is_there(self, route: Route, name: str) -> bool:
        return any(True for _ in self._listed(route.account, route.region, route.bucket, f"{route.prefix}{name}"))

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


class _Later(Exception):
    """It cannot be taken in now, and may be at the next look."""
