"""Many jobs at once: each ends well, with its lines, its model and the right bill, at this cost for the server."""

from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.servers import Cost, Place, places, watched
from bench.tables import Figure, Row, Scale, Table, in_turns
from support.server import until

HEADS = (
    ("runtime", "jobs", "training at once", "each stays s", "all ended after s", "server CPU ms a job",
     "server's memory MiB", "threads"),
)  # fmt: skip
LINES = 50
#: Prints numbered lines, sleeps so that the jobs overlap, and leaves a model.
SCRIPT = (
    f"i=0; while [ $i -lt {LINES} ]; do echo line $i; i=$((i+1)); done; sleep $STAY; "
    "echo the end; echo x > /opt/ml/model/model"
)
EXPECTED = [*(f"line {number}" for number in range(LINES)), "the end"]
#: The numbers of jobs at once, and the rounds.
PLANS = {Scale.FULL: ((1, 8, 64), 3), Scale.SHORT: ((1, 8), 1)}


class Found(NamedTuple):
    """One round of jobs at once."""

    cost: Cost
    at_once: int
    #: Number of jobs for which each check holds.
    jobs: dict[str, int]


def run(scale: Scale, directory: Path) -> list[Table]:
    together, rounds = PLANS[scale]
    with places(directory, "--max-jobs", "64", "--max-hosts", "64") as (users, absent):
        for place in users:
            _together(place, 1)
        runs = {(place.name, number): partial(_together, place, number) for place in users for number in together}
        found = in_turns(rounds, runs)
    every = [one.jobs for several in found.values() for one in several]
    counts = {what: sum(jobs[what] for jobs in every) for what in every[0]}
    planned = rounds * sum(together) * len(users)
    conditions = (
        f"Each prints {LINES} lines in a shell, sleeps and leaves a model; Docker's image is a busybox. From the first "
        "CreateTrainingJob, one after another, until ListTrainingJobs, asked ten times a second, names no more that "
        f"run; medians of {rounds} rounds in turns. Memory and threads are the most seen. Of {planned:,} jobs "
        f"{', '.join(f'{count:,} {what}' for what, count in counts.items())}."
    )
    rows = [_row(*key, several) for key, several in found.items()]
    checks = {what: (count, planned) for what, count in counts.items()}
    return [Table("Jobs at once", HEADS[0], rows, " ".join([conditions, *absent]), checks)]


def _stay_seconds(jobs: int) -> int:
    """How long each job sleeps: it takes a while to start many."""
    return 2 + jobs // 4


def _together(place: Place, number: int) -> Found:
    jobs = place.shell
    with watched(place.server.process) as cost:
        stay = {"STAY": str(_stay_seconds(number))}
        names = [jobs.start(SCRIPT, environment=stay) for _ in range(number)]
        until(lambda: not _running(jobs.sagemaker), seconds=600, every=0.1)
    descriptions = [jobs.describe(name) for name in names]
    checks = {
        "Completed": [one["TrainingJobStatus"] == "Completed" for one in descriptions],
        "with all lines": [jobs.written(name) == EXPECTED for name in names],
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
    """How many jobs were in Training at one time."""
    training: list[tuple[float, float]] = [
        (one["StartTime"].timestamp(), one["EndTime"].timestamp())
        for description in descriptions
        for one in description["SecondaryStatusTransitions"]
        if one["Status"] == "Training"
    ]
    return max(sum(begin <= start < end for begin, end in training) for start, _ in training)


def _row(runtime: str, number: int, several: list[Found]) -> Row:
    costs = [one.cost for one in several]
    return (
        runtime,
        number,
        min(one.at_once for one in several),
        _stay_seconds(number),
        Figure.of([one.seconds for one in costs]),
        round(median(one.cpu for one in costs) / number * 1000),
        round(max(one.memory_mb for one in costs)),
        max(one.threads for one in costs),
    )
