"""`sagelet tune`, its names in a shell, and `sagelet open` of a tuning job."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sagelet_api.cli.main import main
from support.api_world import ApiWorld
from support.tuning import tuning_request
from support.world import until

Sagelet = Callable[..., Result]


@pytest.fixture
def tuned(world: ApiWorld) -> ApiWorld:
    """With `grid`: two training jobs, one that has ended with an objective and one that runs."""
    world.objects.put("b", "k", b"1")
    limits = {"MaxNumberOfTrainingJobs": 2, "MaxParallelTrainingJobs": 2}
    world.sagemaker.create_hyper_parameter_tuning_job(**tuning_request("grid", ResourceLimits=limits))
    until(lambda: len(running(world)) == 2)
    name = running(world)[0]
    until(lambda: world.job(name).launched)
    host = world.host(name)
    host.say("loss=0.25")
    host.end(0)
    until(lambda: "BestTrainingJob" in described(world))
    return world


def described(world: ApiWorld) -> dict[str, Any]:
    found: dict[str, Any] = world.sagemaker.describe_hyper_parameter_tuning_job(HyperParameterTuningJobName="grid")
    return found


def running(world: ApiWorld) -> list[str]:
    found = world.sagemaker.list_training_jobs_for_hyper_parameter_tuning_job(
        HyperParameterTuningJobName="grid", StatusEquals="InProgress"
    )
    return [one["TrainingJobName"] for one in found["TrainingJobSummaries"]]


def test_in_a_pipe_and_as_json(tuned: ApiWorld, sagelet: Sagelet) -> None:
    (line,) = sagelet("tune", "list").stdout.splitlines()
    assert line.split("\t")[:2] == ["grid", "InProgress"]
    assert line.split("\t")[4] == "1 completed, 1 running"
    (found,) = json.loads(sagelet("tune", "list", "--json").stdout)
    assert found["HyperParameterTuningJobName"] == "grid"
    name, objective, values = sagelet("tune", "best", "grid").stdout.strip().split("\t")
    assert (name.startswith("grid-001-"), objective) == (True, "0.25")
    assert {one.partition("=")[0] for one in values.split()} == {"bs", "lr"}
    assert json.loads(sagelet("tune", "best", "grid", "--json").stdout)["TrainingJobName"] == name
    shown = sagelet("tune", "describe", "grid").stdout
    assert "1 completed, 1 running" in shown
    assert "Programs" not in shown
    found = json.loads(sagelet("tune", "describe", "grid", "--json").stdout)
    assert found["Programs"] == {"compiled": 0, "cached": 0, "native": 0, "unknown": 2, "text": ""}
    assert len(found["TrainingJobSummaries"]) == 2


def test_a_stop_of_one_that_runs_and_again(tuned: ApiWorld, sagelet: Sagelet) -> None:
    (left,) = running(tuned)
    until(lambda: tuned.job(left).launched)
    assert sagelet("tune", "stop", "grid").stdout == "grid: Stopping\n"
    tuned.host(left).end(0)
    until(lambda: described(tuned)["HyperParameterTuningJobStatus"] == "Stopped")
    (answer,) = json.loads(sagelet("tune", "stop", "grid", "--json").stdout)
    assert answer["HyperParameterTuningJobStatus"] == "Stopped"


@pytest.mark.parametrize("command", ["describe", "best", "stop"])
def test_a_missing_tuning_job_is_an_error_with_a_remedy(world: ApiWorld, sagelet: Sagelet, command: str) -> None:
    done = sagelet("tune", command, "nope")
    assert done.exit_code == 1
    assert "has no tuning job nope" in done.stderr
    assert "`sagelet tune list`" in done.stderr


def test_names_are_completed(tuned: ApiWorld) -> None:
    def completed(*words: str) -> list[str]:
        variables = {
            "_SAGELET_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1),
            "SAGELET_ENDPOINT": f"http://127.0.0.1:{tuned.port}",
        }  # fmt: skip
        result = CliRunner().invoke(main, [], env=variables, prog_name="sagelet")
        return [line.partition(",")[2] for line in result.stdout.splitlines() if line]

    for command in ("describe", "best", "stop"):
        assert completed("sagelet", "tune", command, "g") == ["grid"]
        assert completed("sagelet", "tune", command, "x") == []
    assert completed("sagelet", "tune", "describe", "--endpoint", "http://127.0.0.1:1", "g") == []
    assert len(completed("sagelet", "open", "grid")) == 3


def test_the_page_of_a_tuning_job_is_opened(tuned: ApiWorld, sagelet: Sagelet) -> None:
    url = json.loads(sagelet("open", "grid", "--json").stdout)["url"]
    assert url.partition("?")[0].endswith("/_sagelet/ui/tuning/grid")
    assert tuned.page(url.partition(str(tuned.port))[2]).status == 200
    done = sagelet("open", "neither")
    assert done.exit_code == 1
    assert "has no training, tuning or processing job neither" in done.stderr


def test_lists_leave_out_trials_or_show_those_of_one_tuning_job(tuned: ApiWorld, sagelet: Sagelet) -> None:
    tuned.create("alone")

    def names(*options: str) -> list[str]:
        return [line.split("\t")[0] for line in sagelet("jobs", *options).stdout.splitlines()]

    assert len(names()) == 3
    assert names("--no-children") == ["alone"]
    assert len(names("--parent", "grid")) == 2
    assert "alone" not in names("--parent", "grid")
    assert names("--parent", "another") == []
    assert sagelet("jobs", "--no-children", "--parent", "grid").exit_code == 2
