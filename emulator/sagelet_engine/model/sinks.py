"""Where metric points and statuses go in addition to sagelet's own store. The API provides both: CloudWatch and
EventBridge.
"""

import logging
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sagelet_engine.model.job import JobKey, JobKind
from sagelet_engine.model.orchestration import Orchestration
from sagelet_engine.model.training import TrainingJob

log = logging.getLogger(__name__)

#: CloudWatch namespace of training metrics (AWS: "Monitor Amazon SageMaker with Amazon CloudWatch").
NAMESPACE = JobKind.TRAINING.log_group


class MetricPoint(NamedTuple):
    """One value of one metric of a training job."""

    name: str
    value: float
    #: ms since the epoch.
    time_ms: int
    #: `algo-1` for an instance metric, in percent. Empty for a metric of the job as a whole.
    host: str = ""


class MetricSink(Protocol):
    def publish(self, account: str, region: str, job_name: str, points: Sequence[MetricPoint]) -> None:
        """Puts points into namespace /aws/sagemaker/TrainingJobs.

        The dimension is TrainingJobName. For an instance metric it is Host=JOB/algo-N, with the unit Percent.
        """
        ...


def publish(sink: MetricSink, key: JobKey, points: list[MetricPoint]) -> None:
    """Publishes points; an error is logged. CloudWatch is a copy: the store has the points and restores them at the
    next start.
    """
    try:
        sink.publish(key.account, key.region, key.name, points)
    except Exception:
        log.exception("%s: %d metric points did not reach CloudWatch", key.name, len(points))


class StatusSink(Protocol):
    def announce(self, job: TrainingJob | Orchestration) -> None:
        """Takes a status that a job or an orchestration entered. `job` is its record at that time.

        The statuses of each come in order; those before a crash may come twice. Must not raise.
        """
        ...
