"""What a client sees of a compiled job that trains natively."""

import html
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sagelet_api.cli.main import main
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.data.layout import JobDirectories
from support.api_world import ApiWorld
from support.world import key, request, until

REASON = "jax-cuda12-pjrt 0.6.2 does not work here: No visible GPU devices."


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def compilation(world: ApiWorld, name: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=10)
    query = "account=123456789012&region=us-east-1"
    connection.request("GET", f"/_sagelet/jobs/{name}/compilation?{query}")
    response = connection.getresponse()
    answer = json.loads(response.read())
    connection.close()
    return response.status, answer


def write(world: ApiWorld, name: str, **said: Any) -> None:
    """Writes what the job's host says about its compilation."""
    job = world.engine.jobs.get(key(name))
    file = JobDirectories.of(world.settings.data, job).host("algo-1").opt_ml / "output/sagelet/compilation.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"version": 1, **said}))


def test_describe_and_the_control_endpoint_say_that_it_is_not_compiled(world: ApiWorld) -> None:
    asked = {"HyperParameters": {"sagemaker_training_compiler_enabled": "true"}}
    world.sagemaker.create_training_job(**request("one", **asked))
    host = world.host("one")
    assert compilation(world, "one") == (200, {"asked": True, "compiled": None, "platform": None, "reason": ""})
    write(world, "one", compiled=False, platform="CUDA", reason=REASON)

    def message() -> str:
        described = world.sagemaker.describe_training_job(TrainingJobName="one")
        return str(described["SecondaryStatusTransitions"][-1]["StatusMessage"])

    until(lambda: "NOT COMPILED" in message())
    assert REASON in message()
    told = {"asked": True, "compiled": False, "platform": "CUDA", "reason": REASON}
    assert compilation(world, "one") == (200, told)
    host.end(0)


def test_page_and_command_name_the_client(world: ApiWorld) -> None:
    asked = {"HyperParameters": {"sagemaker_training_compiler_enabled": "true"}}
    world.sagemaker.create_training_job(**request("one", **asked))
    host = world.host("one")
    reason = "this host has no GPU; XLA's client is lammps-jax-pjrt-cpu 0.11.2 (PJRT C API 0.115)"
    write(world, "one", compiled=True, platform="CPU_PLUGIN", reason=reason)
    until(lambda: compilation(world, "one")[1]["compiled"])
    page = world.page("/_sagelet/ui/jobs/one").data.decode()
    assert f"yes (CPU_PLUGIN): {reason}" in html.unescape(page)
    ran = CliRunner().invoke(main, ["describe", "one", "--endpoint", f"http://127.0.0.1:{world.port}"])
    assert f"Compiled\tyes, on CPU_PLUGIN: {reason}\n" in ran.output
    host.end(0)


def test_a_job_that_there_is_not(world: ApiWorld) -> None:
    assert compilation(world, "none")[0] == 404
