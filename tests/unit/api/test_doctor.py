"""The doctor's endpoint and command."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sagelet_api.cli.main import main
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.data.layout import JobDirectories
from support.api_world import ApiWorld
from support.world import request, until

COMPILED = {"sagemaker_training_compiler_enabled": "true", "sagemaker_training_compiler_debug_mode": "true"}


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def doctor(world: ApiWorld, *arguments: str) -> Result:
    command = ["doctor", *arguments, "--endpoint", f"http://127.0.0.1:{world.port}", "--account", "123456789012"]
    return CliRunner().invoke(main, [*command, "--region", "us-east-1"])


def train(world: ApiWorld) -> None:
    resources = {"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    world.sagemaker.create_training_job(**request("one", HyperParameters=COMPILED, ResourceConfig=resources))
    world.host("one")
    code = JobDirectories.of(world.settings.data, world.job("one")).host("algo-1").opt_ml / "code" / "train.py"
    code.write_text("batch.cuda()\n")


def test_findings_of_a_job_while_it_runs_and_when_it_has_failed(world: ApiWorld) -> None:
    train(world)
    shown = doctor(world, "one")
    assert shown.exit_code == 0, shown.output
    assert shown.output.startswith("one (InProgress): 1 finding\n\ninfo debug-mode")
    host = world.host("one")
    host.say(
        '  File "/opt/ml/code/train.py", line 1, in <module>', "RuntimeError: Found no NVIDIA driver on your system"
    )
    host.end(1)
    until(lambda: world.job("one").terminal)
    answer = json.loads(doctor(world, "one", "--json").output)
    assert (answer["TrainingJobName"], answer["TrainingJobStatus"]) == ("one", "Failed")
    assert [finding["rule"] for finding in answer["findings"]] == ["device-mixing", "debug-mode"]
    assert answer["findings"][0]["file"] == "train.py"
    assert "error device-mixing train.py:1\n" in doctor(world, "one").output


def test_a_job_that_there_is_not(world: ApiWorld) -> None:
    refused = doctor(world, "none")
    assert refused.exit_code == 1
    assert "has no training job none" in refused.output
