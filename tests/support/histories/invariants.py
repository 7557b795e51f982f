"""Rules that must hold at the end of every history, whatever happened in it."""

from typing import Any

from sagelet_engine.model import faults
from support.histories.hosts import Host
from support.histories.ledger import ENDED, Job
from support.histories.world import World

#: The supervisor looks at the clock every half second. Lines that fill a mailbox, or a retry, may delay a look.
LATE_S = 2.0


def bound(world: World) -> float:
    """Returns the seconds in which all jobs must end once nothing breaks any more."""
    return 60 + world.clock.back + sum(4 * (20 + 30 + world.settings.stop_grace_seconds) for _ in world.ledger.jobs)


def all_ended(world: World) -> bool:
    return all(job.gone or (job.last["status"] in ENDED and not _pool(job)) for job in world.ledger.by_id.values())


def _pool(job: Job) -> bool:
    return (job.last["warm_pool"] or {}).get("status") == "Available"


def all_told(world: World) -> bool:
    """True if the sink has every job's last status."""
    return bool(world.statuses.announced) and world.statuses.announced[-1] == world.ledger.entered[-1]


def check(world: World) -> None:
    for job in world.ledger.jobs.values():
        _kept(world, job)
        if job.id is not None:
            _hosts(world, job)
            _limits(world, job)
            if not job.gone:
                _bill(world, job)
                _verdict(world, job)
                _lines(world, job)
    _announced(world)
    _nothing_left(world)


def _kept(world: World, job: Job) -> None:
    rows = world.sql("SELECT status FROM jobs WHERE name = ?", job.name)
    if job.acknowledged and not job.delete_tried and not rows:
        world.ledger.fail(f"{job.name} was acknowledged and is lost")
    if job.deleted and rows:
        world.ledger.fail(f"{job.name} was deleted and is still there")


def _of(world: World, job: Job) -> dict[str, list[Host]]:
    return {ref: hosts for ref, hosts in world.hosts.ever.items() if ref.startswith(str(job.id))}


def _hosts(world: World, job: Job) -> None:
    for ref, hosts in _of(world, job).items():
        if len(hosts) > 1 + sum(host.vanished for host in hosts):
            world.ledger.fail(f"{ref} was started {len(hosts)} times")
        for host in hosts:
            if world.hosts.there.get(ref) is host:
                world.ledger.fail(f"{ref} is left over")


def _limits(world: World, job: Job) -> None:
    """Checks MaxRuntimeInSeconds and a stop's grace, in the schedule's time. Only faults may delay them."""
    grace, late_s = world.settings.stop_grace_seconds, LATE_S + world.clock.back
    ran, since = 0.0, None
    for commit in job.commits:
        status = commit.record["secondary"]
        if status == "Downloading" and since is None:
            since = commit
        if since is not None and status not in ("Downloading", "Training"):
            ran += (commit.at - since.at) / 1000 - (commit.trouble - since.trouble)
            since = None
    if ran > job.max_runtime + late_s:
        world.ledger.fail(f"{job.name} ran {ran} s, it has {job.max_runtime}")
    stopping = next((commit for commit in job.commits if commit.record["secondary"] == "Stopping"), None)
    for host in (host for hosts in _of(world, job).values() for host in hosts):
        if host.ended_at is None or stopping is None or host.ended_at < stopping.at:
            continue
        late = (host.ended_at - stopping.at) / 1000 - (world.schedule.trouble - stopping.trouble)
        if late > grace + late_s:
            world.ledger.fail(f"{host.ref} ran on {late} s after a stop, it has {grace}")
        kill = next((at for at, name in host.signals if name == "KILL"), None)
        early = kill is not None and kill - stopping.at < grace * 1000 and not world.clock.jumped
        failed = any(other.ended is not None and other.ended.exit_code for other in _peers(world, host))
        if early and not failed and "Interrupted" not in [entry["status"] for entry in job.last["transitions"]]:
            world.ledger.fail(f"{host.ref} was killed {kill} at once, stopped {stopping.at}")


def _peers(world: World, host: Host) -> list[Host]:
    refs = [ref for ref in world.hosts.ever if ref.partition("/")[0] == host.launch.job_id and ref != host.ref]
    return [world.hosts.ever[ref][-1] for ref in refs]


def _bill(world: World, job: Job) -> None:
    record = job.last
    facts = record["facts"]
    training, billable = facts["training_seconds"], facts["billable_seconds"]
    if training is None:
        if billable is not None:
            world.ledger.fail(f"{job.name} never trained and is billed {billable}")
        return
    if training < 0 or not 0 <= billable <= max(training, 1):
        world.ledger.fail(f"{job.name} trained {training} s and is billed {billable}")
    if not record["request"].get("EnableManagedSpotTraining") and billable != training:
        world.ledger.fail(f"{job.name} trained {training} s and is billed {billable}")
    for attempt in record["attempts"]:
        if attempt["start_ms"] is not None and attempt["end_ms"] < attempt["start_ms"]:
            world.ledger.fail(f"{job.name}: an attempt ends before it begins: {attempt}")


