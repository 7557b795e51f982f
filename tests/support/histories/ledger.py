"""Everything known of each job from outside: the answers to clients, the commits, and what its hosts did.

Rules that must hold at every instant are checked here as things happen. Rules for a whole life are in `invariants.py`.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.model.job import SecondaryStatus
from sagelet_engine.model.lifecycle import RULES
from sagelet_engine.model.runtime import LaunchPlan
from sagelet_engine.settings import Settings
from support.histories.hosts import Act, Host, Script
from support.histories.schedule import Schedule

#: TrainingJobStatus of a job that has ended.
ENDED = ("Completed", "Failed", "Stopped")
Record = Mapping[str, Any]


class Violation(AssertionError):
    """A rule was broken."""


@dataclass
class Commit:
    #: A time of the schedule.
    at: int
    #: Seconds of delay excused so far.
    trouble: float
    #: How often S3 or a file had failed by then.
    losses: int
    record: Record


@dataclass
class Job:
    """One CreateTrainingJob."""

    name: str
    request: dict[str, Any]
    tags: dict[str, str]
    id: str | None = None
    #: The number of commits when the client got its answer.
    acknowledged: bool = False
    asked_at: int = 0
    answered_at: int = 0
    stopped: bool = False
    stop_tried: bool = False
    delete_tried: bool = False
    deleted: bool = False
    gone: bool = False
    commits: list[Commit] = field(default_factory=list)

    @property
    def last(self) -> Record:
        return self.commits[-1].record

    @property
    def hosts(self) -> int:
        return int(self.request["ResourceConfig"]["InstanceCount"])

    @property
    def max_runtime(self) -> int:
        return int(self.request["StoppingCondition"]["MaxRuntimeInSeconds"])


class Ledger:
    def __init__(self, schedule: Schedule, settings: Settings) -> None:
        self._schedule = schedule
        self._settings = settings
        #: Jobs by name, in the order of creation.
        self.jobs: dict[str, Job] = {}
        self.by_id: dict[str, Job] = {}
        #: Every status ever entered: the job's id, and its number of transitions then.
        self.entered: list[tuple[str, int]] = []
        self.violation: Violation | None = None
        #: The last job of a history. It shows that everything is free again.
        self.probe: str | None = None

    # --- what happens -----------------------------------------------------------------------------------------

    def committed(self, job_id: str, record: Record | None) -> None:
        if record is None:
            self._schedule.note("deleted", self.by_id[job_id].name)
            self.by_id[job_id].gone = True
            return
        job = self.by_id.get(job_id)
        if job is None:
            job = self.by_id[job_id] = self.jobs[record["key"]["name"]]
            job.id = job_id
        before = job.commits[-1].record if job.commits else None
        transitions = record["transitions"]
        new = before is None or len(transitions) > len(before["transitions"])
        self._schedule.note(
            "commit", job.name, record["secondary"], len(transitions), "launched" if record["launched"] else "",
            "placed" if record["placed_ms"] else "", (record["warm_pool"] or {}).get("status", ""),
        )  # fmt: skip
        if before is not None:
            self._follows(job, before, record)
        job.commits.append(Commit(self._schedule.now, self._schedule.trouble, self._schedule.losses, record))
        if new:
            self.entered.append((job_id, len(transitions)))
        if record["placed_ms"] is not None and (before is None or before["placed_ms"] is None):
            self._placed(job, record)

    def logged(self, entry: logging.LogRecord) -> None:
        """Checks an error that the engine logged, in a line or with its traceback: the cause must be outside of it."""
        errors = [one for one in entry.args or () if isinstance(one, BaseException)]
        error = entry.exc_info[1] if entry.exc_info else next(iter(errors), None)
        self._schedule.note("log:", entry.getMessage(), repr(error))
        chain = error
        while chain is not None:
            if isinstance(chain, (OSError, StoreUnavailable, RuntimeUnavailable)) or "PlannedFault" in repr(chain):
                return
            chain = chain.__cause__
        self.fail(f"an internal error without a cause outside: {entry.getMessage()}: {error!r}")

    def launched(self, host: Host, running: list[Host]) -> None:
        job = self.by_id[host.launch.job_id[:32]]
        if job.last["status"] in ENDED:
            self.fail(f"{host.ref} is started after the job's end")
        taken = [gpu for other in running if other is not host for gpu in other.plan.gpu_uuids]
        if set(taken) & set(host.plan.gpu_uuids):
            self.fail(f"{host.ref} has GPUs that another host has")

    def fail(self, text: str) -> NoReturn:
        """Fails the history, even where the engine would catch the exception."""
        self._schedule.note("VIOLATION", text)
        self.violation = self.violation or Violation(text)
        raise self.violation

    # --- scripts ----------------------------------------------------------------------------------------------

    def __call__(self, plan: LaunchPlan, host: str) -> Script:
        chance, job = self._schedule.random, self.by_id[plan.job_id[:32]]
        if job.name == self.probe:
            return Script([Act(0, "print probe")], 10, 0, 0)
        lasts = chance.choice([0, chance.randint(1, 900), chance.randint(500, 8000), chance.randint(5000, 20_000)])
        acts = [Act(chance.randint(0, lasts), f"print loss={n}") for n in range(chance.choice([0, 1, 3, 8]))]
        if chance.random() < 0.7:
            acts.append(Act(chance.randint(0, lasts), f"model {plan.job_id} {host}"))
        if "CheckpointConfig" in job.request:
            acts += [Act(chance.randint(0, lasts), f"checkpoint {n}") for n in range(3)]
        code = chance.choices([0, 1, 3, 137, 139, 143], [70, 12, 4, 6, 4, 4])[0]
        heeds = chance.choices([0, chance.randint(1, 500), chance.randint(500, 6000), None], [40, 30, 15, 15])[0]
        return Script(sorted(acts), lasts, code, heeds, explains=chance.random() < 0.3)

    # --- rules ------------------------------------------------------------------------------------------------

    def _follows(self, job: Job, before: Record, after: Record) -> None:
        old, new = before["transitions"], after["transitions"]
        if len(new) - len(old) not in (0, 1):
            self.fail(f"{job.name} entered {len(new) - len(old)} statuses at once")
        if new[: len(old) - 1] != old[:-1]:
            self.fail(f"{job.name}: its past changed")
        if len(new) > len(old):
            came, went = new[-1], new[-2]
            if SecondaryStatus(went["status"]) not in RULES[SecondaryStatus(came["status"])].follows:
                self.fail(f"{job.name}: {came['status']} follows {went['status']}")
            if went["end_ms"] != came["start_ms"] or went["start_ms"] > came["start_ms"]:
                self.fail(f"{job.name}: {came['status']} does not begin where {went['status']} ends")
        ended = before["status"] in ENDED
        lasting = ["key", "id", "created_ms"]
        lasting += ["transitions", "status", "failure_reason", "attempts", "training_end_ms"] if ended else []
        lasting += [name for name in ("stop_cause", "stop_ms", "placed_ms", "verdict") if before[name] is not None]
        for name in lasting:
            if before[name] != after[name]:
                self.fail(f"{job.name}: {name} changed from {before[name]} to {after[name]}")

    def holding(self) -> list[Job]:
        """Returns the jobs with a place: they were placed and have not ended, or keep their hosts in a warm pool."""
        held = []
        for job in self.by_id.values():
            record = job.last
            ended = record["status"] in ENDED
            pool = (record["warm_pool"] or {}).get("status") == "Available"
            if not job.gone and record["placed_ms"] is not None and (not ended or pool):
                held.append(job)
        return held

    def _placed(self, job: Job, record: Record) -> None:
        holding = self.holding()
        if len(holding) > self._settings.max_jobs:
            self.fail(f"{[one.name for one in holding]} run, {self._settings.max_jobs} may")
        hosts = sum(one.hosts for one in holding)
        if hosts > self._settings.host_limit and len(holding) > 1:
            self.fail(f"{hosts} hosts run, {self._settings.host_limit} may")
        gpus = [gpu for one in holding for gpu in one.last["gpus"]]
        if len(gpus) != len(set(gpus)):
            self.fail(f"{job.name} has GPUs that another job has")
        if (record["warm_pool"] or {}).get("status") == "InUse":
            return
        for other in self.by_id.values():
            waits = not other.gone and other.last["placed_ms"] is None and other.last["status"] == "InProgress"
            if waits and other.acknowledged and other.answered_at <= job.asked_at:
                self.fail(f"{job.name} gets its place before {other.name}, which came first")
