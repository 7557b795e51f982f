"""SDK v2's HyperparameterTuner, unchanged: in simulated time, and with training jobs that are processes."""

from pathlib import Path
from typing import Any

import pytest

from sagelet.testing import FastForward, Job
from support.clients import Clients
from support.jobs import Jobs
from support.server import SageletProcess

pytestmark = pytest.mark.sdk

HERE = Path(__file__).parent
SCRIPT = """\
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--lr", type=float)
parser.add_argument("--bs", type=int)
parser.add_argument("--optimizer")
parser.add_argument("--_tuning_objective_metric")
arguments = parser.parse_args()
assert arguments.optimizer in ("sgd", "adam"), arguments
print(f"loss={arguments.lr:.6f}", flush=True)
"""


def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    directory.mkdir()
    (directory / "train.py").write_text(SCRIPT)
    return directory


def check(answer: dict[str, Any], count: int) -> None:
    """What the SDK read is what the training jobs were given, and the best is the best."""
    assert answer["status"] == "Completed"
    rows = answer["rows"]
    assert len(rows) == count
    assert {row["TrainingJobStatus"] for row in rows} == {"Completed"}
    for row in rows:
        assert row["FinalObjectiveValue"] == pytest.approx(row["lr"], abs=1e-6)
        assert 1 <= row["bs"] <= 64
        assert row["optimizer"].strip('"') in ("sgd", "adam")
    least = min(rows, key=lambda row: row["FinalObjectiveValue"])
    assert answer["best"] == answer["attached_best"] == least["TrainingJobName"]
    assert float(answer["best_hyperparameters"]["lr"]) == pytest.approx(least["lr"])
    assert answer["model_data"].endswith(f"/{answer['best']}/output/model.tar.gz")


def test_the_tuner_of_the_sdk_in_simulated_time(tmp_path: Path) -> None:
    with FastForward() as server:

        @server.train
        def train(job: Job) -> None:
            job.clock.advance(3600)
            job.print(f"loss={float(job.hyperparameters['lr']):.6f}")
            (job.model_dir / "w").write_text("w")

        answer = Clients(server, tmp_path).python(
            HERE / "clients" / "tuner.py", str(source(tmp_path)), "ml.m5.large", "4"
        )
    check(answer, 4)
    assert [row["TrainingElapsedTimeSeconds"] for row in answer["rows"]] == [3600.0] * 4


def test_the_tuner_of_the_sdk_trains_for_real(server: SageletProcess, jobs: Jobs, tmp_path: Path) -> None:
    answer = Clients(server, tmp_path).python(HERE / "clients" / "tuner.py", str(source(tmp_path)), "ml.m5.large", "2")
    check(answer, 2)
    child = jobs.describe(answer["best"])
    assert child["TuningJobArn"].endswith(f"/{answer['name']}")
    assert child["HyperParameters"]["_tuning_objective_metric"] == "loss"
