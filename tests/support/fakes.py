"""Stand-ins for everything outside the engine: time, S3, CloudWatch and the hosts."""

import contextlib
import hashlib
import io
import queue
import shutil
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.model.cluster import Cluster
from sagelet_engine.model.job import Job, JobKey
from sagelet_engine.model.objects import ObjectInfo, ObjectNotFound
from sagelet_engine.model.orchestration import Orchestration
from sagelet_engine.model.principal import Authorize, Principal, allow_all, object_arn
from sagelet_engine.model.runtime import Capabilities, Handle, LaunchPlan, Line, Observation, Usage
from sagelet_engine.model.sinks import MetricPoint
from support.object_batch import Batch


class FakeClock:
    """A clock that stands still until a test turns it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._guard = threading.Lock()

    def now_ms(self) -> int:
        with self._guard:
            return self._now_ms

    def turn(self, seconds: float) -> None:
        with self._guard:
            self._now_ms += round(seconds * 1000)


class FakeObjects:
    """S3 in a directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.authorize: Authorize = allow_all
        self.uploads: list[str] = []
        self.deletes: list[str] = []
        #: Buckets that do not exist. Any other is made when something is put into it.
        self.missing: set[str] = set()
        #: Times of writing, ms since the epoch, by bucket and key. Unknown for all other objects.
        self.written: dict[tuple[str, str], int] = {}

    def put(self, bucket: str, key: str, data: bytes) -> None:
        path = self._root / bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def read(self, bucket: str, key: str) -> bytes:
        return (self._root / bucket / key).read_bytes()

    def list(self, principal: Principal, bucket: str, prefix: str) -> Iterator[ObjectInfo]:
        self.authorize(principal, "s3:ListBucket", object_arn(bucket))
        root = self._root / bucket
        if not root.is_dir():
            raise ObjectNotFound(bucket)
        for path in sorted(root.rglob("*")):
            key = path.relative_to(root).as_posix()
            if path.is_file() and key.startswith(prefix):
                etag = hashlib.md5(path.read_bytes()).hexdigest()
                yield ObjectInfo(key, path.stat().st_size, etag, self.written.get((bucket, key), 0))

    def size(self, principal: Principal, bucket: str, key: str) -> int | None:
        self.authorize(principal, "s3:GetObject", object_arn(bucket, key))
        path = self._root / bucket / key
        return path.stat().st_size if path.is_file() else None

    def download(self, principal: Principal, bucket: str, key: str, target: Path) -> None:
        self.authorize(principal, "s3:GetObject", object_arn(bucket, key))
        if not (self._root / bucket / key).is_file():
            raise ObjectNotFound(key)
        shutil.copyfile(self._root / bucket / key, target)

    def link(self, principal: Principal, bucket: str, key: str, target: Path) -> None:
        self.download(principal, bucket, key, target)

    def upload(self, principal: Principal, source: Path, bucket: str, key: str) -> None:
        with self.create(principal, bucket, key) as out:
            out.write(source.read_bytes())

    @contextmanager
    def create(self, principal: Principal, bucket: str, key: str) -> Iterator[BinaryIO]:
        if bucket in self.missing:
            raise ObjectNotFound(bucket)
        data = io.BytesIO()
        yield data
        self.put(bucket, key, data.getvalue())
        self.uploads.append(f"s3://{bucket}/{key}")

    @contextmanager
    def batch(self, principal: Principal, bucket: str) -> Iterator[Batch]:
        if bucket in self.missing:
            raise ObjectNotFound(bucket)
        batch = Batch()
        yield batch
        for key, data in batch.made.items():
            self.put(bucket, key, data)
            self.uploads.append(f"s3://{bucket}/{key}")

    def make_bucket(self, principal: Principal, region: str, bucket: str) -> None:
        self.missing.discard(bucket)

    def has_bucket(self, principal: Principal, bucket: str) -> bool:
        return bucket not in self.missing

    def delete(self, principal: Principal, bucket: str, key: str) -> None:
        (self._root / bucket / key).unlink(missing_ok=True)
        self.deletes.append(f"s3://{bucket}/{key}")

    def under(self, bucket: str, prefix: str = "") -> dict[str, bytes]:
        """The objects whose key starts with `prefix`."""
        if not (self._root / bucket).is_dir():
            return {}
        objects = {}
        for path in sorted((self._root / bucket).rglob("*")):
            key = path.relative_to(self._root / bucket).as_posix()
            # A file may be deleted meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if path.is_file() and key.startswith(prefix):
                    objects[key] = path.read_bytes()
        return objects


