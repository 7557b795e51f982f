"""The pages of pipelines."""

import re
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.web.graph import graph
from sagelet_engine.pipelines.definition import parse
from support.api_world import ApiWorld
from support.pipelines import ROLE, compare, condition, definition, fail, get, parameter, train
from support.world import until

PAGE = "/_sagelet/ui/pipelines"
EVIL = "<script>alert(1)</script>"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as running:
        running.objects.put("b", "k", b"1")
        yield running


def shown(world: ApiWorld, path: str) -> str:
    answer = world.page(path)
    assert answer.status == 200, answer.data[:500]
    return answer.data.decode()


def run(world: ApiWorld, *steps: object, name: str = "Pipe", parameters: list[object] | None = None) -> str:
    """Makes a pipeline and starts it. Returns the path of the execution's page."""
    text = definition(*steps, parameters=parameters)  # type: ignore[arg-type]
    token = uuid.uuid4().hex
    world.sagemaker.create_pipeline(PipelineName=name, PipelineDefinition=text, RoleArn=ROLE, ClientRequestToken=token)
    answer = world.sagemaker.start_pipeline_execution(PipelineName=name, ClientRequestToken=token)
    return f"{PAGE}/{name}/{answer['PipelineExecutionArn'].rpartition('/')[2]}"


def test_the_list_of_executions(world: ApiWorld) -> None:
    assert "No pipelines yet" in shown(world, PAGE)
    first = run(world, fail("end", EVIL), name="One")
    until(lambda: "Failed" in shown(world, PAGE))
    world.clock.turn(60)
    run(world, train("a"), name="Two")
    text = shown(world, PAGE)
    assert re.findall(r'class="name"><a href="[^"]*">(\w+)/', text) == ["Two", "One"]
    assert first in text
    assert "Two/" not in shown(world, f"{PAGE}?pipeline=one")
    assert world.page(f"{PAGE}/One/none").status == 404
    assert EVIL not in shown(world, first)


def test_half_of_a_surrogate_pair_is_shown_as_a_replacement_character(world: ApiWorld) -> None:
    """JSON of a definition can have one, and no page can."""
    page = run(world, fail("end", "odd: \ud800!"), parameters=[parameter("P", default="odd, too: \udfff!")])
    until(lambda: "Failed" in shown(world, page))
    text = shown(world, page)
    assert "odd: \ufffd!" in text
    assert "odd, too: \ufffd!" in text


def test_an_execution_with_its_graph_and_steps(world: ApiWorld) -> None:
    check = condition(
        "check", [compare("Equals", get("Parameters.P"), "x")], [fail("bad", "on purpose")], train("good")
    )
    after = train("after", DependsOn=["first"])
    path = run(world, train("first"), check, after, parameters=[parameter("P", default=EVIL)])

    def job() -> str | None:
        found = re.search(r'href="/_sagelet/ui/jobs/(pipelines-\w+-first-\w+)"', shown(world, path))
        return found[1] if found else None

    name = until(job)
    world.host(name).end(0)
    until(lambda: "pipelines-" in shown(world, path) and "-after-" in shown(world, path))
    text = shown(world, path)
    assert EVIL not in text
    assert "style=" not in text
    assert '<g class="node succeeded"><title>first: Succeeded' in text
    assert '<g class="node succeeded"><title>check: False' in text
    assert '<g class="node idle"><title>bad: waits' in text
    assert '<g class="node executing"><title>good' in text
    assert len(re.findall(r'<path class="taken"', text)) == 2
    assert f'<th scope="row">Pipeline</th><td class="value"><a href="{path}">' in shown(
        world, f"/_sagelet/ui/jobs/{name}"
    )
    world.waiting_job("another")
    assert '<th scope="row">Pipeline</th>' not in shown(world, "/_sagelet/ui/jobs/another")
    part = shown(world, f"{path}?part=facts")
    assert "<html" not in part
    assert "Cost" in part
    for one in ("good", "after"):
        world.host(until(lambda one=one: _job(world, one))).end(0)
    until(lambda: "Succeeded" in shown(world, f"{path}?part=head"))
    assert '<g class="node idle"><title>bad: not run' in shown(world, f"{path}?part=timeline")


def test_an_execution_is_stopped_and_retried_by_the_page(world: ApiWorld) -> None:
    path = run(world, train("only"))
    name = str(until(lambda: _job(world, "only")))
    until(lambda: world.job(name).launched)
    assert f'href="{path}/stop"' in shown(world, path)
    assert ">Retry</a>" not in shown(world, path)
    assert "disabled" not in shown(world, f"{path}/stop")
    assert "disabled" in shown(world, f"{path}/retry")
    # A POST that does not come from the page itself is refused.
    assert world.page(f"{path}/stop", "POST").status == 403
    assert world.send_form(f"{path}/retry", {}).status == 400
    answer = world.send_form(f"{path}/stop", {})
    assert (answer.status, answer.headers["Location"]) == (303, path)
    until(lambda: world.job(name).stop_ms is not None)
    assert "disabled" in shown(world, f"{path}/stop")
    world.host(name).end(0)
    until(lambda: f'href="{path}/retry"' in shown(world, path))
    assert world.send_form(f"{path}/retry", {}).status == 303
    until(lambda: len(world.sagemaker.list_training_jobs(NameContains="-only-")["TrainingJobSummaries"]) == 2)
    assert world.send_form(f"{PAGE}/Pipe/none/stop", {}).status == 404


def _job(world: ApiWorld, step: str) -> str | None:
    jobs = world.sagemaker.list_training_jobs(NameContains=f"-{step}-")["TrainingJobSummaries"]
    return str(jobs[0]["TrainingJobName"]) if jobs else None


def test_each_step_is_below_what_it_needs_and_no_boxes_overlap() -> None:
    steps = [train("a"), train("b"), train("c", DependsOn=["a", "b"]), train("x" * 40, DependsOn=["a"]), train("e")]
    drawn = graph(parse(definition(*steps)), {}, ended=False)
    places = {node.name: (node.x, node.y) for node in drawn.nodes}
    assert places["c"][1] > places["a"][1] == places["b"][1] == places["e"][1]
    assert len(set(places.values())) == len(steps)
    assert all(0 < x < drawn.width and 0 < y < drawn.height for x, y in places.values())
    assert {len(node.short) for node in drawn.nodes if node.name.startswith("x")} == {22}
    assert len(drawn.lines) == 3
