"""Records what today's sagelet writes, as SQL that a reviewer can read: `python tests/data/schemas/record.py`.

There is one file for each database and schema version, written by the code that had that version. No file is ever made
again. A change that adds a migration adds a file.
No commit has schema 1 of sagelet.db: that file is the one of schema 2 without what its migration added.
"""

import argparse
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.model import lifecycle, training
from sagelet_engine.model.job import JobKey, SecondaryStatus
from sagelet_engine.model.log_events import LogEvent
from sagelet_engine.model.sinks import MetricPoint
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.store.jobs import Store

S = SecondaryStatus
ACCOUNTS = {"123456789012": "us-east-1", "210987654321": "eu-west-1"}
T0 = 1_700_000_000_000
LINES = ("first line", "loss: 0.5 \u00fc \U0001f600", "")


def request(name: str) -> dict[str, Any]:
    return {
        "TrainingJobName": name,
        "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
        "RoleArn": "arn:aws:iam::123456789012:role/SageMakerRole",
        "HyperParameters": {"epochs": "3", "text": '"x y" \u00fc'},
        "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
        "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 10},
        "StoppingCondition": {"MaxRuntimeInSeconds": 600},
    }


def fill_jobs(store: Store) -> None:
    for account, region in ACCOUNTS.items():
        for steps in (0, 2, 4):
            name = {0: "waits", 2: "trains", 4: "done"}[steps]
            job = training.create(
                JobKey(account, region, name), f"{account[:4]}{steps}".ljust(32, "0"), request(name), {"k": name}, T0
            )
            store.insert(job)
            _live(store, job, steps)


def _live(store: Store, job: TrainingJob, steps: int) -> None:
    for number, step in enumerate((S.DOWNLOADING, S.TRAINING, S.UPLOADING, S.COMPLETED)[:steps], 1):
        job = lifecycle.advance(job, step, T0 + 10_000 * number)
        if step is S.TRAINING:
            job = replace(job, launched=True, placed_ms=T0 + 5_000)
        job = store.update(job)
    if steps:
        stream = store.open_stream(job, "algo-1", f"{job.key.name}/algo-1-1700000010", T0 + 10_000)
        events = [LogEvent(T0 + 11_000 + number, text) for number, text in enumerate(LINES)]
        store.append_output(stream, events, "3", [MetricPoint("loss", 0.5, T0 + 11_001)], T0 + 12_000)


def fill_orchestrations(store: Store) -> None:
    """A tuning job of each account, with a trial that has ended and one that is planned."""
    from sagelet_engine.model.job import JobStatus
    from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind
    from sagelet_engine.model.tuning import TrialState, TuningJob, trial_of
    from sagelet_engine.store.orchestration_codecs import TUNING

    for account, region in ACCOUNTS.items():
        key = OrchestrationKey(account, region, "Tune", OrchestrationKind.TUNING)
        body = {
            "HyperParameterTuningJobName": "Tune",
            "HyperParameterTuningJobConfig": {
                "Strategy": "Random",
                "HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": "loss"},
                "ResourceLimits": {"MaxNumberOfTrainingJobs": 4, "MaxParallelTrainingJobs": 2},
                "ParameterRanges": {"IntegerParameterRanges": [{"Name": "n", "MinValue": "1", "MaxValue": "9"}]},
            },
            "TrainingJobDefinition": {**request("x"), "StaticHyperParameters": {"epochs": "3"}},
        }
        job = TuningJob(key, account.ljust(32, "0"), body, T0, T0, tags={"k": "tune"})
        kept = store.orchestrations.of(TUNING)
        kept.insert(job)
        first, second = (trial_of(job, ordinal, "", {"n": str(ordinal)}) for ordinal in (1, 2))
        ended = replace(first, state=TrialState.ENDED, status=JobStatus.COMPLETED, objective=0.5, end_ms=T0 + 9_000)
        kept.update(replace(job, best=ended, modified_ms=T0 + 9_000), [ended, second])


def fill_pipelines(store: Store) -> None:
    """A pipeline of each account with two versions, and an execution with a step that has ended and one that runs."""
    from sagelet_engine.model.pipeline import Pipeline, PipelineExecution, PipelineKey, StepRun, StepState, StepStatus
    from sagelet_engine.store.orchestration_codecs import PIPELINE_EXECUTION

    text = json.dumps({"Version": "2020-12-01", "Steps": [{"Name": "end", "Type": "Fail", "Arguments": {}}]})
    for account, region in ACCOUNTS.items():
        key = PipelineKey(account, region, "Pipe")
        store.pipelines.insert(Pipeline(key, text, "arn:aws:iam::123456789012:role/R", T0, T0, tags={"k": "pipe"}))
        store.pipelines.change(key, lambda one: replace(one, version=2, definition=text.replace("end", "stop")))
        begun = PipelineExecution(
            key.execution("abcdefghijkl"), account.ljust(32, "1"), {"ClientRequestToken": "t" * 32}, T0, T0,
            definition=text, pipeline="Pipe", parameters={"n": 3},
        )  # fmt: skip
        kept = store.orchestrations.of(PIPELINE_EXECUTION)
        kept.insert(begun)
        done = StepRun(1, "a", 1, StepState.ENDED, StepStatus.SUCCEEDED, T0, end_ms=T0 + 9, properties={"x": 1})
        runs = StepRun(2, "b", 2, StepState.RUNNING, StepStatus.EXECUTING, T0, arguments={"y": 2}, made="job")
        kept.update(begun, [done, runs])


