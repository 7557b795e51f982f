"""Compares the loss curves of two jobs within a tolerance. Pure.

The distance of two curves is the root mean square of their differences over the points that all curves have. The
tolerance is the first of these that can be had:

1. several runs of the first job are known: what their spread makes of a distance by chance, 19 times of 20 (Student);
2. one run is known: the noise of its curve around a smooth fall, or the default, whichever is more.

A distance of 1 % of what the loss falls by, or 0.1 % of the loss, never counts. A noise that two curves share point by
point, because they see the same batches, says nothing against them: curves within the default agree.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from sagelet_engine.comparison.measured import LossPoint
from sagelet_engine.comparison.student import quantile

#: The tolerance for a single run of the first job, as a share of what its loss falls by.
DEFAULT = 0.1
#: A distance up to one of these shares, of the fall and of the mean loss, never counts.
SLIGHT_FALL, SLIGHT_LOSS = 0.01, 0.001
#: A tolerance of more than this share of the fall cannot tell a job that learns from one that learns something else.
WIDE = 0.25
#: Fewer points of one curve say nothing of its noise.
_NOISE_POINTS = 5
#: With fewer points there is no curve, so a single run of each says nothing.
_CURVE_POINTS = 3
SIMILAR, DISSIMILAR, NOISY = "similar", "not similar", "too noisy to say"
RUNS, NOISE, BY_DEFAULT, SLIGHT = "runs", "noise", "default", "slight"

Curve = Sequence[LossPoint]


@dataclass(frozen=True)
class LossAgreement:
    """Losses are in the unit that the script prints."""

    #: The job that is compared with the first one.
    job: str
    label: str
    #: Points that all curves have.
    points: int
    #: The runs of the first job that are known.
    runs: int
    #: The largest fall of the first job's mean loss, from a point to a later one. 0 for a loss that only rises.
    fall: float
    #: Root mean square of the differences of the two mean curves.
    distance: float
    tolerance: float
    #: What gave the tolerance: runs, noise, default, slight.
    basis: str
    #: similar, not similar, too noisy to say
    verdict: str


def agreement(job: str, label: str, first: Sequence[Curve], second: Sequence[Curve]) -> LossAgreement | None:
    """Compares runs of two jobs. None if a curve is empty, or the curves have no point in common."""
    curves = _aligned([*first, *second])
    if not curves:
        return None
    own, others = curves[: len(first)], curves[len(first) :]
    middle = _mean(own)
    distance = _mean_square([after - before for before, after in zip(middle, _mean(others), strict=True)])
    fall = _fall(middle)
    tolerance, basis = max(_tolerances(own, others, fall))
    slight = max(SLIGHT_FALL * fall, SLIGHT_LOSS * abs(statistics.fmean(middle)))
    if slight >= tolerance:
        tolerance, basis = slight, SLIGHT
    is_curve = len(own) > 1 or len(middle) >= _CURVE_POINTS
    similar = DEFAULT * fall if len(own) == 1 else 0.0
    verdict = _verdict(distance, tolerance, slight, fall, similar=similar, is_curve=is_curve)
    if basis == NOISE and verdict == SIMILAR and distance <= similar:
        # The narrower bound is the one that the verdict rests on.
        tolerance, basis = similar, BY_DEFAULT
    return LossAgreement(job, label, len(middle), len(own), fall, distance, tolerance, basis, verdict)


def is_shorter(curve: Curve, than: Curve) -> bool:
    """True if a curve lacks points of another one."""
    common, whole = _aligned([than, curve]), _aligned([than])
    return not common or len(common[0]) < len(whole[0])


def _aligned(curves: Sequence[Curve]) -> list[list[float]]:
    """Returns the losses at the places that all curves have. Empty if there is none.

    Places are epochs. If a point does not have its epoch, they are the numbers of the points, if all curves have as
    many.
    """
    if all(point.epoch is not None for curve in curves for point in curve):
        found = [{round(point.epoch or 0.0, 4): point.loss for point in curve} for curve in curves]
    elif len({len(curve) for curve in curves}) == 1:
        found = [{float(number): point.loss for number, point in enumerate(curve)} for curve in curves]
    else:
        return []
    places = sorted(set.intersection(*(set(curve) for curve in found)))
    return [[curve[place] for place in places] for curve in found] if places else []


def _fall(losses: Sequence[float]) -> float:
    highest = accumulate(losses, max)
    return max(before - now for before, now in zip(highest, losses, strict=True))


def _tolerances(own: Sequence[list[float]], others: Sequence[list[float]], fall: float) -> list[tuple[float, str]]:
    if len(own) > 1:
        variances = [statistics.variance(losses) for losses in zip(*own, strict=True)]
        spread = math.sqrt(statistics.fmean(variances))
        return [(quantile(len(own) - 1) * spread * math.sqrt(1 / len(own) + 1 / len(others)), RUNS)]
    found = [(DEFAULT * fall, BY_DEFAULT)]
    (losses,) = own
    if len(losses) >= _NOISE_POINTS:
        # Where a fit does not follow a bend of the curve, the bend looks like noise. So the best fit counts.
        noise = min(_beside_neighbours(losses), *(_beside_fall(losses, fall) for fall in _falls(len(losses))))
        found.append((quantile(len(losses) - 3) * noise * math.sqrt(1 + 1 / len(others)), NOISE))
    return found


def _falls(points: int) -> Iterator[list[float]]:
    """Yields shapes of a smooth fall: exponentials from steep to nearly straight, and powers of the step."""
    for share in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2):
        yield [math.exp(-number / (share * points)) for number in range(points)]
    for power in (0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.5, 2.0):
        yield [(number + 1) ** -power for number in range(points)]


def _beside_fall(losses: Sequence[float], fall: Sequence[float]) -> float:
    """Returns the standard deviation of the points around `a + b * fall`, by least squares. A rise is a flat line."""
    middle, shape = statistics.fmean(losses), statistics.fmean(fall)
    apart = [one - shape for one in fall]
    slope = sum(x * (y - middle) for x, y in zip(apart, losses, strict=True)) / sum(x * x for x in apart)
    slope = max(0.0, slope)
    rest = sum((y - middle - slope * x) ** 2 for x, y in zip(apart, losses, strict=True))
    # Two parameters are fitted, and the shape is chosen.
    return math.sqrt(rest / (len(losses) - 3))


def _beside_neighbours(losses: Sequence[float]) -> float:
    """Returns the standard deviation of a point around the line through its neighbours.

    It is by the median, because a curve that bends at its start has no noise there.
    """
    triples = zip(losses, losses[1:], losses[2:], strict=False)
    apart = [abs(middle - (before + after) / 2) for before, middle, after in triples]
    return statistics.median(apart) / statistics.NormalDist().inv_cdf(0.75) / math.sqrt(1.5)


def _verdict(distance: float, tolerance: float, slight: float, fall: float, *, similar: float, is_curve: bool) -> str:
    if distance <= slight or (is_curve and distance <= similar):
        return SIMILAR
    if not is_curve or (distance <= tolerance and tolerance > WIDE * fall):
        return NOISY
    # NaN is not similar to any loss.
    return SIMILAR if distance <= tolerance else DISSIMILAR


def _mean(curves: Sequence[list[float]]) -> list[float]:
    return [statistics.fmean(losses) for losses in zip(*curves, strict=True)]


def _mean_square(numbers: Sequence[float]) -> float:
    return math.sqrt(statistics.fmean(number * number for number in numbers))


def conclusion(found: LossAgreement) -> str:
    """Says whether the curves agree, how far they are apart and how far the loss falls, without a full stop."""
    falls = f" while the loss falls by {found.fall:.3g}" if found.fall else ", and the loss does not fall"
    return f"{_CONCLUSIONS[found.verdict]}: they differ by {found.distance:.3g}{falls}"


def figures(found: LossAgreement, first: str) -> str:
    """Says how the distance was judged, without a full stop. `first`: the first job's name."""
    within = "within" if found.distance <= found.tolerance else "more than"
    points = f"{found.points} point{'s' if found.points > 1 else ''}"
    basis = _BASES[found.basis].format(runs=found.runs, first=first)
    return f"Over {points} that is (root mean square) {within} {found.tolerance:.3g}, {basis}"


_CONCLUSIONS: Mapping[str, str] = {
    SIMILAR: "the loss curves agree",
    DISSIMILAR: "the loss curves do NOT agree",
    NOISY: "whether the loss curves agree is too noisy to say",
}
_BASES: Mapping[str, str] = {
    RUNS: "which is what the spread of {runs} runs of {first} allows",
    NOISE: "which is what the noise of the one run of {first} around a smooth fall allows",
    BY_DEFAULT: "which is the default if only one run of {first} is known: 10 % of the fall",
    SLIGHT: "which never counts: 1 % of the fall, or 0.1 % of the loss",
}
