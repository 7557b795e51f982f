"""Fills a data directory with something of every kind, and describes a data directory for comparison."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.model import lifecycle, training
from sagelet_engine.model.job import JobKey, SecondaryStatus
from sagelet_engine.model.log_events import LogEvent
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.s3.importing import import_directory
from sagelet_engine.s3.multipart import NamedPart, Uploads
from sagelet_engine.s3.store import S3Store
from sagelet_engine.store.iam import IamKey
from sagelet_engine.store.jobs import Store
from support.world import request

ACCOUNTS = (("123456789012", "us-east-1"), ("210987654321", "eu-west-1"))
#: Keys that can be file names, and keys that cannot.
KEYS = ("a", "a/b", "A", "d//", "..", "\u00fc\0", "x/" + "n" * 300)
PART = 5 * 1024 * 1024


def fill(data: Path, word: str = "one", keys: Sequence[str] = KEYS) -> None:
    """Adds jobs with logs, metrics and directories, and objects, in two accounts. `word` is in all of them."""
    data.mkdir(parents=True, exist_ok=True)
    store = Store(data / "sagelet.db")
    for account, region in ACCOUNTS:
        _add_job(store, data, JobKey(account, region, f"done-{word}"))
        store.iam.change(account, "aws", {IamKey("roles", word): json.dumps({"role": f"{word} of {account}"})})
    store.close()
    objects = S3Store(data / "s3", SystemClock())
    for account, region in ACCOUNTS:
        bucket = f"{word}-{account}"
        objects.create_bucket(bucket, account, region)
        for key in keys:
            with objects.stage(["SHA256"]) as staged:
                staged.write(f"{word} {account} {key}".encode())
                objects.put(bucket, key, staged, attributes={"Metadata": {"m": word}}, tags={"t": word})
    objects.close()


def add_uploads(data: Path, bucket: str) -> None:
    """Adds an object of two parts, and an unfinished upload with one part in its place and one beside it."""
    objects = S3Store(data / "s3", SystemClock())
    uploads = Uploads(objects)
    for key in ("parts", "under-way"):
        upload = uploads.begin(bucket, key)
        named = []
        for number, size in ((1, PART), (2, 10)):
            with uploads.part(upload, number, size, ["CRC32"]) as (part, kept):
                part.write(bytes([number]) * size)
            named.append(NamedPart(number, kept[0].etag, {}))
        if key == "parts":
            uploads.complete(upload, named)
        else:
            with uploads.part(upload, 2, 3, []) as (part, _):
                part.write(b"new")
    objects.close()


def add_linked(data: Path, bucket: str, source: Path) -> None:
    """Adds an object that is a link to a user's file, if the file system has links."""
    source.mkdir(exist_ok=True)
    (source / "linked").write_bytes(b"of the user's")
    objects = S3Store(data / "s3", SystemClock())
    list(import_directory(objects, source, bucket, "user"))
    objects.close()


def job_directory(data: Path, job: TrainingJob) -> Path:
    return data / "jobs" / job.key.account / job.key.region / job.id


def _add_job(store: Store, data: Path, key: JobKey) -> None:
    job_id = hashlib.md5(key.arn.encode()).hexdigest()
    job = training.create(key, job_id, request(key.name), {"tag": key.name}, 1000)
    store.insert(job)
    for number, step in enumerate(("DOWNLOADING", "TRAINING", "UPLOADING", "COMPLETED"), 1):
        job = replace(lifecycle.advance(job, SecondaryStatus[step], 1000 * number), launched=number > 1)
        job = store.update(job)
    stream = store.open_stream(job, "algo-1", f"{key.name}/algo-1-1", 1000)
    store.append_output(stream, [LogEvent(1000, f"line of {key.arn}")], "1", [MetricPoint("loss", 0.5, 1000)], 1000)
    model = job_directory(data, job) / "algo-1" / "opt-ml" / "model"
    model.mkdir(parents=True)
    (model / "weights").write_bytes(key.arn.encode())
    (model / "latest").symlink_to("weights")


def contents(data: Path) -> dict[str, Any]:
    """Returns everything in a data directory in a form that can be compared."""
    store, objects = Store(data / "sagelet.db"), S3Store(data / "s3", SystemClock())
    try:
        found: dict[str, Any] = {}
        for ended in store.ended_jobs():
            job = store.get_by_id(ended.id)
            (stream,) = store.logs.streams(ended.account, ended.region, job.key.name)
            lines = [event.text for event in store.logs.events(stream, limit=100)]
            found[job.key.arn] = (job, lines, store.last_points(ended.id))
        for account, partition in store.iam.accounts():
            records = store.iam.of(account, partition).items()
            found |= {f"iam {account} {partition} {'/'.join(key)}": record for key, record in records}
        for stored in objects.catalog.every_object():
            _, data_of = objects.open(stored.bucket, stored.key)
            with data_of:
                digest = hashlib.md5(data_of.read()).hexdigest()
            found[f"s3://{stored.bucket}/{stored.key}"] = (replace(stored, path="", linked_ns=None), digest)
        for bucket in (bucket for account, _ in ACCOUNTS for bucket in objects.catalog.buckets(account)):
            found[f"s3://{bucket.name}"] = bucket
            for upload in objects.catalog.uploads(bucket.name):
                found[upload.id] = (upload, objects.catalog.parts(upload))
    finally:
        store.close()
        objects.close()
    for name in ("jobs", "warm-pools"):
        for path in (data / name).rglob("*"):
            place = path.relative_to(data).as_posix()
            found[place] = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else "/"
    return found
