"""Many jobs at once: does each end well, with its lines, its model and the right bill; what does the server take."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import runtimes
from bench.runtimes import User
from bench.tables import Scale, Table
from bench.training import BUCKET, Cost, is_over, spread, until, watched

LINES = 50
#: Prints numbered lines, stays for a while so that the jobs overlap, and leaves a model.
COMMAND = (
    f"i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); done; sleep $STAY; "
    "echo the end; echo x > /opt/ml/model/model"
)
EXPECTED = [*(f"line {number}" for number in range(LINES)), "the end"]


def stay_seconds(jobs: int) -> int:
    """How long each stays: to start many takes a while."""
    return 2 + jobs // 4


@dataclass(frozen=True)
class Plan:
    together: tuple[int, ...]
    rounds: int


PLANS = {Scale.FULL: Plan((1, 8, 64), 3), Scale.SHORT: Plan((1, 8), 1)}


@dataclass(frozen=True)
class Found:
    """So many jobs at once, one round."""

    cost: Cost
    at_once: int
    #: Jobs of which each is true.
    completed: int
    billed: int
    logged: int
    stored: int


def run(scale: Scale) -> list[Table]:
    plan = PLANS[scale]
    places, absent = runtimes.found()
    found: dict[tuple[str, int], list[Found]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="bench-concurrency-") as directory,
        runtimes.servers(places, Path(directory), "--max-jobs", "64", "--max-hosts", "64") as users,
    ):
        for user in users:
            _together(user, 1)
        for _ in range(plan.rounds):
            for number in plan.together:
                for user in users:
                    found.setdefault((user.place.name, number), []).append(_together(user, number))
    return [_table(plan, found, absent, plan.rounds * sum(plan.together) * len(places))]


HEAD = (
    "runtime", "jobs", "Completed", "training at once", "each stays s", "all ended after s", "min-max",
    "server CPU ms a job", "server's memory MiB", "threads",
)  # fmt: skip


def _table(plan: Plan, found: dict[tuple[str, int], list[Found]], absent: dict[str, str], planned: int) -> Table:
    rounds = [one for several in found.values() for one in several]
    in_order = sorted(found.items(), key=lambda one: one[0][0] != "process")
    left_out = tuple((name, f"left out: {why}", *[""] * (len(HEAD) - 2)) for name, why in absent.items())
    counts = {
        "jobs Completed": sum(one.completed for one in rounds),
        "jobs with all lines": sum(one.logged for one in rounds),
        "jobs with the right bill": sum(one.billed for one in rounds),
        "jobs with a model": sum(one.stored for one in rounds),
    }
    return Table(
        "Jobs at once",
        HEAD,
        (*(_row(*key, several) for key, several in in_order), *left_out),
        f"Each prints {LINES} lines in a shell, sleeps and leaves a model; Docker's image is a busybox. From the first "
        "CreateTrainingJob, one after another, until ListTrainingJobs, asked ten times a second, names no more that "
        f"run; medians of {plan.rounds} rounds in turns. Memory and threads are the most seen. Of each job lines, "
        "model and bill are looked at afterwards.",
        counts={**counts, **{f"{what} planned": planned for what in counts}},
    )


def _together(user: User, number: int) -> Found:
    account = user.account
    with watched(user.process) as cost:
        stay = {"STAY": str(stay_seconds(number))}
        command = ["sh", "-c", COMMAND]
        names = [account.submit(command, image=user.place.tiny_image, Environment=stay) for _ in range(number)]
        until("the end of all jobs", lambda: not _running(user), every_s=0.1)
    descriptions = [account.describe(name) for name in names]
    assert all(map(is_over, descriptions))
    return Found(
        cost,
        _most_at_once(descriptions),
        sum(one["TrainingJobStatus"] == "Completed" for one in descriptions),
        sum(_is_billed_right(one) for one in descriptions),
        sum(account.lines(name) == EXPECTED for name in names),
        sum(_has_model(user, name) for name in names),
    )


def _running(user: User) -> bool:
    pending = user.account.sagemaker.list_training_jobs(StatusEquals="InProgress", MaxResults=1)
    return bool(pending["TrainingJobSummaries"])


def _is_billed_right(description: dict[str, Any]) -> bool:
    """AWS's rule: the difference of two whole seconds."""
    begin, end = (int(description[name].timestamp()) for name in ("TrainingStartTime", "TrainingEndTime"))
    return bool(description["BillableTimeInSeconds"] == end - begin)


def _most_at_once(descriptions: list[dict[str, Any]]) -> int:
    """How many were in Training at one time."""
    training = [
        (one["StartTime"].timestamp(), one["EndTime"].timestamp())
        for description in descriptions
        for one in description["SecondaryStatusTransitions"]
        if one["Status"] == "Training"
    ]
    return max(sum(begin <= start < end for begin, end in training) for start, _ in training)


def _has_model(user: User, name: str) -> bool:
    found = user.account.s3.list_objects_v2(Bucket=BUCKET, Prefix=f"out/{name}/output/")
    return [one["Key"].rpartition("/")[2] for one in found.get("Contents", [])] == ["model.tar.gz"]


def _row(runtime: str, number: int, several: list[Found]) -> tuple[str | float | int, ...]:
    walls = [one.cost.wall_s for one in several]
    return (
        runtime,
        number,
        min(one.completed for one in several),
        min(one.at_once for one in several),
        stay_seconds(number),
        round(median(walls), 2),
        spread(walls),
        round(median(one.cost.cpu_s for one in several) / number * 1000),
        round(max(one.cost.rss_most for one in several) / 2**20),
        max(one.cost.threads_most for one in several),
    )
