"""Computes what AWS would charge for a job: billable seconds x instances x the price of one instance.

AWS's formula (SageMaker's developer guide, "Managed Spot Training", and DescribeTrainingJob's BillableTimeInSeconds):
the seconds are those of one instance, to be multiplied by the number of instances. Managed spot training's discount is
in the seconds already, so their price is the on-demand one. Storage, logs and transfers are not included.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from sagelet_engine.instances.catalogue import find, prices_as_of
from sagelet_engine.model.job import Job
from sagelet_engine.model.spec import InstanceGroup

HOUR = 3600


@dataclass(frozen=True)
class Bill:
    #: Billable seconds of each instance. So far, for a running job.
    seconds: int
    #: Instance type and number, one entry a type, in the order of the job's groups.
    instances: tuple[tuple[str, int], ...]
    #: Price of all instances for all seconds. None if the price of one of the types is not known.
    usd: float | None
    #: The day of the price list. If the types have prices of several days, the oldest.
    as_of: date
    #: True if the job still runs, so seconds and price grow.
    running: bool = False
    #: Seconds for which a warm pool kept the instances after the job. AWS bills these, too; they are not in `usd`.
    retained_seconds: int = 0

    @property
    def usd_per_hour(self) -> float | None:
        """Returns the price of all instances together, or None if a price is not known."""
        prices = [(_price(name), count) for name, count in self.instances]
        known = [price * count for price, count in prices if price is not None]
        return sum(known) if len(known) == len(prices) else None


def bill(job: Job, now_ms: int) -> Bill:
    """Returns the bill of a job, as of now if it still runs. A job that never got to Downloading costs nothing."""
    seconds = _so_far(job, now_ms) if job.billable_seconds is None else job.billable_seconds
    made = priced(seconds, job.spec.instance_groups)
    return replace(made, running=not job.terminal, retained_seconds=job.retained_seconds or 0)


def priced(seconds: int, groups: Sequence[InstanceGroup]) -> Bill:
    """Returns the bill of an ended job with these billable seconds and instances."""
    counts: dict[str, int] = {}
    for group in groups:
        counts[group.instance_type] = counts.get(group.instance_type, 0) + len(group.hosts)
    dates = [found.priced_on for name in counts if (found := find(name)) is not None and found.priced_on is not None]
    made = Bill(seconds, tuple(counts.items()), None, min(dates, default=prices_as_of()))
    hourly = made.usd_per_hour
    return made if hourly is None else replace(made, usd=seconds * hourly / HOUR)


def _so_far(job: Job, now_ms: int) -> int:
    """Returns the billable seconds of a running job, by the rule of Job.billable_seconds."""
    if job.terminal or job.training_start_ms is None:
        return 0
    if job.spec.spot:
        return max(0, int(job.running_ms(now_ms) / 1000 * (1 - job.spot_discount)))
    return max(0, now_ms // 1000 - job.training_start_ms // 1000)


def _price(instance_type: str) -> float | None:
    found = find(instance_type)
    return None if found is None else found.usd_per_hour
