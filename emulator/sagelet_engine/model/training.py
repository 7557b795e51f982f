"""The record of a training job: what it has in addition to jobs of every kind."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from sagelet_engine.model.job import Job, JobKey, Parent
from sagelet_engine.model.lifecycle import created
from sagelet_engine.model.spec import OutputSpec, TrainingSpec, is_spot

T = TypeVar("T", bound="TrainingJob")


@dataclass(frozen=True)
class Compilation:
    """The compilation of a job that asks for the compiler."""

    compiled: bool
    #: What it is compiled for, or would have been: CPU, CUDA.
    platform: str
    #: Why, for people.
    reason: str


@dataclass(frozen=True)
class TrainingJob(Job):
    """All durable data of one training job. `request` is its CreateTrainingJob body."""

    #: What its hosts report of their compilation. None if there is no report yet, or if the job does not ask for the
    #: compiler.
    compilation: Compilation | None = None

    @cached_property
    def spec(self) -> TrainingSpec:
        return TrainingSpec.of(self.request)

    @property
    def spot(self) -> bool:
        # A Describe call needs this of an ended job, and nothing else of the spec.
        return is_spot(self.request)

    @property
    def output(self) -> OutputSpec:
        return OutputSpec.of(self.request.get("OutputDataConfig", {}))

    @property
    def hyperparameters(self) -> Mapping[str, str]:
        return self.spec.hyperparameters

    def without_attempt(self: T) -> T:
        return replace(self, compilation=None)

    @property
    def model_uri(self) -> str:
        """Returns the URI of the model: S3OutputPath/JOB/output/model.tar.gz (DescribeTrainingJob: ModelArtifacts)."""
        return f"{self.output_uri}/model.tar.gz"

    @property
    def output_uri(self) -> str:
        return f"{self.output.path}/{self.key.name}/output"


def as_training(job: Job) -> TrainingJob:
    """Returns the record of a training job as such. Raises TypeError for a job of another kind."""
    if not isinstance(job, TrainingJob):
        raise TypeError(f"{job.key.arn} is not a training job")
    return job


def create(
    key: JobKey,
    job_id: str,
    request: Mapping[str, Any],
    tags: Mapping[str, str],
    now_ms: int,
    spot_discount: float = 0.0,
    parent: Parent | None = None,
) -> TrainingJob:
    """Returns a job at the moment of CreateTrainingJob. CreationTime equals the start of Starting."""
    return TrainingJob(
        key,
        job_id,
        request,
        now_ms,
        now_ms,
        parent,
        transitions=created(now_ms),
        tags=tags,
        spot_discount=spot_discount,
    )
