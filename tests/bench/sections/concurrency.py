"""Many jobs at once: does each end well, with its lines, its model and the right bill; what does the server take."""

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.servers import Cost, Place, places, watched
from bench.tables import Cell, Figure, Scale, Table, in_turns
from support.server import until

HEADS = (
    ("runtime", "jobs", "training at once", "each stays s", "all ended after s", "server CPU ms a job",
     "server's memory MiB", "threads"),
)  # fmt: skip
LINES = 50
#: Prints numbered lines, stays for a while so that the jobs overlap, and leaves a model.
SCRIPT = (
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
    #: Jobs by what is true of them.
    jobs: dict[str, int]


def run(scale: Scale) -> list[Table]:
    plan = PLANS[scale]
    with (
        tempfile.TemporaryDirectory(prefix="bench-concurrency-") as directory,
        places(Path(directory), "--max-jobs", "64", "--max-hosts", "64") as (users, absent),
    ):
        for place in users:
            _together(place, 1)
        runs = {(place.name, one): partial(_together, place, one) for place in users for one in plan.together}
        found = in_turns(plan.rounds, runs)
    rounds = [one.jobs for several in found.values() for one in several]
    counts = {what: sum(jobs[what] for jobs in rounds) for what in rounds[0]}
    planned = plan.rounds * sum(plan.together) * len(users)
    conditions = (
        f"Each prints {LINES} lines in a shell, sleeps and leaves a model; Docker's image is a busybox. From the first "
        "CreateTrainingJob, one after another, until ListTrainingJobs, asked ten times a second, names no more that "
        f"run; medians of {plan.rounds} rounds in turns. Memory and threads are the most seen. Of {planned:,} jobs "
        f"{', '.join(f'{count:,} {what}' for what, count in counts.items())}."
    )
    rows = [_row(*key, several) for key, several in found.items()]
    planned_counts = {f"{what} planned": planned for what in counts}
    return [Table("Jobs at once", HEADS[0], rows, " ".join([conditions, *absent]), {**counts, **planned_counts})]


def _together(place: Place, number: int) -> Found:
    jobs = place.shell
    with watched(place.server.process) as cost:
        stay = {"STAY": str(stay_seconds(number))}
        names = [jobs.start(SCRIPT, environment=stay) for _ in range(number)]
        until(lambda: not _running(jobs.sagemaker), seconds=600, every=0.1)
    descriptions = [jobs.describe(name) for name in names]
    checks = {
        "Completed": [one["TrainingJobStatus"] == "Completed" for one in descriptions],
        "with all lines": [jobs.log(name) == EXPECTED for name in names],
        "with a model": [list(jobs.artifact(name)) == ["model"] for name in names],
        "with the right bill": list(map(_is_billed_right, descriptions)),
    }
    return Found(cost, _most_at_once(descriptions), {what: sum(true) for what, true in checks.items()})


def _running(sagemaker: Any) -> bool:
    return bool(sagemaker.list_training_jobs(StatusEquals="InProgress", MaxResults=1)["TrainingJobSummaries"])


def _is_billed_right(description: dict[str, Any]) -> bool:
    """AWS's rule: the difference of two whole seconds."""
    begin, end = (int(description[name].timestamp()) for name in ("TrainingStartTime", "TrainingEndTime"))
    return bool(description["BillableTimeInSeconds"] == end - begin)


def _most_at_once(descriptions: list[dict[str, Any]]) -> int:
    """How many were in Training at one time."""
    training: list[tuple[float, float]] = [
        (one["StartTime"].timestamp(), one["EndTime"].timestamp())
        for description in descriptions
        for one in description["SecondaryStatusTransitions"]
        if one["Status"] == "Training"
    ]
    return max(sum(begin <= start < end for begin, end in training) for start, _ in training)


def _row(runtime: str, number: int, several: list[Found]) -> tuple[Cell, ...]:
    return (
        runtime,
        number,
        min(one.at_once for one in several),
        stay_seconds(number),
        Figure.of([one.cost.seconds for one in several]),
        round(median(one.cost.cpu for one in several) / number * 1000),
        round(max(one.cost.memory_mb for one in several)),
        max(one.cost.threads for one in several),
    )
