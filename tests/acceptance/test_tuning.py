"""The HyperparameterTuner of SDK v2 and v3, unchanged: in simulated time, and with training jobs that are processes."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sagelet.testing import FastForward, Job
from sagelet_api.cli.main import main
from support.clients import ENVIRONMENT, ENVIRONMENT_V3, ROOT, Clients, RunClients, WithData
from support.jobs import Jobs
from support.on_runtimes import by_processes, in_docker
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
    assert answer["best"] == least["TrainingJobName"]
    assert float(answer["best_hyperparameters"]["lr"]) == pytest.approx(least["lr"])


def check_attached(answer: dict[str, Any], early_stopping: str) -> None:
    """What a second program reads of the tuning job by its name alone."""
    assert answer["attached_best"] == answer["best"]
    count = len(answer["rows"])
    assert answer["attached"] == {
        "strategy": "Random",
        "early_stopping_type": early_stopping,
        "ranges": ["CategoricalParameterRanges", "ContinuousParameterRanges", "IntegerParameterRanges"],
        "max_jobs": count,
        "rows": count,
    }
    assert answer["model_data"].endswith(f"/{answer['best']}/output/model.tar.gz")


def train(job: Job) -> None:
    job.clock.advance(1800)
    job.print(f"loss={float(job.hyperparameters['lr']):.6f}")
    (job.model_dir / "w").write_text("w")


def test_the_tuner_of_the_sdk_in_simulated_time(tmp_path: Path) -> None:
    with FastForward() as server:
        server.train(train)
        answer = Clients(server, tmp_path).python(
            HERE / "clients" / "tuner.py", str(source(tmp_path)), "ml.m5.large", "4", "Auto"
        )
    check(answer, 4)
    check_attached(answer, "Auto")
    assert [row["TrainingElapsedTimeSeconds"] for row in answer["rows"]] == [1800.0] * 4


@in_docker
def test_the_tuner_of_the_sdk_trains_for_real(server: SageletProcess, jobs: Jobs, tmp_path: Path) -> None:
    answer = Clients(server, tmp_path).python(
        HERE / "clients" / "tuner.py", str(source(tmp_path)), "ml.m5.large", "2", "Off"
    )
    check(answer, 2)
    check_attached(answer, "Off")
    child = jobs.describe(answer["best"])
    assert child["TuningJobArn"].endswith(f"/{answer['name']}")
    assert child["HyperParameters"]["_tuning_objective_metric"] == "loss"


def test_the_tuner_of_sdk_v3_in_simulated_time(tmp_path: Path) -> None:
    with FastForward() as server:
        server.train(train)
        clients = Clients(server, tmp_path, ENVIRONMENT_V3)
        answer = clients.python(HERE / "clients" / "tuner_v3.py", str(source(tmp_path)), "ml.m5.large", "4")
    check(answer, 4)
    assert [row["TrainingElapsedTimeSeconds"] for row in answer["rows"]] == [1800.0] * 4


@by_processes
def test_the_tuner_of_sdk_v3_trains_for_real(server: SageletProcess, jobs: Jobs, tmp_path: Path) -> None:
    clients = Clients(server, tmp_path, ENVIRONMENT_V3)
    answer = clients.python(HERE / "clients" / "tuner_v3.py", str(source(tmp_path)), "ml.m5.large", "2")
    check(answer, 2)
    child = jobs.describe(answer["best"])
    assert child["TuningJobArn"].endswith(f"/{answer['name']}")
    assert "sm_drivers" in {channel["ChannelName"] for channel in child["InputDataConfig"]}


def repeated(jobs: Jobs, name: str) -> dict[str, Any]:
    """Runs a training job again by CreateTrainingJob with the same members, and returns how it ended."""
    sagemaker = jobs.server.client("sagemaker")
    members = sagemaker.meta.service_model.operation_model("CreateTrainingJob").input_shape.members
    same = {member: value for member, value in jobs.describe(name).items() if member in members}
    alone = f"alone-{name}"
    sagemaker.create_training_job(**{**same, "TrainingJobName": alone})
    return jobs.ended(alone)


def objective(job: dict[str, Any]) -> float:
    (value,) = (one["Value"] for one in job["FinalMetricDataList"] if one["MetricName"] == "eval_loss")
    return float(value)


def notebook(
    server: WithData, sagemaker: Any, directory: Path, strategy: str, left_out: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Runs a strategy's cells of the notebook. Returns what boto3 reads of the tuning job and its training jobs."""
    shutil.copytree(ROOT / "examples" / "tuning", directory / "tuning")
    others = {"MPLBACKEND": "Agg", "SAGEMAKER_SUPPRESS_V2_WARNING": "1"}
    clients = RunClients(server, directory / "tuning", ENVIRONMENT, others)
    printed = clients.run("python", str(HERE / "clients" / "cells.py"), "tuning.ipynb", left_out, seconds=1200)
    found = re.search(rf"^{strategy}: (\S+) s3://\S+/(\S+)/output/model\.tar\.gz$", printed, re.MULTILINE)
    assert found is not None, printed
    assert found[1] == found[2]
    asked = {"HyperParameterTuningJobName": found[1].rpartition("-")[0].rpartition("-")[0]}
    shown = sagemaker.describe_hyper_parameter_tuning_job(**asked)
    assert shown["HyperParameterTuningJobStatus"] == "Completed"
    assert shown["HyperParameterTuningJobConfig"]["Strategy"] == strategy
    order = {"SortBy": "FinalObjectiveMetricValue", "MaxResults": 100}
    listed = sagemaker.list_training_jobs_for_hyper_parameter_tuning_job(**asked, **order)["TrainingJobSummaries"]
    assert len(listed) == 4
    assert shown["BestTrainingJob"]["TrainingJobName"] == listed[0]["TrainingJobName"] == found[1]
    for one in listed:
        at_once = [other for other in listed if other["CreationTime"] <= one["CreationTime"] < other["TrainingEndTime"]]
        assert len(at_once) <= 2
    return shown, listed