class FakeMetrics:
    def __init__(self) -> None:
        self.points: list[tuple[str, MetricPoint]] = []

    def publish(self, key: JobKey, points: Sequence[MetricPoint]) -> None:
        self.points += [(key.name, point) for point in points]


class FakeStatuses:
    """Remembers what was announced. Fails while a test tells it to."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.orchestrations: list[Orchestration] = []
        self.failing = False
        self.heard = True

    @property
    def is_heard(self) -> bool:
        return self.heard

    def announce(self, job: Job | Orchestration) -> None:
        if self.failing:
            raise RuntimeError("a bug of the sink")
        if isinstance(job, Job):
            self.jobs.append(job)
        else:
            self.orchestrations.append(job)


@dataclass
class FakeHost:
    """A host that prints and ends as the test says."""

    handle: Handle
    plan: LaunchPlan
    printed: list[Line] = field(default_factory=list)
    exit_code: int | None = None
    finished_ms: int | None = None
    signals: list[str] = field(default_factory=list)
    usage: Usage | None = None
    changed: "queue.SimpleQueue[None]" = field(default_factory=queue.SimpleQueue)

    def say(self, *texts: str, at_ms: int | None = None) -> None:
        """Prints lines at a time, or each 1 ms after the one before it."""
        for text in texts:
            number = len(self.printed)
            time_ms = self.handle.started_ms + number if at_ms is None else at_ms
            self.printed.append(Line(time_ms, text, str(number)))

    def save_model(self) -> None:
        """Leaves a model, so that the doctor has nothing to say of a job that completes."""
        opt_ml = next(host.opt_ml for host in self.plan.hosts if host.name == self.handle.host)
        (opt_ml / "model" / "model.pt").write_bytes(b"weights")

    def end(self, exit_code: int) -> None:
        self.exit_code = exit_code


class AnyImage(set[str]):
    """A set that contains every image."""

    def __contains__(self, _image: object) -> bool:
        return True


class FakeRuntime:
    """A runtime with hosts in memory, which outlive a restart of the engine as real hosts do."""

    name = "fake"
    endpoint_host = "endpoint"
    cluster: Cluster | None = None
    capabilities = Capabilities("`sagelet image build --variant cu13`")
    awaits_time = True

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.hosts: dict[str, FakeHost] = {}
        self.images: set[str] = {"sagelet/training:0.1.0"}
        self.launches: dict[str, int] = defaultdict(int)
        self.unavailable = 0
        self.reaped: list[str] = []
        self.on_launch: list[object] = []

    def has_image(self, image: str) -> bool:
        return image in self.images

    def launch(self, plan: LaunchPlan) -> list[Handle]:
        if self.unavailable:
            self.unavailable -= 1
            raise RuntimeUnavailable("the engine does not answer")
        for error in self.on_launch:
            assert isinstance(error, Exception)
            raise error
        self.launches[plan.job_id] += 1
        for host in plan.hosts:
            ref = f"{plan.job_id}/{host.name}"
            if ref not in self.hosts:
                self.hosts[ref] = FakeHost(Handle(host.name, ref, self._clock.now_ms()), plan)
        return self.find(plan.job_id)

    def find(self, job_id: str) -> list[Handle]:
        return [host.handle for ref, host in sorted(self.hosts.items()) if ref.startswith(f"{job_id}/")]

    def observe(self, handle: Handle) -> Observation:
        host = self.hosts.get(handle.ref)
        if host is None:
            return Observation(running=False, error="it was removed")
        return Observation(host.exit_code is None, host.exit_code, finished_ms=host.finished_ms)

    def usage(self, handle: Handle) -> Usage | None:
        host = self.hosts.get(handle.ref)
        return host.usage if host is not None and host.exit_code is None else None

    def lines(self, handle: Handle, position: str | None) -> Iterator[list[Line]]:
        host = self.hosts.get(handle.ref)
        if host is None:
            return
        done = -1 if position is None else int(position)
        while True:
            ended = host.exit_code is not None
            new = host.printed[done + 1 :]
            if new:
                done += len(new)
            yield new
            if ended and done + 1 == len(host.printed):
                return
            threading.Event().wait(0.005)

    def end_lost(self, *, dry_run: bool = False) -> list[str]:
        return []

    def jobs(self) -> set[str]:
        return {host.plan.job_id for host in self.hosts.values()}

    def stop(self, handle: Handle, *, force: bool = False) -> None:
        self.hosts[handle.ref].signals.append("KILL" if force else "TERM")

    def reap(self, job_id: str) -> None:
        for handle in self.find(job_id):
            self.hosts.pop(handle.ref)
        self.reaped.append(job_id)
