"""Tuning jobs: how good a search is, what a trial costs above a plain training job, and how long a long list takes."""

import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from bench import lists, many_jobs
from bench.tables import Bar, Cell, Figure, Scale, Table, in_turns
from sagelet.testing import FastForward, Job
from sagelet_engine.model.job import JobStatus
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind, OrchestrationStatus, enter
from sagelet_engine.model.tuning import TrialState, TuningJob, trial_of
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.orchestration_codecs import TUNING
from sagelet_engine.tuning.strategies import strategy
from sagelet_engine.tuning.strategies.space import Space, space_of
from sagelet_engine.tuning.strategies.strategy import PastTrial, Settings
from support.server import ACCOUNT, SageletProcess
from support.tuning import definition, tuning_request
from support.world import until

HEADS = (
    ("function", "at a time", "Random: regret", "Bayesian: regret", "Random / Bayesian", "CPU ms a proposal"),
    ("strategy", "plain training job s", "trial s", "above it, s", "promised"),
    lists.HEADS,
)
TRIALS = 30


@dataclass(frozen=True)
class Plan:
    seeds: int
    #: Rounds of the other two, and training jobs in each.
    rounds: int
    jobs: int
    #: Lists in each round.
    lists: int


PLANS = {Scale.FULL: Plan(30, 7, 10, 60), Scale.SHORT: Plan(2, 1, 3, 5)}


def run(scale: Scale, directory: Path) -> list[Table]:
    plan = PLANS[scale]
    return [_quality(plan), _overhead(plan, directory / "overhead"), _lists(plan, directory / "lists")]


# --- how good a search is ---------------------------------------------------------------------------------------------


def branin(at: Sequence[float]) -> float:
    """Branin's function less its minimum, with both coordinates scaled to the unit interval."""
    x, y = -5 + 15 * at[0], 15 * at[1]
    bowl = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return bowl * bowl + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10 - 0.39788735772973816


_WEIGHTS = (1.0, 1.2, 3.0, 3.2)
_SLOPES = ((10, 3, 17, 3.5, 1.7, 8), (0.05, 10, 17, 0.1, 8, 14), (3, 3.5, 1.7, 10, 17, 8), (17, 8, 0.05, 10, 0.1, 14))
_CENTRES = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def hartmann6(at: Sequence[float]) -> float:
    """Hartmann's function of six coordinates, less its minimum."""
    hills = (
        weight * math.exp(-sum(a * (x - c) ** 2 for a, x, c in zip(slopes, at, centre, strict=True)))
        for weight, slopes, centre in zip(_WEIGHTS, _SLOPES, _CENTRES, strict=True)
    )
    return 3.322368011415515 - sum(hills)


@dataclass(frozen=True)
class Function:
    title: str
    of: Callable[[Sequence[float]], float]
    dimensions: int
    #: Standard deviation of what the search sees beyond the function.
    noise: float = 0.0


FUNCTIONS = (
    Function("Branin", branin, 2),
    Function("Hartmann6", hartmann6, 6),
    Function("Branin with noise", branin, 2, noise=5.0),
)


def search(name: str, function: Function, seed: int, parallel: int) -> float:
    """Returns the regret after 30 trials: the least value of the function among them. Its minimum is 0."""
    ranges = [{"Name": f"x{n}", "MinValue": "0", "MaxValue": "1"} for n in range(function.dimensions)]
    space = space_of({"ContinuousParameterRanges": ranges})
    settings = Settings(maximize=False, config={}, max_trials=TRIALS)
    noise = random.Random(f"noise of {seed}")
    trials: list[PastTrial] = []
    found: list[float] = []
    while len(found) < TRIALS:
        if len(trials) < min(TRIALS, len(found) + parallel):
            (values,) = strategy(name).propose(space, settings, seed, trials, 1)
            trials.append(PastTrial(values, ended=False, objective=None))
            continue
        oldest = trials[len(found)]
        found.append(function.of(_point(space, oldest)))
        seen = found[-1] + noise.gauss(0, function.noise)
        trials[len(found) - 1] = replace(oldest, ended=True, objective=seen)
    return min(found)


def _point(space: Space, trial: PastTrial) -> list[float]:
    return [float(trial.values[one.name]) for one in space.parameters]


def _quality(plan: Plan) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for function in FUNCTIONS:
        for parallel in (1, 4):
            regrets, cpu = {}, 0.0
            for name in ("Random", "Bayesian"):
                began = time.process_time()
                regrets[name] = [search(name, function, seed, parallel) for seed in range(plan.seeds)]
                cpu = time.process_time() - began
            middle = {name: _quartiles(values) for name, values in regrets.items()}
            ratio = middle["Random"].value / middle["Bayesian"].value
            per_proposal = 1000 * cpu / (plan.seeds * TRIALS)
            rows.append((function.title, parallel, *middle.values(), ratio, per_proposal))
    return Table(
        "Regret after 30 trials",
        HEADS[0],
        rows,
        f"How far the best of 30 trials is above the function's minimum: the median of {plan.seeds} seeds, and in "
        "parentheses the quartiles. With noise (normal, deviation 5) the search sees more than the function, and the "
        "regret is the function's. No server: the strategies alone.",
        {"searches": (2 * len(rows) * plan.seeds, 12 * plan.seeds)},
    )


