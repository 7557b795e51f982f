"""The compile report as people and programs ask for it: the control endpoint, the command."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sagelet_api.cli.main import main
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.telemetry.compiler import reading
from support.api_world import ApiWorld
from support.world import request, until

WORKER = {
    "compiled": True, "platform": "CPU", "steps": 40, "compiles": 3, "compile_seconds": 12.1,
    "compiling_steps": [0, 1, 57], "compiling_step_count": 3, "steady_step_seconds": 0.113,
    "evaluations": [{"call": "item", "file": "[bold]train.py", "line": 5, "function": "main", "count": 40}],
    "waits": [{"call": "item", "file": "[bold]train.py", "line": 5, "function": "main", "count": 40, "seconds": 1.5}],
    "fallbacks": {"aten::_unique2": 10}, "batch_shapes": [{"shape": [8, 128], "count": 40}],
}  # fmt: skip


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        yield running


def start(world: ApiWorld, name: str, *workers: dict[str, Any], **asked: Any) -> None:
    world.sagemaker.create_training_job(**request(name, **asked))
    world.host(name)
    host = JobDirectories.of(world.settings.data, world.job(name)).host("algo-1")
    directory = host.opt_ml.joinpath(*reading.DIRECTORY)
    directory.mkdir(parents=True)
    for rank, worker in enumerate(workers):
        (directory / f"worker-{rank}.json").write_text(json.dumps(worker))


def get(world: ApiWorld, name: str, **headers: str) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=10)
    connection.request("GET", f"/_sagelet/jobs/{name}/compiler-report", headers=headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def report(world: ApiWorld, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["report", "--endpoint", f"http://127.0.0.1:{world.port}", *arguments])


def test_over_http_while_the_job_runs(world: ApiWorld) -> None:
    assert get(world, "one")[0] == 404
    start(world, "one")
    status, answer = get(world, "one")
    assert status == 404
    assert "No worker of one has reported: a report begins" in answer["message"]
    start(world, "two", WORKER, {**WORKER, "compile_seconds": 14.0})
    status, answer = get(world, "two")
    assert status == 200
    assert (answer["version"], answer["job"], answer["final"]) == (1, "two", False)
    assert "explicit-evaluation" in [finding["rule"] for finding in answer["findings"]]
    assert answer["total"]["compile_seconds"] == 14.0
    assert [worker["rank"] for worker in answer["workers"]] == [0, 1]


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
def test_web_pages_read_none(world: ApiWorld, headers: dict[str, str]) -> None:
    start(world, "one", WORKER)
    connection = http.client.HTTPConnection("127.0.0.1", world.port, timeout=10)
    connection.request("GET", "/_sagelet/jobs/one/compiler-report", headers=headers)
    assert connection.getresponse().status == 403


def test_the_command(world: ApiWorld) -> None:
    start(world, "one", WORKER)
    shown = report(world, "one").output
    assert "one: compiled on CPU by torch_xla's own client, 1 worker, so far" in shown
    for expected in ("3 in 12.1 s", "3: 0, 1, 57", "113 ms", "[bold]train.py:5 main", "aten::_unique2", "8 x 128"):
        assert expected in shown
    assert json.loads(report(world, "one", "--json").output) == get(world, "one")[1]
    refused = report(world, "other")
    assert refused.exit_code == 1
    assert "no training job other" in refused.output


def test_the_command_of_a_native_job(world: ApiWorld) -> None:
    start(world, "one", {"compiled": False, "steps": 7, "steady_step_seconds": 0.5})
    shown = report(world, "one").output
    assert "trained natively" in shown
    assert "compil" not in shown


def test_the_page_shows_what_the_command_shows(world: ApiWorld) -> None:
    start(world, "one", WORKER)
    page = world.page("/_sagelet/ui/jobs/one/report").data.decode()
    for expected in (
        "Compiled on CPU by torch_xla&#39;s own client, 1 worker",
        "3 in 12.1 s",
        "3: 0, 1, 57",
        "113 ms",
        "[bold]train.py:5 main",
        "8 x 128",
    ):
        assert expected in page


def test_command_and_page_say_what_the_training_takes_otherwise(world: ApiWorld) -> None:
    known = {
        "training": "ab" * 32,
        "timeline": [{"step": 0, "steps": 40, "start_seconds": 3.0, "seconds": 20.0}],
        "finished": True,
    }
    traced_once = {"SAGELET_XLA_TRACING": "<once>"}
    for name, step, changes in (("fast", 0.1, {"Environment": traced_once}), ("own", 0.25, {})):
        start(world, name, {**WORKER, **known, "steady_step_seconds": step}, **changes)
        world.host(name).end(0)
        world.ended(name)
    shown = " ".join(report(world, "own").output.split())
    for expected in ("by XLA with SAGELET_XLA_TRACING=<once>", "fast", "100 ms", "23.0 s"):
        assert expected in shown
    page = world.page("/_sagelet/ui/jobs/own/report").data.decode()
    for expected in ("<h2>Natively and by other compilers</h2>", "=&lt;once&gt;", ">fast</td>", "100 ms", "23.0 s"):
        assert expected in page
    assert "by other compilers" not in world.page("/_sagelet/ui/jobs/fast/report").data.decode()


def test_command_and_page_say_why_a_job_was_not_compiled(world: ApiWorld) -> None:
    asked = {"sagemaker_training_compiler_enabled": "true"}
    start(world, "one", {"compiled": False, "platform": "CUDA", "steps": 7}, HyperParameters=asked)
    host = JobDirectories.of(world.settings.data, world.job("one")).host("algo-1")
    told = {"version": 1, "compiled": False, "platform": "CUDA", "reason": "the plugin does not load"}
    host.opt_ml.joinpath(*reading.DIRECTORY, "compilation.json").write_text(json.dumps(told))
    until(lambda: get(world, "one")[1]["reason"])
    assert "NOT COMPILED: the plugin does not load" in report(world, "one").output
    assert "NOT COMPILED: the plugin does not load" in world.page("/_sagelet/ui/jobs/one/report").data.decode()
