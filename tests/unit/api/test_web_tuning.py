"""The pages of tuning jobs, as a browser gets them."""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.web.scatter import pictures
from sagelet_engine.model.job import JobStatus
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind
from sagelet_engine.model.tuning import Trial, TrialState, TuningJob
from support.api_world import ApiWorld
from support.tuning import RANGES, definition, tuning_request
from support.world import until

#: What a request can bring: the name of a metric and of a hyperparameter, a category.
EVIL = "<script>alert(1)</script>"
PAGE = "/_sagelet/ui/tuning"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as opened:
        opened.objects.put("b", "k", b"1")
        yield opened


def shown(world: ApiWorld, path: str) -> str:
    answer = world.page(path)
    assert answer.status == 200, (path, answer.status)
    return answer.data.decode()


def names(text: str) -> list[str]:
    return re.findall(r'<td class="name"><a [^>]*>([^<]*)</a>', text)


def hostile(name: str = "tune") -> dict[str, Any]:
    """A metric, a hyperparameter and its values that are markup."""
    algorithm = {
        **definition()["AlgorithmSpecification"],
        "MetricDefinitions": [{"Name": EVIL, "Regex": r"loss=(\S+)"}],
    }
    ranges = {
        **RANGES,
        "CategoricalParameterRanges": [{"Name": EVIL, "Values": [EVIL, f"{EVIL}2"]}],
    }
    return tuning_request(
        name,
        job=definition(AlgorithmSpecification=algorithm),
        HyperParameterTuningJobObjective={"Type": "Maximize", "MetricName": EVIL},
        ParameterRanges=ranges,
    )


def running(world: ApiWorld, name: str = "tune") -> list[str]:
    found = world.sagemaker.list_training_jobs_for_hyper_parameter_tuning_job(
        HyperParameterTuningJobName=name, StatusEquals="InProgress"
    )
    return [one["TrainingJobName"] for one in found["TrainingJobSummaries"]]


def end(world: ApiWorld, job: str, loss: float | None) -> None:
    until(lambda: world.job(job).launched)
    host = world.host(job)
    host.say(EVIL, *([] if loss is None else [f"loss={loss}"]))
    host.end(0 if loss is not None else 1)
    until(lambda: job not in running(world))


@pytest.fixture
def tuned(world: ApiWorld) -> ApiWorld:
    """With `tune`: two training jobs with an objective, a failed one, and two that run. One of those has a value."""
    world.sagemaker.create_hyper_parameter_tuning_job(**hostile())
    for loss in (0.5, 0.25, None):
        until(lambda: len(running(world)) == 2)
        end(world, running(world)[0], loss)
    until(lambda: len(running(world)) == 2)
    live = running(world)[0]
    until(lambda: world.job(live).launched)
    world.host(live).say("loss=0.125")
    until(lambda: "0.125" in shown(world, f"{PAGE}/tune?part=trials"))
    return world


def test_the_list_is_searched_and_links(world: ApiWorld) -> None:
    assert "No tuning jobs yet" in shown(world, PAGE)
    for name in ("first", "second"):
        world.sagemaker.create_hyper_parameter_tuning_job(**tuning_request(name))
        world.clock.turn(1)
    # The counters are those of the last look at the training jobs.
    until(lambda: "0 of 6 completed, 2 running" in re.sub(r"\s+", " ", shown(world, PAGE)))
    text = shown(world, PAGE)
    assert names(text) == ["second", "first"]
    assert names(shown(world, f"{PAGE}?q=FIR")) == ["first"]
    assert names(shown(world, f"{PAGE}?sort=name&order=ascending")) == ["first", "second"]
    assert "No tuning job matches" in shown(world, f"{PAGE}?status=Failed")
    assert names(shown(world, f"{PAGE}?part=rows")) == ["second", "first"]
    assert names(shown(world, f"{PAGE}?account=999999999999")) == []
    assert world.page(f"{PAGE}/none").status == 404


def test_a_tuning_job_with_its_trials(tuned: ApiWorld) -> None:
    text = shown(tuned, f"{PAGE}/tune")
    rows = re.findall(r'<tr [^>]*>\s*<td class="choose">(.*?)</tr>', text, re.DOTALL)
    # Those that run come first, then the greatest objective, because it is maximized.
    objectives = [re.search(r'data-title="Objective">([^<]*)<', row)[1] for row in rows]  # type: ignore[index]
    assert objectives == ["0.125 so far", "-", "0.5", "0.25", "-"]
    assert ["InProgress" in row for row in rows] == [True, True, False, False, False]
    assert [">best<" in row for row in rows] == [False, False, True, False, False]
    best = re.search(r"tune-001-\w{8}", text)
    assert best is not None
    assert f"/_sagelet/ui/compare?job={best[0]}&amp;job=tune-002-" in text
    assert "Maximize" in text
    assert "Training jobs" in text


