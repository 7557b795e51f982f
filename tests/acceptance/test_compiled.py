"""Native and compiled training of the same model: both really ran where they say, and they agree."""

import json
from typing import Any

import pytest

from support.clients import ROOT
from support.jobs import Jobs
from support.server import COMPILED, NATIVE

TRAINER = ROOT / "examples" / "gpt2" / "scripts" / "train.py"
METRICS = [{"Name": "loss", "Regex": r"'loss': ([0-9.]+)"}]
#: Largest relative difference of the losses of the GPT-2 example over 20 steps on two CPUs: the Trainer prints four
#: decimals and they were the same each time; with more digits 2.9e-7 was measured over 40 steps.
TOLERANCE = 1e-4


def losses(jobs: Jobs, name: str) -> list[float]:
    lines = [line for line in jobs.log(name) if line.startswith("{'loss'")]
    return [json.loads(line.replace("'", '"'))["loss"] for line in lines]


def run(jobs: Jobs, image: str, **hyperparameters: str) -> tuple[str, dict[str, Any]]:
    text = (ROOT / "pyproject.toml").read_bytes() * 8
    jobs.s3.create_bucket(Bucket="tests")
    jobs.s3.put_object(Bucket="tests", Key="gpt2/text", Body=text)
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://tests/gpt2/"}}
    name = jobs.submit(
        {"train.py": TRAINER.read_text()},
        image=image,
        metrics=METRICS,
        InputDataConfig=[{"ChannelName": "train", "DataSource": source}],
        hyperparameters={"max_steps": "20", "batch_size": "4", **hyperparameters},
    )
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job["FailureReason"]
    return name, job


@pytest.mark.xla
def test_native_and_compiled_losses_agree(jobs: Jobs) -> None:
    native, native_job = run(jobs, NATIVE)
    compiled, compiled_job = run(jobs, COMPILED, sagemaker_training_compiler_enabled="true")
    assert "device: cpu" in jobs.log(native)
    assert not any("compiler report" in line for line in jobs.log(native))
    report = next(line for line in jobs.log(compiled) if line.startswith("sagelet compiler report: "))
    counters = json.loads(report.removeprefix("sagelet compiler report: "))
    assert counters["optimizer_steps"] == 20
    assert counters["CachedCompile"] > 0
    assert losses(jobs, compiled) == pytest.approx(losses(jobs, native), rel=TOLERANCE)
    assert len(losses(jobs, native)) == 2
    final = [job["FinalMetricDataList"][0]["Value"] for job in (native_job, compiled_job)]
    assert final[0] == pytest.approx(final[1], rel=TOLERANCE)
    assert "model.safetensors" in jobs.artifact(compiled)


def test_a_training_compiler_image_without_the_compiler_trains_natively(jobs: Jobs) -> None:
    name = jobs.submit(
        "import os; print('XLA', os.environ.get('USE_TORCH_XLA'))",
        image=COMPILED,
        hyperparameters={"sagemaker_training_compiler_enabled": "false"},
    )
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    assert "XLA 0" in jobs.log(name)
