"""The server's side of `agent.py`: exchanges batches with hosts that share no file system with the server.

Batches are objects of the endpoint's own S3, in one bucket for each account (`sagelet-staging-ACCOUNT`), below the
launch id and the host. The server reads and writes them in process; nodes do so over HTTP, with the job's own
credentials. A file for each host says how far the exchange has come, so it goes on after the server was killed.

A batch may have been made by the job itself. A batch that no host of sagelet would send fails its own job. Batches of
other jobs are taken in as usual.
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

from sagelet_engine.base import json_files, left_on_node, packing
from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.model.batch_keys import ALLOCATION, DOWN, UP, BatchKey, batch_name, staging_bucket
from sagelet_engine.model.objects import ObjectInfo, ObjectNotFound, ObjectStore
from sagelet_engine.model.principal import owner
from sagelet_engine.model.session import SessionKey
from sagelet_engine.runtimes.node import host_files
from sagelet_engine.runtimes.slurm.file_sync import unpacking as batch_unpacking
from sagelet_engine.runtimes.slurm.file_sync.batches import MANIFEST, Manifest, allocation_manifest
from sagelet_engine.runtimes.slurm.file_sync.s3 import Ticket
from sagelet_engine.runtimes.slurm.file_sync.unpacking import BadBatch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Route:
    """One host, or the script of its allocation, whose files are mirrored."""

    account: str
    region: str
    launch_id: str
    host: str
    #: The host's directory, relative to the data directory. Its batches can change nothing outside of this directory.
    base: str
    #: Files in it, or empty if it has none.
    output: str = ""
    end: str = ""
    #: The directory that becomes the host's /opt/ml.
    opt_ml: str = "opt-ml"
    #: Number of batches so far.
    sent: int = 0
    received: int = 0
    #: Why the server no longer accepts its batches, or empty if it does.
    failed: str = ""

    @property
    def manifest(self) -> Manifest:
        """Returns which files come up. Node and server use the same manifest."""
        if self.host == ALLOCATION:
            return replace(allocation_manifest(self.base), output=self.output)
        run = self.end.rpartition("/")[0]
        return Manifest(
            base=self.base,
            parts=(self.opt_ml,),
            kept=(f"{self.opt_ml}/input", f"{self.opt_ml}/code"),
            words=(f"{run}/{host_files.STARTED}", self.end, f"{run}/{left_on_node.NAME}"),
            output=self.output,
            end=self.end,
            links=self.opt_ml,
            left_out=f"{run}/{left_on_node.NAME}",
        )

    @property
    def bucket(self) -> str:
        return staging_bucket(self.account)

    @property
    def prefix(self) -> str:
        return f"{self.launch_id}/{self.host}/"


class FileSyncServer:
    """Exchanges batches, as the server. Thread-safe. Names are relative to `data`; `state` is its own directory."""

    def __init__(self, data: Path, state: Path, objects: ObjectStore) -> None:
        self._data = data
        self._state = state
        self._objects = objects
        self._guard = threading.Lock()
        #: Accounts whose buckets are searched.
        self._accounts: set[str] = set()
        self._state.mkdir(parents=True, exist_ok=True)

    def open(self, route: Route) -> None:
        """Begins to sync a host's files. A sync that is under way goes on."""
        self._objects.make_bucket(owner(route.account), route.region, route.bucket)
        with self._guard:
            if self._read(route.launch_id, route.host) is None:
                self._write(route)
            allocation = self._read(route.launch_id, ALLOCATION)
            if allocation is not None and allocation.failed:
                self._end(route, allocation.failed)

    def ticket(self, launch_id: str, allocation: str, endpoint: str, key: SessionKey, authority: str = "") -> str:
        """Returns the variable for all agents of a launch. `allocation`: the directory in which its script works."""
        route = self.route(launch_id, ALLOCATION)
        ticket = Ticket(
            endpoint=endpoint,
            region=route.region,
            bucket=route.bucket,
            prefix=f"{launch_id}/",
            access_key=key.access_key,
            secret=key.secret,
            token=key.token,
            authority=authority,
        )
        content = {**asdict(ticket), "root": str(self._data.absolute()), "allocation": allocation}
        return base64.b64encode(json.dumps(content).encode()).decode()

    def send(self, launch_id: str, host: str, names: Sequence[str]) -> None:
        """Sends files and directories as one batch. A host's first batch includes its manifest."""
        with self._guard:
            route = self.route(launch_id, host)
            number = route.sent + 1
            # A killed server may have sent batches without noting that. The node may have them.
            while self._is_there(route, batch_name(DOWN, number)):
                number += 1
            key = f"{route.prefix}{batch_name(DOWN, number)}"
            with (
                self._objects.create(owner(route.account), route.bucket, key) as out,
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
        """Takes in the batches of all hosts and returns their number. It lists each account's bucket once."""
        taken = 0
        with self._guard:
            routes = {(route.bucket, route.prefix): route for route in self.routes()}
            self._accounts |= {route.account for route in routes.values()}
            #: Hosts whose further batches wait until the next look, so that none overtakes another.
            waiting = set[tuple[str, str]]()
            for account in self._accounts:
                bucket = staging_bucket(account)
                # As a list, since unpacked batches are deleted.
                for key in [found.key for found in self._listed(account, bucket)]:
                    named = BatchKey.parse(key)
                    where = (bucket, "" if named is None else f"{named.launch_id}/{named.host}/")
                    try:
                        if named is None or where not in routes:
                            # The batch is from a host that is closed, or not from sagelet.
                            self._objects.delete(owner(account), bucket, key)
                        elif named.direction == UP and where not in waiting:
                            routes[where] = self._take(routes[where], key, named.number)
                            taken += 1
                    except (_Later, OSError, StoreUnavailable, ObjectNotFound) as error:
                        log.warning("%s cannot be taken in: %s; trying again", key, error)
                        waiting.add(where)
        return taken

    def close(self, launch_id: str) -> None:
        """Forgets a launch's hosts and removes what is left of their batches."""
        with self._guard:
            for route in self.routes(launch_id):
                for found in list(self._listed(route.account, route.bucket, route.prefix)):
                    self._objects.delete(owner(route.account), route.bucket, found.key)
                self._file(route.launch_id, route.host).unlink(missing_ok=True)

    def _take(self, route: Route, key: str, number: int) -> Route:
        """Takes a batch. A host's batches come in order; a killed server may have taken one without deleting it.

        Raises _Later, OSError, StoreUnavailable or ObjectNotFound if the fault is not the batch's.
        """
        due = route.received + 1
        if not route.failed and number > due and self._is_there(route, batch_name(UP, due)):
            raise _Later(f"batch {due} comes first")
        if not route.failed and number >= due:
            route = self._received(route, key, number)
        self._objects.delete(owner(route.account), route.bucket, key)
        if number == 1:
            # The host has started, so it has its inputs, and the batch is needed no more.
            self._objects.delete(owner(route.account), route.bucket, f"{route.prefix}{batch_name(DOWN, 1)}")
        return route

    def _received(self, route: Route, key: str, number: int) -> Route:
        try:
            if number > route.received + 1:
                raise BadBatch(f"batch {number} came before batch {route.received + 1}")
            with TemporaryDirectory(dir=self._state) as scratch:
                archive = Path(scratch, "batch.tar")
                self._objects.download(owner(route.account), route.bucket, key, archive)
                batch_unpacking.unpack(archive, self._data, route.manifest)
        except BadBatch as error:
            return self._fail(route, f"what the node of {route.host} sent cannot be taken: {error}")
        except (OSError, StoreUnavailable, ObjectNotFound):
            raise
        except Exception as error:
            # Whatever happened, this batch caused it, and it must not hold up others.
            log.exception("%s cannot be unpacked", key)
            return self._fail(route, f"what the node of {route.host} sent cannot be taken: {error!r}")
        route = replace(route, received=number)
        self._write(route)
        return route

    def _fail(self, route: Route, why: str) -> Route:
        """Ends the route's host, or all hosts for an allocation. Its batches are not accepted any more."""
        log.warning("%s: %s", route.prefix, why)
        for other in self.routes(route.launch_id) if route.host == ALLOCATION else [route]:
            self._end(other, why)
        failed = replace(route, failed=why)
        self._write(failed)
        return failed

    def _end(self, route: Route, why: str) -> None:
        """Writes an end as if the host had reported it: another attempt would fail, too."""
        if route.end:
            end = {"exit_code": None, "error": why, "finished_ms": None, "refused": True}
            json_files.write_json(self._data / route.base / route.end, end)

    def _is_there(self, route: Route, name: str) -> bool:
        return any(True for _ in self._listed(route.account, route.bucket, f"{route.prefix}{name}"))

    def _listed(self, account: str, bucket: str, prefix: str = "") -> Iterator[ObjectInfo]:
        with contextlib.suppress(ObjectNotFound, StoreUnavailable):
            yield from self._objects.list(owner(account), bucket, prefix)

    # --- what is durable --------------------------------------------------------------------------------------

    def _file(self, launch_id: str, host: str) -> Path:
        return self._state / f"{launch_id}.{host}.json"

    def _read(self, launch_id: str, host: str) -> Route | None:
        found = json_files.read_json(self._file(launch_id, host))
        return None if found is None else Route(**found)

    def route(self, launch_id: str, host: str) -> Route:
        """Returns a host's route. Raises KeyError if its files are not synced."""
        route = self._read(launch_id, host)
        if route is None:
            raise KeyError(f"no files are synced for {launch_id} {host}")
        return route

    def _write(self, route: Route) -> None:
        json_files.write_json(self._file(route.launch_id, route.host), asdict(route))

    def routes(self, launch_id: str = "") -> list[Route]:
        """Returns the routes of one launch, or all."""
        pattern = f"{launch_id}.*.json" if launch_id else "*.json"
        read = [json_files.read_json(path) for path in sorted(self._state.glob(pattern))]
        return [Route(**found) for found in read if found is not None]


class _Later(Exception):
    """A batch cannot be taken in now, but maybe at the next look."""
