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


def submit(jobs: Jobs, image: str, **hyperparameters: str) -> str:
    # A text that never changes. In some texts a batch's gradient is a hundred times the others', and the steps after it
    # make a rounding difference of native and compiled training as large as the tolerance.
    text = (ROOT / "LICENSE").read_bytes() * 8
    jobs.s3.create_bucket(Bucket="tests")
    jobs.s3.put_object(Bucket="tests", Key="gpt2/text", Body=text)
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://tests/gpt2/"}}
    return jobs.submit(
        {"train.py": TRAINER.read_text()},
        image=image,
        metrics=METRICS,
        InputDataConfig=[{"ChannelName": "train", "DataSource": source}],
        hyperparameters={"max_steps": "20", "batch_size": "4", **hyperparameters},
    )


def completed(jobs: Jobs, name: str) -> dict[str, Any]:
    job = jobs.ended(name, 600)
    assert job["TrainingJobStatus"] == "Completed", job["FailureReason"]
    return job


def check_reports(native: dict[str, Any], compiled: dict[str, Any]) -> None:
    assert (native["compiled"], compiled["compiled"]) == (False, True)
    assert (native["final"], compiled["final"], compiled["platform"]) == (True, True, "CPU")
    for report in (native["total"], compiled["total"]):
        assert report["steps"] == 20
        assert report["steady_step_seconds"] > 0
    assert compiled["total"]["compiles"] >= 1
    assert compiled["total"]["compiling_steps"][0] == 0
    assert compiled["total"]["samples"] == 80


# In Docker `make demo` is the same (test_demo.py).
@pytest.mark.parametrize("server", [pytest.param("process", marks=pytest.mark.xla)], indirect=True)
def test_native_and_compiled_losses_agree(jobs: Jobs) -> None:
    native, compiled = submit(jobs, NATIVE), submit(jobs, COMPILED, sagemaker_training_compiler_enabled="true")
    native_job, compiled_job = completed(jobs, native), completed(jobs, compiled)
    assert "device: cpu" in jobs.log(native)
    assert not any(line.startswith("sagelet: compiled") for line in jobs.log(native))
    (summary,) = [line for line in jobs.log(compiled) if line.startswith("sagelet: compiled ") and " times in " in line]
    assert "20 steps, the first " in summary
    after = jobs.log(compiled)[jobs.log(compiled).index(summary) + 1 :]
    assert all(line.startswith("sagelet doctor: ") for line in after)
    check_reports(jobs.server.report(native), jobs.server.report(compiled))
    assert "compiler-report.json" in jobs.artifact(compiled, "output")
    assert losses(jobs, compiled) == pytest.approx(losses(jobs, native), rel=TOLERANCE)
    assert len(losses(jobs, native)) == 2
    final = [job["FinalMetricDataList"][0]["Value"] for job in (native_job, compiled_job)]
    assert final[0] == pytest.approx(final[1], rel=TOLERANCE)
    assert "model.safetensors" in jobs.artifact(compiled)