def fill_iam(store: Store) -> None:
    """A role of each account, in a form of its own: the API says what is in a record."""
    from sagelet_engine.store.iam import IamKey

    for account in ACCOUNTS:
        store.iam.change(account, "aws", {IamKey("roles", "AROA1"): json.dumps({"name": "R\u00fc", "path": "/"})})


def fill_registry(store: Store) -> None:
    """A group of each account with a package of version 2, and a model."""
    from sagelet_engine.model.pipeline import PipelineKey
    from sagelet_engine.model.registry import RegistryEntry, RegistryKey, RegistryKind

    for account, region in ACCOUNTS.items():
        group = RegistryKey(account, region, RegistryKind.GROUP, "Group")
        store.registry.insert(RegistryEntry(group, T0, T0, {"ModelPackageGroupDescription": "\u00fc"}, tags={"k": "g"}))
        for token in ("one", "two"):
            body = {"ModelApprovalStatus": "Approved", "ModelPackageGroupName": "Group"}
            package = RegistryKey(account, region, RegistryKind.PACKAGE, "Group")
            store.registry.insert_version(RegistryEntry(package, T0 + 1, T0 + 1, body, token=token))
        store.registry.delete(RegistryKey(account, region, RegistryKind.PACKAGE, "Group/1"))
        model = RegistryKey(account, region, RegistryKind.MODEL, "Model")
        store.registry.insert(RegistryEntry(model, T0 + 2, T0 + 2, {"ModelName": "Model"}))
    store.pipelines.delete(PipelineKey(account, region, "gone"), "d" * 32, T0)


def fill_objects(root: Path) -> Path:
    """The catalogue of a store with two accounts' buckets; the bytes are not kept."""
    from sagelet_engine.s3.multipart import NamedPart, Uploads
    from sagelet_engine.s3.store import S3Store

    store = S3Store(root, SystemClock())
    try:
        for account, region in ACCOUNTS.items():
            store.create_bucket(f"bucket-{account}", account, region)
            if hasattr(store.catalog, "configure"):
                store.catalog.configure(f"bucket-{account}", "tagging", {"TagSet": [{"Key": "k", "Value": "\u00fc"}]})
                store.catalog.configure(f"bucket-{account}", "policy", None)
            for key in ("a", "a/b", "d//\0\u00fc"):
                with store.stage(["CRC32"]) as staged:
                    staged.write(key.encode())
                    attributes = {"ContentType": "text/plain", "Metadata": {"m": "1"}}
                    store.put(f"bucket-{account}", key, staged, attributes=attributes, tags={"t": key[:1]})
            uploads = Uploads(store)
            with uploads.part(uploads.begin(f"bucket-{account}", "up"), 1, 4, []) as (part, _):
                part.write(b"part")
            ended = uploads.begin(f"bucket-{account}", "a/b")
            with uploads.part(ended, 1, 5, []) as (part, kept):
                part.write(b"ended")
            uploads.complete(ended, [NamedPart(1, kept[0].etag, {})])
    finally:
        store.close()
    return root / ".catalog.db"


def dump(path: Path) -> tuple[int, str]:
    """The schema version, and SQL that makes the same database."""
    with closing(sqlite3.connect(path)) as db:
        ((version,),) = db.execute("PRAGMA user_version")
        return version, "".join(f"{line}\n" for line in _lines(db, version))


def _lines(db: sqlite3.Connection, version: int) -> Iterator[str]:
    yield from db.iterdump()
    yield f"PRAGMA user_version = {version};"


def without_attempts(path: Path) -> None:
    """From schema 2 of sagelet.db to 1."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DROP INDEX log_streams_by_attempt")
        db.execute("ALTER TABLE log_streams DROP COLUMN attempt")
        for job_id, text in db.execute("SELECT id, record FROM jobs").fetchall():
            record = json.loads(text)
            for name in ("attempts", "attempt_start_ms", "spot_discount"):
                record.pop(name, None)
            db.execute("UPDATE jobs SET record = ? WHERE id = ?", (json.dumps(record), job_id))
        db.execute("PRAGMA user_version = 1")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent)
    target: Path = parser.parse_args().to
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "sagelet.db")
        store = Store(path)
        fill_jobs(store)
        if hasattr(store, "orchestrations"):
            fill_orchestrations(store)
        if hasattr(store, "pipelines"):
            fill_pipelines(store)
        if hasattr(store, "iam"):
            fill_iam(store)
        if hasattr(store, "registry"):
            fill_registry(store)
        store.close()
        _write(target, "sagelet", path)
        if dump(path)[0] == 2:
            without_attempts(path)
            _write(target, "sagelet", path)
        try:
            catalog = fill_objects(Path(directory, "s3"))
        except ImportError:
            return  # A checkout from before there was a store.
        _write(target, "catalog", catalog)


def _write(target: Path, name: str, path: Path) -> None:
    version, text = dump(path)
    file = target / f"{name}-{version}.sql"
    if file.exists():
        print(f"{file.name} is there already, and stays as it is")
    else:
        file.write_text(text, encoding="utf-8")
        print(f"{file.name} is new")


if __name__ == "__main__":
    main()