def test_hostile_texts_are_escaped_on_every_page(tuned: ApiWorld) -> None:
    for path in ("", "/tune", "/tune/request", "/tune/stop", "/tune/delete", "/tune?part=pictures"):
        text = shown(tuned, f"{PAGE}{path}")
        assert EVIL not in text
        assert "style=" not in text
        assert "<script>" not in text


def test_the_pictures_have_a_point_for_each_objective(tuned: ApiWorld) -> None:
    text = shown(tuned, f"{PAGE}/tune?part=pictures")
    pictures = re.findall(r"<figure.*?</figure>", text, re.DOTALL)
    titles = [unescape(re.search(r"<figcaption>(.*?)</figcaption>", one)[1]) for one in pictures]  # type: ignore[index]
    assert titles == [f"{EVIL} over {name}" for name in ("the trials", "bs", "lr, logarithmic", EVIL)]
    for one in pictures:
        assert len(re.findall(r"<circle", one)) == 2
        assert len(re.findall(r'<circle class="best"', one)) == 1
        assert len(re.findall(r'class="failed"', one)) == 1
        assert len(re.findall(r'class="running"', one)) == 2
    assert "<polyline" in pictures[0]


def test_the_code_makes_the_best_trial_and_the_tuning_job_again(tuned: ApiWorld) -> None:
    text = shown(tuned, f"{PAGE}/tune/request")
    codes = {name: unescape(code) for name, code in re.findall(r'<code id="([^"]*)">(.*?)</code>', text, re.DOTALL)}
    assert set(codes) == {
        "json", "boto3", "aws-cli", "sdk-v2", "sdk-v3", "tuning-json", "tuning-boto3", "tuning-aws-cli",
    }  # fmt: skip
    best = json.loads(codes["json"])
    assert best["TrainingJobName"].startswith("tune-001-")
    made = json.loads(codes["tuning-json"])
    assert made == hostile()
    made["HyperParameterTuningJobName"] = "again"
    tuned.sagemaker.create_hyper_parameter_tuning_job(**made)
    assert "aws sagemaker create-hyper-parameter-tuning-job " in codes["tuning-aws-cli"]


def test_a_training_job_links_to_its_tuning_job(tuned: ApiWorld) -> None:
    job = running(tuned)[0]
    assert f'<a href="{PAGE}/tune">tune</a>' in shown(tuned, f"/_sagelet/ui/jobs/{job}")
    tuned.waiting_job("alone")
    assert "Tuning job</th>" not in shown(tuned, "/_sagelet/ui/jobs/alone")


def stopped(world: ApiWorld) -> list[str]:
    """Stops `tune` on its page, and waits until it has ended. Returns the training jobs that ran."""
    live = running(world)
    for job in live:
        until(lambda job=job: world.job(job).launched)  # type: ignore[misc]
    answer = world.send_form(f"{PAGE}/tune/stop", {})
    assert (answer.status, answer.headers["Location"]) == (303, f"{PAGE}/tune")
    for job in live:
        world.host(job).end(0)
    until(lambda: "Delete" in shown(world, f"{PAGE}/tune?part=head"))
    return live


def test_a_warm_start_links_to_its_parents(tuned: ApiWorld) -> None:
    stopped(tuned)
    warm = {
        "WarmStartType": "TransferLearning",
        "ParentHyperParameterTuningJobs": [{"HyperParameterTuningJobName": "tune"}],
    }
    tuned.sagemaker.create_hyper_parameter_tuning_job(**hostile("warm"), WarmStartConfig=warm)
    assert f'TransferLearning from <a href="{PAGE}/tune">tune</a>' in shown(tuned, f"{PAGE}/warm")


def test_it_is_stopped_then_deleted(tuned: ApiWorld) -> None:
    refused = tuned.send_form(f"{PAGE}/tune/delete", {})
    assert refused.status == 400
    assert b"is not in a terminal state" in refused.data
    assert tuned.send_form(f"{PAGE}/tune/stop", {}, Origin="http://evil.example").status == 403
    live = stopped(tuned)
    deleted = tuned.send_form(f"{PAGE}/tune/delete", {})
    assert (deleted.status, deleted.headers["Location"]) == (303, PAGE)
    assert names(shown(tuned, PAGE)) == []
    # Its training jobs stay, and say what made them.
    assert "(deleted)" in shown(tuned, f"/_sagelet/ui/jobs/{live[0]}")


