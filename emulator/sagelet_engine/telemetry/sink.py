"""Where metric points and changes of status go beside sagelet's own store: CloudWatch and EventBridge, which the faces
bring."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from sagelet_engine.jobs.record import TrainingJob

#: CloudWatch namespace of training metrics (AWS: "Monitor Amazon SageMaker with Amazon CloudWatch").
NAMESPACE = "/aws/sagemaker/TrainingJobs"


class MetricPoint(NamedTuple):
    """One value of one metric of a training job."""

    name: str
    value: float
    #: ms since the epoch.
    time_ms: int
    #: `algo-1` for an instance metric, in percent; empty: a metric of the job as a whole.
    host: str = ""


class MetricSink(Protocol):
    def publish(self, account: str, region: str, job_name: str, points: Sequence[MetricPoint]) -> None:
        """Puts points into namespace /aws/sagemaker/TrainingJobs.

        Dimension: TrainingJobName; of an instance metric: Host=JOB/algo-N, unit Percent.
        """
        ...


class StatusSink(Protocol):
    def announce(self, job: TrainingJob) -> None:
        """Takes a status that a job entered; `job` is its record as of then.

        Each job's statuses come in order, those before a crash perhaps twice. Must not raise.
        """
        ...
