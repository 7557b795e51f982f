"""The record of a training job: what it has beside what jobs of every kind have."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from sagelet_engine.model.job import Job, JobKey
from sagelet_engine.model.lifecycle import created
from sagelet_engine.model.spec import TrainingSpec

T = TypeVar("T", bound="TrainingJob")


@dataclass(frozen=True)
class Compilation:
    """What became of a job's wish to be compiled."""

    compiled: bool
    #: What it is compiled for, or would have been: CPU, CUDA.
    platform: str
    #: Why, for people.
    reason: str


@dataclass(frozen=True)
class TrainingJob(Job):
    """All that is durable about one training job. `request` is its CreateTrainingJob body."""

    #: What its hosts say of their compilation, or None if they have said nothing yet or the job asks for none.
    compilation: Compilation | None = None

    @cached_property
    def spec(self) -> TrainingSpec:
        return TrainingSpec.of(self.request)

    def without_attempt(self: T) -> T:
        return replace(self, compilation=None)

    @property
    def model_uri(self) -> str:
        """Where the model goes: S3OutputPath/JOB/output/model.tar.gz (DescribeTrainingJob: ModelArtifacts)."""
        return f"{self.output_uri}/model.tar.gz"

    @property
    def output_uri(self) -> str:
        return f"{self.spec.output_path}/{self.key.name}/output"


def create(
    key: JobKey,
    job_id: str,
    request: Mapping[str, Any],
    tags: Mapping[str, str],
    now_ms: int,
    spot_discount: float = 0.0,
) -> TrainingJob:
    """A job at the moment of CreateTrainingJob: CreationTime equals the start of Starting."""
    return TrainingJob(
        key, job_id, request, now_ms, now_ms, transitions=created(now_ms), tags=tags, spot_discount=spot_discount
    )
