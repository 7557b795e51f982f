"""Spot interruptions on a schedule: the tag `sagelet:interrupt-after` of a managed spot job.

There are two forms, with spaces because a tag's value cannot have a comma:

- `30 60`: the first attempt is interrupted after 30 s of Training, the second after 60 s, the third runs on.
- `seed:7 mean:45 times:3`: three interruptions, after times drawn from an exponential distribution with a mean of
  45 s; the same seed gives the same times.
"""

import math
import random

from sagelet_engine.base.errors import ScheduleError
from sagelet_engine.base.number_text import number_in, whole_number_in
from sagelet_engine.model.job import Job, SecondaryStatus

TAG = "sagelet:interrupt-after"
#: A larger number would be a typing error.
MOST = 1000


def schedule(value: str) -> tuple[float, ...]:
    """Returns the seconds of Training after which each attempt is interrupted. Raises ScheduleError."""
    words = value.split()
    try:
        times = _drawn(words) if ":" in value else tuple(_number(word) for word in words)
    except (ValueError, KeyError) as error:
        raise _wrong(value) from error
    if not 0 < len(times) <= MOST or not all(math.isfinite(time) and time >= 0 for time in times):
        raise _wrong(value)
    return times


def _drawn(words: list[str]) -> tuple[float, ...]:
    given = dict(word.split(":", 1) for word in words)
    seed, mean, times = _whole(given.pop("seed")), _number(given.pop("mean")), _whole(given.pop("times", "1"))
    if given or mean <= 0 or times > MOST:
        raise ValueError(f"{given}")
    chance = random.Random(seed)
    return tuple(chance.expovariate(1 / mean) for _ in range(times))


def _number(text: str) -> float:
    if (number := number_in(text)) is None:
        raise ValueError(text)
    return number


def _whole(text: str) -> int:
    if (number := whole_number_in(text)) is None:
        raise ValueError(text)
    return number


def _wrong(value: str) -> ScheduleError:
    return ScheduleError(
        f"The tag {TAG} has the value {value!r}: give seconds of training, one number an attempt ('30 60'), "
        f"or 'seed:7 mean:45 times:3'; at most {MOST} interruptions"
    )


def due(job: Job, now_ms: int) -> bool:
    """True if the present attempt has trained as long as its job's tag allows."""
    at_ms = due_ms(job)
    return at_ms is not None and now_ms >= at_ms


def due_ms(job: Job) -> float | None:
    """Returns the time of that interruption in ms since the epoch, or None if the tag causes none."""
    value = job.tags.get(TAG)
    if value is None or not job.spec.spot or job.secondary is not SecondaryStatus.TRAINING:
        return None
    times = schedule(value)
    done = sum(attempt.ended_by is SecondaryStatus.INTERRUPTED for attempt in job.attempts)
    return job.transitions[-1].start_ms + times[done] * 1000 if done < len(times) else None
