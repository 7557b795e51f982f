"""What is a processing job's own within the engine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_engine.execution.works import WORKS
from sagelet_engine.images.resolve import Resolver
from sagelet_engine.model import aws_texts, processing, training, verdict
from sagelet_engine.model.job import JobKey, JobKind
from sagelet_engine.model.processing import ProcessingJob
from sagelet_engine.model.runtime import Observation
from sagelet_engine.store.jobs import Store
from support.processing import processing_request
from support.world import request

KEY = JobKey("123456789012", "us-east-1", "p", JobKind.PROCESSING)
ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com"


def job(**changes: object) -> ProcessingJob:
    return processing.create(KEY, "id", processing_request("p", **changes), {}, 1000)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "sagelet.db")
    yield made
    made.close()


def test_a_record_is_read_as_it_was_written(store: Store) -> None:
    store.insert(job())
    found = store.get(KEY)
    assert isinstance(found, ProcessingJob)
    assert found == job()
    assert store.unfinished() == [found]


@pytest.mark.parametrize(
    ("image", "stand_in"),
    [
        (f"{ECR}/sagemaker-scikit-learn:1.2-1-cpu-py3", "sagelet/training:"),
        (f"{ECR}/sagemaker-base-python-310:1.0", "sagelet/training:"),
        (f"{ECR}/sagemaker-base-python:1.0", "sagelet/training:"),
        (f"{ECR}/pytorch-training:1.13.1-cpu-py39", "sagelet/training:"),
    ],
)
def test_images_with_a_stand_in(image: str, stand_in: str) -> None:
    assert (Resolver().resolve(image).local_image or "").startswith(stand_in)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (f"{ECR}/sagemaker-spark-processing:3.3-cpu-py39-v1.0", "it runs Apache Spark"),
        (f"{ECR}/sagemaker-clarify-processing:1.0", "AWS's own"),
        (f"{ECR}/sagemaker-model-monitor-analyzer", "AWS's own"),
    ],
)
def test_images_that_are_refused_by_name(image: str, why: str) -> None:
    assert why in (Resolver().resolve(image).refusal or "")


def test_memory_that_ran_out_is_told_in_aws_s_words() -> None:
    ended = {"algo-1": Observation(running=False, exit_code=137, out_of_memory=True, finished_ms=1)}
    told = verdict.judge(job(), ended, {"algo-1": verdict.NO_NOTES})
    assert told.failure_reason == f"ClientError: {aws_texts.PROCESSING_OUT_OF_MEMORY}"


def test_a_training_job_is_not_taken_for_one() -> None:
    other = training.create(JobKey("123456789012", "us-east-1", "p"), "id", request("p"), {}, 1000)
    with pytest.raises(TypeError, match="training-job/p is not a processing job"):
        processing.as_processing(other)


def test_every_kind_of_job_has_its_work() -> None:
    assert set(WORKS) == set(JobKind)
