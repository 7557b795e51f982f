"""Where metric points go beside sagelet's own store: CloudWatch, which the faces bring."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

#: CloudWatch namespace of training metrics (AWS: "Monitor Amazon SageMaker with Amazon CloudWatch").
NAMESPACE = "/aws/sagemaker/TrainingJobs"


@dataclass(frozen=True)
class MetricPoint:
    """One value of one metric of a training job."""

    name: str
    value: float
    #: ms since the epoch.
    time_ms: int


class MetricSink(Protocol):
    def publish(self, account: str, region: str, job_name: str, points: Sequence[MetricPoint]) -> None:
        """Puts points into namespace /aws/sagemaker/TrainingJobs with dimension TrainingJobName."""
        ...