def _verdict(world: World, job: Job) -> None:
    record = job.last
    status, reason = record["secondary"], record["failure_reason"] or ""
    if job.stopped and record["status"] != "Stopped":
        world.ledger.fail(f"{job.name} was stopped and is {status}: {reason}")
    if record["stop_cause"] is None and record["status"] == "Stopped":
        world.ledger.fail(f"nobody stopped {job.name}")
    if record["stop_cause"] == "user" and not job.stop_tried:
        world.ledger.fail(f"no user stopped {job.name}")
    attempt = len(record["attempts"]) + 1
    launch = str(job.id) if attempt == 1 else f"{job.id}-{attempt}"
    hosts = [found[-1] for ref, found in _of(world, job).items() if ref.partition("/")[0] == launch]
    codes = {host.handle.host: host.ended.exit_code for host in hosts if host.ended is not None}
    if status == "Completed" and (len(codes) != job.hosts or any(codes.values()) or any(h.vanished for h in hosts)):
        world.ledger.fail(f"{job.name} is completed, its hosts ended {codes}")
    restarted = any(attempt["ended_by"] == "Restarting" for attempt in record["attempts"])
    if (reason.startswith("InternalServerError") or restarted) and not _excused(world, job):
        world.ledger.fail(f"{job.name} met a fault that nothing outside explains: {record['transitions'][-1]}")
    if reason.startswith("AlgorithmError"):
        code = int(reason.rpartition(": ")[2])
        if code not in codes.values():
            world.ledger.fail(f"{job.name} failed with {code}, its hosts ended {codes}")


def _excused(world: World, job: Job) -> bool:
    """True if a fault excuses a job's failure. A lost host, file or object does. A silent runtime or store does not."""
    vanished = any(host.vanished for hosts in _of(world, job).values() for host in hosts)
    return vanished or faults.TAG in job.tags or job.commits[-1].losses > job.commits[0].losses


def _lines(world: World, job: Job) -> None:
    calm = job.last["status"] != "Failed" or (job.last["failure_reason"] or "").startswith("AlgorithmError")
    attempts = len(job.last["attempts"]) + 1
    for ref, hosts in _of(world, job).items():
        launch, _, name = ref.partition("/")
        attempt = int(launch[33:] or 1)
        rows = world.sql(
            "SELECT e.seq, e.text, e.time_ms FROM log_events e JOIN log_streams s ON s.id = e.stream_id"
            " WHERE s.job_id = ? AND s.host = ? AND s.attempt = ? ORDER BY e.seq",
            job.id, name, attempt,
        )  # fmt: skip
        if [seq for seq, _, _ in rows] != list(range(len(rows))) or sorted(r[2] for r in rows) != [r[2] for r in rows]:
            world.ledger.fail(f"{ref}: events out of order: {rows}")
        seen = [text for _, text, _ in rows if not text.startswith("sagelet")]
        printed = [line.text for each in hosts for line in each.printed]
        whole = calm and attempt == attempts and not any(each.vanished for each in hosts)
        if seen != (printed if whole else printed[: len(seen)]):
            world.ledger.fail(f"{ref} printed {printed}, its log has {seen}")


def _announced(world: World) -> None:
    """Checks that no announcement is lost and all are in order. The last few may come twice."""
    entered, place = world.ledger.entered, 0
    for told in world.statuses.announced:
        if place < len(entered) and told == entered[place]:
            place += 1
        elif told not in entered[max(0, place - 20) : place]:
            world.ledger.fail(f"{told} was announced out of order, next is {entered[place : place + 1]}")
    if place != len(entered):
        world.ledger.fail(f"{entered[place:]} were never announced")


def _nothing_left(world: World) -> None:
    gone = [job.id for job in world.ledger.by_id.values() if job.gone]
    for job in gone:
        for table in ("tags", "log_streams", "metric_points", "host_points", "throttled_calls"):
            if world.sql(f"SELECT 1 FROM {table} WHERE job_id = ?", job):
                world.ledger.fail(f"{job} was deleted, {table} knows it")
        if list(world.settings.data.glob(f"jobs/*/*/{job}")):
            world.ledger.fail(f"{job} was deleted, its directory is there")
    engine = world.engine
    assert engine is not None
    scheduler: Any = engine._scheduler
    left: list[dict[str, Any] | list[str]] = [
        dict(scheduler._running),
        dict(scheduler._pool._taken),
        list(scheduler._waiting._keys),
        list(engine._supervisors._by_job),
    ]
    if any(left):
        world.ledger.fail(f"not free: {left}")