def test_news_of_a_tuning_job(tuned: ApiWorld) -> None:
    answer = tuned._http.request(
        "GET", f"http://127.0.0.1:{tuned.port}{PAGE}/tune/events?seen=", preload_content=False, retries=False
    )
    stream = answer.stream(1)
    received = b""
    while b"\n\n" not in received.partition(b"\n\n")[2]:
        received += next(stream)
    first = received.decode().splitlines()
    assert "event: change" in first
    tuned.host(running(tuned)[0]).say("loss=0.0625")
    while received.count(b"event: change") < 2:
        received += next(stream)
    answer.close()


# --- pictures ---------------------------------------------------------------------------------------------------------


def job_of(ranges: dict[str, Any], objectives: list[float | None]) -> tuple[TuningJob, list[Trial]]:
    request = tuning_request("tune", ParameterRanges=ranges)
    key = OrchestrationKey("1", "r", "tune", OrchestrationKind.TUNING)
    names = [one["Name"] for many in ranges.values() for one in many]
    trials = [
        Trial(
            number, str(number), f"tune-{number}", "", dict.fromkeys(names, "1"), TrialState.ENDED,
            JobStatus.COMPLETED, objective=value,
        )
        for number, value in enumerate(objectives, 1)
    ]  # fmt: skip
    return TuningJob(key, "id", request, 0, 0), trials


INTEGER = {"IntegerParameterRanges": [{"Name": "n", "MinValue": "1", "MaxValue": "1000"}]}


@pytest.mark.parametrize(
    ("objectives", "points"),
    [
        ([None], None),
        ([float("nan"), float("inf")], None),
        ([0.0], 1),
        ([-3.5, -3.5], 2),
        ([1e-300, 1e300], 2),
        ([-1e300, 1e300], 2),
        ([1.0, float("nan"), None, 2.0], 2),
    ],
)
def test_any_objectives_can_be_drawn(objectives: list[float | None], points: int | None) -> None:
    drawn = pictures(*job_of(INTEGER, objectives))
    assert [len(one.points) for one in drawn] == ([] if points is None else [points, points])
    for one in drawn:
        assert all(0 <= point.y <= one.bottom for point in one.points)
        assert len(one.up) >= 1


@pytest.mark.parametrize(
    ("ranges", "marks"),
    [
        (INTEGER, ["1", "10", "100", "1000"]),
        ({"IntegerParameterRanges": [{"Name": "n", "MinValue": "1", "MaxValue": "3"}]}, ["1", "2", "3"]),
        ({"IntegerParameterRanges": [{"Name": "n", "MinValue": "1", "MaxValue": "1"}]}, ["1"]),
        (
            {"ContinuousParameterRanges": [{"Name": "n", "MinValue": "0", "MaxValue": "1", "ScalingType": "Linear"}]},
            ["0", "0.2", "0.4", "0.6", "0.8", "1"],
        ),
        (
            {
                "ContinuousParameterRanges": [
                    {"Name": "n", "MinValue": "0.0001", "MaxValue": "2", "ScalingType": "Logarithmic"}
                ]
            },
            ["0.0001", "0.001", "0.01", "0.1", "1"],
        ),
        (
            {"CategoricalParameterRanges": [{"Name": "n", "Values": ["1", '"sgd"', "x" * 30]}]},
            ["1", "sgd", "x" * 11 + "…"],
        ),
    ],
)
def test_an_axis_has_the_scale_of_the_search(ranges: dict[str, Any], marks: list[str]) -> None:
    (_, drawn) = pictures(*job_of(ranges, [1.0, 2.0]))
    assert [mark.text for mark in drawn.across] == marks
    assert [mark.at for mark in drawn.across] == sorted(mark.at for mark in drawn.across)
    assert len(drawn.points) == 2


@pytest.mark.parametrize(("most", "mark"), [("5e-324", "4.94066e-324"), ("2e-323", "1.97626e-323")])
def test_a_range_without_room_for_round_numbers_has_its_ends(most: str, mark: str) -> None:
    ranges = {"ContinuousParameterRanges": [{"Name": "n", "MinValue": "0", "MaxValue": most}]}
    (_, drawn) = pictures(*job_of(ranges, [1.0, 2.0]))
    assert [one.text for one in drawn.across] == ["0", mark]
