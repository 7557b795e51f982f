"""The bill of a tuning job: the sum of what AWS would charge for its training jobs.

A trial holds the billable seconds of its training job, so the sum is the same after training jobs are deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from sagelet_engine.instances.bill import Bill, bill, priced
from sagelet_engine.instances.catalogue import prices_as_of
from sagelet_engine.model.spec import TrainingSpec
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.tuning import Trial, TuningJob
from sagelet_engine.tuning.children import resources


@dataclass(frozen=True)
class TuningBill:
    #: Number of training jobs that exist or have ended.
    training_jobs: int
    #: Sum of BillableTimeInSeconds: those of one instance of each training job. So far, if some run.
    seconds: int
    #: Price of all instances for all seconds. None if the price of an instance type is not known.
    usd: float | None
    #: The oldest day of the price lists.
    as_of: date
    #: True if training jobs run, so seconds and price grow.
    running: bool


def tuning_bill(job: TuningJob, trials: Sequence[tuple[Trial, TrainingJob | None]], now_ms: int) -> TuningBill:
    """Returns the bill as of now. `trials`: each with its training job if it has not ended."""
    bills = [found for trial, running in trials if (found := _bill(job, trial, running, now_ms)) is not None]
    prices = [one.usd for one in bills if one.usd is not None]
    return TuningBill(
        len(bills),
        sum(one.seconds for one in bills),
        sum(prices) if len(prices) == len(bills) else None,
        min((one.as_of for one in bills), default=prices_as_of()),
        running=any(one.running for one in bills),
    )


def _bill(job: TuningJob, trial: Trial, running: TrainingJob | None, now_ms: int) -> Bill | None:
    """Returns the bill of a trial's training job, or None if there is none as yet."""
    if running is not None:
        return bill(running, now_ms)
    if not trial.ended:
        return None
    request = job.spec.definition(trial.definition).request
    groups = TrainingSpec.of({"ResourceConfig": resources(request) or {}}).instance_groups
    return priced(trial.billable_seconds or 0, groups)
