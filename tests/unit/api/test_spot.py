"""Spot jobs as clients see them: the interrupt endpoint and command, the tag, the bill."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner, Result

from sagelet_api.cli.main import main
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.model.interruptions import TAG
from support.api_world import ApiWorld
from support.fakes import FakeHost
from support.world import request, until

SPOT = {
    "EnableManagedSpotTraining": True,
    "StoppingCondition": {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 3600},
}


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def create(world: ApiWorld, **changes: Any) -> None:
    world.sagemaker.create_training_job(**request("one", **{**SPOT, **changes}))


def training(world: ApiWorld, attempt: int = 1) -> FakeHost:
    until(lambda: world.job("one").attempt == attempt and world.job("one").launched)
    return world.runtime.hosts[f"{world.job('one').launch_id}/algo-1"]


def call(world: ApiWorld, path: str, method: str = "POST", **headers: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=120)
    connection.request(method, f"/_sagelet/jobs/{path}", headers=headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def interrupt(world: ApiWorld, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["interrupt", "--endpoint", f"http://127.0.0.1:{world.port}", *arguments])


def test_an_interruption_over_http(world: ApiWorld) -> None:
    create(world)
    host = training(world)
    status, answer = call(world, "one/interrupt")
    assert status == 200
    assert answer == {
        "TrainingJobArn": "arn:aws:sagemaker:us-east-1:123456789012:training-job/one",
        "SecondaryStatus": "Interrupted",
        "Attempt": 1,
    }
    description = world.sagemaker.describe_training_job(TrainingJobName="one")
    assert (description["TrainingJobStatus"], description["SecondaryStatus"]) == ("InProgress", "Interrupted")
    until(lambda: host.signals == ["TERM"])
    world.clock.turn(50)
    host.end(143)
    second = training(world, 2)
    world.clock.turn(50)
    second.end(0)
    world.ended("one")
    description = world.sagemaker.describe_training_job(TrainingJobName="one")
    assert description["TrainingJobStatus"] == "Completed"
    assert (description["TrainingTimeInSeconds"], description["BillableTimeInSeconds"]) == (100, 30)
    found = world.logs.describe_log_streams(logGroupName="/aws/sagemaker/TrainingJobs", logStreamNamePrefix="one/")
    assert len(found["logStreams"]) <= 2


@pytest.mark.parametrize("query", ["?account=210987654321", "?region=eu-west-1"])
def test_jobs_of_others_are_not_found(world: ApiWorld, query: str) -> None:
    create(world)
    training(world)
    status, answer = call(world, f"one/interrupt{query}")
    assert status == 404
    assert "no training job one" in answer["message"]
    assert world.job("one").secondary.value == "Training"


def test_an_on_demand_job_is_a_conflict(world: ApiWorld) -> None:
    create(world, EnableManagedSpotTraining=False, StoppingCondition={"MaxRuntimeInSeconds": 3600})
    training(world)
    status, answer = call(world, "one/interrupt")
    assert status == 409
    assert "EnableManagedSpotTraining" in answer["message"]


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 405),
        ("POST", {"Origin": "https://evil.example"}, 403),
        ("POST", {"Sec-Fetch-Site": "cross-site"}, 403),
        ("POST", {"Host": "evil.example"}, 403),
    ],
)
def test_web_pages_interrupt_nothing(world: ApiWorld, method: str, headers: dict[str, str], status: int) -> None:
    create(world)
    training(world)
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=120)
    connection.request(method, "/_sagelet/jobs/one/interrupt", headers=headers)
    assert connection.getresponse().status == status
    assert world.job("one").secondary.value == "Training"


def test_the_command(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    create(world)
    training(world)
    assert interrupt(world, "one").output == "one: Interrupted in its attempt 1\n"
    again = interrupt(world, "one")
    assert again.exit_code == 1
    assert "is in status Interrupted" in again.output
    other = interrupt(world, "one", "--account", "210987654321", "--region", "eu-west-1")
    assert "Account 210987654321 has no training job one in eu-west-1" in other.output


def test_the_command_takes_the_account_from_the_access_key(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "210987654321")
    assert "Account 210987654321 has no" in interrupt(world, "one").output


@pytest.mark.parametrize(("endpoint", "code"), [("http://127.0.0.1:9", 1), ("localhost:4599", 2)])
def test_the_command_without_a_server_says_what_to_do(endpoint: str, code: int) -> None:
    result = CliRunner().invoke(main, ["interrupt", "one"], env={"SAGELET_ENDPOINT": endpoint})
    assert result.exit_code == code
    assert "--endpoint" in result.output


def refused(call: Any, **parameters: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**parameters)
    assert caught.value.response["Error"]["Code"] == "ValidationException"
    return str(caught.value.response["Error"]["Message"])


def test_a_schedule_is_checked_where_it_is_given(world: ApiWorld) -> None:
    create_job = world.sagemaker.create_training_job
    tags = [{"Key": TAG, "Value": "soon"}]
    assert "'30 60'" in refused(create_job, **request("one", **SPOT, Tags=tags))
    assert "needs EnableManagedSpotTraining" in refused(create_job, **request("one", Tags=[{**tags[0], "Value": "3"}]))
    arn = create_job(**request("one", **SPOT, Tags=[{"Key": TAG, "Value": "30 60"}]))["TrainingJobArn"]
    assert "'30 60'" in refused(world.sagemaker.add_tags, ResourceArn=arn, Tags=tags)
    assert world.job("one").tags == {TAG: "30 60"}
