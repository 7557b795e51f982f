"""Where metric points and statuses go in addition to sagelet's own store. The API provides both: CloudWatch and
EventBridge.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from sagelet_engine.model.job import Job, JobKey, JobKind
from sagelet_engine.model.orchestration import Orchestration

log = logging.getLogger(__name__)

#: CloudWatch namespaces of jobs (AWS: "Monitor Amazon SageMaker with Amazon CloudWatch"). They are named as log groups.
NAMESPACES = frozenset(kind.log_group for kind in JobKind)


class MetricPoint(NamedTuple):
    """One value of one metric of a job."""

    name: str
    value: float
    #: ms since the epoch.
    time_ms: int
    #: `algo-1` for an instance metric, in percent. Empty for a metric of the job as a whole.
    host: str = ""


class MetricSink(Protocol):
    def publish(self, key: JobKey, points: Sequence[MetricPoint]) -> None:
        """Puts points into the namespace of the job's kind, for example /aws/sagemaker/TrainingJobs.

        The dimension is TrainingJobName. For an instance metric it is Host=JOB/algo-N, with the unit Percent.
        """
        ...


def publish(
    sink: MetricSink, key: JobKey, points: list[MetricPoint], note: Callable[[str, str], None] | None = None
) -> None:
    """Publishes points. CloudWatch is a copy: the store has the points, and restores them at the next start.

    An error does not fail the job. `note` takes a line for its log, and a host's name or an empty text.
    """
    try:
        sink.publish(key, points)
    except Exception as error:
        log.exception("%s: %d metric points did not reach CloudWatch", key.name, len(points))
        if note is not None:
            why = f"{type(error).__name__}: {error}"
            note("", f"sagelet: warning: metrics are not in CloudWatch until the server's next start: {why}")


class StatusSink(Protocol):
    @property
    def is_heard(self) -> bool:
        """False if nobody would hear of a status that is announced now. Must not raise."""
        ...

    def announce(self, job: Job | Orchestration) -> None:
        """Takes a status that a job or an orchestration entered. `job` is its record at that time.

        The statuses of each come in order; those before a crash may come twice. Must not raise.
        """
        ...
