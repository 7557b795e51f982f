"""TrainingJobEarlyStoppingType Auto: AWS's median rule (developer guide, "Stop Training Jobs Early")."""

from collections.abc import Sequence
from statistics import median

from sagelet_engine.tuning.strategies.strategy import Course, Curve, Settings


class MedianRule:
    """An EarlyStopping. After each epoch it compares the newest objective of a training job with the others' averages.

    The job is stopped if its objective is worse than the median of the running averages, up to the same epoch, of all
    "previously completed training jobs" (botocore shape HyperParameterTuningJobConfig) that got so far.
    """

    def losers(self, settings: Settings, courses: Sequence[Course], /) -> list[int]:
        completed = [one.curve for one in courses if one.completed]
        return [
            place
            for place, one in enumerate(courses)
            if one.running and len(one.curve) and self._is_worse(settings, one, completed)
        ]

    def _is_worse(self, settings: Settings, course: Course, completed: Sequence[Curve]) -> bool:
        epochs = len(course.curve)
        averages = [one.average(epochs) for one in completed if len(one) >= epochs]
        return bool(averages) and settings.better(median(averages), course.curve.values[-1])
