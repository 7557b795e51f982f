"""The clients' requests, drawn from the seed: jobs of all kinds, and operations on them meanwhile."""

from collections.abc import Callable
from typing import Any

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.errors import (
    JobNotDeletable,
    JobNotFound,
    JobNotInterruptible,
    JobNotStoppable,
    WarmPoolAvailable,
)
from sagelet_engine.data.removal import DirectoryStays
from sagelet_engine.engine import Engine
from sagelet_engine.model import faults, interruptions
from support import world as plain
from support.histories.ledger import ENDED, Job
from support.histories.world import Unreachable, World

TYPES = {"ml.m5.large": 0, "ml.p3.2xlarge": 1, "ml.p3.8xlarge": 4}
LONG = 3600


def done(work: Callable[..., None], *arguments: Any) -> bool:
    """Does the work and returns True. None would stand for no answer."""
    work(*arguments)
    return True


class Client:
    """A program that sends one request after another."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name
        self._chance = world.chance

    def run(self) -> None:
        for number in range(self._chance.randint(1, 6)):
            self._world.schedule.sleep(self._chance.choice([0.001, 0.5, 3.0]) * self._chance.random())
            jobs = list(self._world.ledger.jobs.values())
            if not jobs or self._chance.random() < 0.35:
                self.create(f"{self._name}{number}", *self._wish())
                continue
            job = self._chance.choice(jobs)
            self._chance.choice(
                [self.stop, self.stop, self.interrupt, self.delete, self.delete, self.update, self.tag, self.look]
            )(job)

    # --- requests ---------------------------------------------------------------------------------------------

    def create(self, name: str, request: dict[str, Any], tags: dict[str, str]) -> Job:
        ledger, schedule = self._world.ledger, self._world.schedule
        job = ledger.jobs[name] = Job(name, request, tags, asked_at=schedule.steps)
        schedule.note("create", name, request["ResourceConfig"], request["StoppingCondition"], tags)
        if (
            self._asked(lambda engine: engine.jobs.create(plain.key(name), plain.request(name, **request), tags))
            is not None
        ):
            job.acknowledged, job.answered_at = True, schedule.steps
        return job

    def stop(self, job: Job) -> None:
        if job.delete_tried:
            return
        job.stop_tried = True
        answer = self._asked(lambda engine: done(engine.jobs.stop, plain.key(job.name)), JobNotStoppable, JobNotFound)
        if answer is True:
            job.stopped = True
        self._known(job, answer)
        if isinstance(answer, JobNotStoppable) and job.last["status"] not in ENDED:
            self._world.ledger.fail(f"{job.name} cannot be stopped in {job.last['status']}")

    def interrupt(self, job: Job) -> None:
        answer = self._asked(
            lambda engine: engine.jobs.interrupt(plain.key(job.name)), JobNotInterruptible, JobNotFound
        )
        self._known(job, answer)

    def delete(self, job: Job) -> None:
        if self._chance.random() < 0.5 and (not job.commits or job.last["status"] not in ENDED):
            return
        job.delete_tried = True
        answer = self._asked(
            lambda engine: done(engine.jobs.delete, plain.key(job.name)),
            JobNotDeletable, WarmPoolAvailable, JobNotFound, DirectoryStays,
        )  # fmt: skip
        if answer is True or (isinstance(answer, JobNotFound) and job.gone):
            job.deleted = True
        elif answer is not None and not job.gone:
            self._known(job, answer)

    def update(self, job: Job) -> None:
        """Changes how long a warm pool is kept, of a job that asks for one."""
        seconds = self._chance.choice([0, 1, 30])

        def change(record: Any) -> dict[str, Any]:
            return {"ResourceConfig": {**record.request["ResourceConfig"], "KeepAlivePeriodInSeconds": seconds}}

        if job.request["ResourceConfig"].get("KeepAlivePeriodInSeconds"):
            self._known(job, self._asked(lambda engine: engine.jobs.update(plain.key(job.name), change), JobNotFound))

    def tag(self, job: Job) -> None:
        answer = self._asked(
            lambda engine: done(engine.jobs.put_tags, plain.key(job.name), {"team": self._name}, 50), JobNotFound
        )
        self._known(job, answer)

    def look(self, job: Job) -> None:
        def describe(engine: Engine) -> bool:
            found = engine.jobs.get(plain.key(job.name))
            bill = engine.reports.bill(found)
            if bill.seconds < 0 or (found.billable_seconds or 0) < 0 or (found.training_seconds or 0) < 0:
                self._world.ledger.fail(f"{job.name} is billed {bill}")
            for stream in engine.logs.streams(found.key.account, found.key.region, f"{job.name}/"):
                engine.logs.events(stream, limit=100)
            return True

        self._known(job, self._asked(describe, JobNotFound))

    # --- inner ------------------------------------------------------------------------------------------------

    def _asked(self, work: Callable[[Engine], Any], *refusals: type[Exception]) -> Any:
        """Returns the answer or the refusal, or None if there was no server or it died with the request."""
        try:
            return self._world.request(work)
        except (Unreachable, StoreUnavailable) as error:
            self._world.schedule.note("no answer:", repr(error))
            return None
        except refusals as error:
            return error

    def _known(self, job: Job, answer: Any) -> None:
        if isinstance(answer, JobNotFound) and job.acknowledged and not job.delete_tried:
            self._world.ledger.fail(f"{job.name} was acknowledged and is not known any more")

    def _wish(self) -> tuple[dict[str, Any], dict[str, str]]:
        chance, most = self._chance, self._world.settings.host_limit
        resources: dict[str, Any] = {
            "InstanceType": chance.choices(list(TYPES), [6, 3, 1])[0],
            "InstanceCount": chance.choice([1, 1, 1, min(2, most), min(3, most)]),
            "VolumeSizeInGB": 10,
        }
        stopping = {"MaxRuntimeInSeconds": chance.choice([LONG, LONG, chance.randint(1, 8)])}
        request: dict[str, Any] = {"ResourceConfig": resources, "StoppingCondition": stopping}
        tags: dict[str, str] = {}
        if chance.random() < 0.3:
            resources["KeepAlivePeriodInSeconds"] = chance.randint(1, 30)
        elif chance.random() < 0.4:
            request["EnableManagedSpotTraining"] = True
            stopping["MaxWaitTimeInSeconds"] = stopping["MaxRuntimeInSeconds"] + chance.randint(0, 20)
            if chance.random() < 0.5:
                tags[interruptions.TAG] = f"{chance.randint(0, 5)} {chance.randint(0, 5)}"
        if chance.random() < 0.3:
            request["RetryStrategy"] = {"MaximumRetryAttempts": chance.randint(1, 2)}
        if chance.random() < 0.4:
            request["CheckpointConfig"] = {"S3Uri": f"s3://checkpoints/{self._name}/{chance.random()}"}
        if chance.random() < 0.3:
            source = {"S3DataType": "S3Prefix", "S3Uri": "s3://in/data"}
            request["InputDataConfig"] = [{"ChannelName": "training", "DataSource": {"S3DataSource": source}}]
        if chance.random() < 0.1:
            tags[faults.TAG] = chance.choice(
                ["starting:2", "internal-server-error:1@1", "internal-server-error:1", "capacity-error"]
            )
        if chance.random() < 0.05:
            request["OutputDataConfig"] = {"S3OutputPath": "s3://missing/models/"}
        return request, tags