@by_processes
def test_the_notebook(server: SageletProcess, jobs: Jobs, tmp_path: Path) -> None:
    """Four training jobs of a compiled Trainer script, two at a time; what they find is what each finds alone."""
    _, listed = notebook(server, server.client("sagemaker"), tmp_path, "Bayesian", "hyperband")
    assert {one["TrainingJobStatus"] for one in listed} == {"Completed"}
    best = listed[0]
    assert jobs.server.report(best["TrainingJobName"])["compiled"]
    alone = repeated(jobs, best["TrainingJobName"])
    assert alone["TrainingJobStatus"] == "Completed"
    assert objective(alone) == best["FinalHyperParameterTuningJobObjectiveMetric"]["Value"]
    values = best["TunedHyperParameters"]
    assert {key: alone["HyperParameters"][key].strip('"') for key in values} == {
        key: value.strip('"') for key, value in values.items()
    }


def test_hyperband_of_the_notebook_in_simulated_time(tmp_path: Path) -> None:
    """Values that get worse from trial to trial: the worse ones of a bracket are stopped."""
    trained: list[str] = []

    def evaluated(job: Job) -> None:
        trained.append(job.name)
        number = int(job.name.rsplit("-", 2)[1])
        for _ in range(4):
            job.clock.advance(600)
            job.print(f"eval_loss={number}.0")
        (job.model_dir / "w").write_text("w")

    with FastForward() as server:
        server.train(evaluated)
        shown, listed = notebook(server, server.session().client("sagemaker"), tmp_path, "Hyperband", "bayesian")
    assert {one["TrainingJobName"] for one in listed} == {*trained}
    assert [one["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] for one in listed] == [1.0, 2.0, 3.0, 4.0]
    assert {one["TrainingJobStatus"] for one in listed} == {"Completed", "Stopped"}
    assert listed[0]["TrainingJobStatus"] == "Completed"
    assert shown["HyperParameterTuningJobConfig"]["StrategyConfig"]["HyperbandStrategyConfig"]["MaxResource"] == 4


#: Needs 1 MiB a row, and may have 250 MiB.
HUNGRY = """
    import argparse, resource
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch_size", type=int)
    parser.add_argument("--learning_rate", type=float)
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (250 << 20, resource.RLIM_INFINITY))
    rows = [bytearray(1 << 20) for _ in range(arguments.batch_size)]
"""


@pytest.mark.parametrize("server", [pytest.param("process", marks=pytest.mark.xla)], indirect=True)
def test_the_largest_batch_of_a_real_job(server: SageletProcess, jobs: Jobs) -> None:
    given = {"batch_size": "64", "learning_rate": "0.001"}
    name = jobs.submit(HUNGRY, hyperparameters=given)
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    words = ("tune", "batch-size", name, "--only", "native", "--min", "64", "--step", "64", "--json")
    done = CliRunner().invoke(main, [*words, "--endpoint", server.endpoint])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    sizes = [(one["size"], one["outcome"]) for one in found["probes"]]
    assert sizes[:3] == [(64, "fits"), (128, "fits"), (256, "out of memory")]
    assert [size for size, _ in sizes[3:]] == [192]
    fitting = max(size for size, outcome in sizes if outcome == "fits")
    assert found["native"]["size"] == fitting
    assert found["native"]["learning_rate"] == pytest.approx(0.001 * fitting / 64)
    assert jobs.describe(found["native"]["job"])["TrainingJobStatus"] == "Completed"