def _quartiles(values: Sequence[float]) -> Figure:
    least, middle, most = statistics.quantiles(values, n=4, method="inclusive")
    return Figure(middle, least, most)


# --- what a trial costs -----------------------------------------------------------------------------------------------

_fresh = count()


def _overhead(plan: Plan, directory: Path) -> Table:
    rows: list[tuple[Cell, ...]] = []
    jobs = 0
    with FastForward(directory) as server:

        @server.train
        def train(job: Job) -> None:
            job.clock.advance(60)
            job.print("loss=0.5")

        server.session().client("s3").create_bucket(Bucket="models")
        sagemaker = server.session().client("sagemaker")
        ways = {"plain": partial(_plain, sagemaker, plan.jobs)}
        for name in ("Random", "Bayesian"):
            ways[name] = partial(_tuned, sagemaker, name, plan.jobs)
        in_turns(1, ways)  # once for what is loaded at its first use
        found = in_turns(plan.rounds, ways)
        jobs = len(sagemaker.list_training_jobs(MaxResults=100, NameContains="-")["TrainingJobSummaries"])
    for name in ("Random", "Bayesian"):
        above = Figure.of([ours - plain for ours, plain in zip(found[name], found["plain"], strict=True)])
        promised = Bar("above it, s", above, 0.1, at_most=True)
        rows.append((name, Figure.of(found["plain"]), Figure.of(found[name]), above, promised))
    planned = min(100, 3 * plan.jobs * (plan.rounds + 1))
    return Table(
        "A trial and a plain training job",
        HEADS[1],
        rows,
        f"In fast-forward: {plan.jobs} training jobs of a function one after the other, seconds for each. A plain one "
        "is created when the one before it is seen to have ended, the others are trials of a tuning job with "
        f"MaxParallelTrainingJobs 1. Medians of {plan.rounds} rounds in turns.",
        {"training jobs listed": (jobs, planned)},
    )


def _job() -> dict[str, Any]:
    return definition(OutputDataConfig={"S3OutputPath": "s3://models/out"})


def _plain(sagemaker: Any, jobs: int) -> float:
    began = time.monotonic()
    for _ in range(jobs):
        name = f"plain-{next(_fresh):05}"
        body = _job()
        body["HyperParameters"] = body.pop("StaticHyperParameters")
        sagemaker.create_training_job(TrainingJobName=name, **body)
        until(partial(_has_completed, sagemaker.describe_training_job, "TrainingJob", name))
    return (time.monotonic() - began) / jobs


def _tuned(sagemaker: Any, strategy_name: str, jobs: int) -> float:
    name = f"tune-{next(_fresh):05}"
    limits = {"MaxNumberOfTrainingJobs": jobs, "MaxParallelTrainingJobs": 1}
    began = time.monotonic()
    sagemaker.create_hyper_parameter_tuning_job(
        **tuning_request(name, job=_job(), Strategy=strategy_name, ResourceLimits=limits)
    )
    until(partial(_has_completed, sagemaker.describe_hyper_parameter_tuning_job, "HyperParameterTuningJob", name))
    return (time.monotonic() - began) / jobs


def _has_completed(describe: Callable[..., dict[str, Any]], kind: str, name: str) -> bool:
    return bool(describe(**{f"{kind}Name": name})[f"{kind}Status"] == "Completed")


# --- lists ------------------------------------------------------------------------------------------------------------

LISTED, PAGE = 200, 100
LIST = "ListTrainingJobsForHyperParameterTuningJob"


def fill(data: Path) -> str:
    """Makes an ended tuning job with 200 trials in a data directory that no server has yet. Returns its name."""
    key = OrchestrationKey(ACCOUNT, many_jobs.REGION, "tune", OrchestrationKind.TUNING)
    now = many_jobs.BEGIN_MS
    job = TuningJob(key, "ab" * 16, tuning_request("tune"), now, now)
    space = space_of(job.spec.definitions[0].ranges)
    drawn = strategy("Random").propose(space, Settings(False, {}, LISTED), 1, [], LISTED)
    trials = [
        replace(
            trial_of(job, ordinal, "", values),
            state=TrialState.ENDED, status=JobStatus.COMPLETED, created_ms=now, start_ms=now + 1000, end_ms=now + 9000,
            objective=1 / ordinal,
        )
        for ordinal, values in enumerate(drawn, 1)
    ]  # fmt: skip
    data.mkdir(parents=True, exist_ok=True)
    store = Store(data / "sagelet.db")
    kept = store.orchestrations.of(TUNING)
    kept.insert(job)
    kept.update(enter(job, OrchestrationStatus.COMPLETED, now + 9000), trials)
    store.orchestrations.drop_noted_statuses(2**62)
    store.close()
    return key.name


def _lists(plan: Plan, data: Path) -> Table:
    name = fill(data)
    body = {"HyperParameterTuningJobName": name, "MaxResults": PAGE, "SortBy": "FinalObjectiveMetricValue"}
    with SageletProcess(data, "--runtime", "process") as server:
        ask = server.client("sagemaker").list_training_jobs_for_hyper_parameter_tuning_job
        return lists.table(
            f"A list of {LISTED} trials", server, LIST, ask, body,
            of="TrainingJobSummaries", planned=LISTED, rounds=plan.rounds, lists=plan.lists, most_ms=20,
        )  # fmt: skip
