"""The pages of pipelines."""

import re
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.web.graph import HEIGHT, WIDTH, graph
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
    assert '<g class="node succeeded"><title>check: false' in text
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


def long_edges() -> list[dict[str, Any]]:
    """Twelve steps. Many need steps that are several rows above them."""
    needs = {
        "raw": [], "clean": ["raw"], "split": ["clean"], "stats": ["raw"], "train": ["split"], "tune": ["split", "raw"],
        "merge": ["train", "tune", "stats"], "test": ["merge", "split", "raw"], "bias": ["test", "clean"],
    }  # fmt: skip
    steps = [train(name, DependsOn=above) for name, above in needs.items()]
    good = [train("register", DependsOn=["train"]), fail("never", "x", DependsOn=["raw", "bias"])]
    return [*steps, condition("check", [compare("Equals", 1, 1)], good, DependsOn=["bias", "stats"])]


def _sum(parts: Sequence[float], values: Sequence[float]) -> float:
    return sum(part * value for part, value in zip(parts, values, strict=True))


def points(path: str) -> list[tuple[float, float]]:
    """Points on a line of the picture, close to each other."""
    found: list[tuple[float, float]] = []
    for kind, *numbers in re.findall(r"([MCV])([\d.]+)(?: ([\d.]+))?(?: ([\d.]+) ([\d.]+) ([\d.]+) ([\d.]+))?", path):
        given = [float(one) for one in numbers if one]
        if kind == "M":
            found.append((given[0], given[1]))
            continue
        x, y = found[-1]
        a, b, c, d, e, f = given if kind == "C" else (x, y, x, given[0], x, given[0])
        for step in range(1, 65):
            t = step / 64
            parts = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            found.append((_sum(parts, (x, a, c, e)), _sum(parts, (y, b, d, f))))
    return found


def test_lines_run_beside_boxes_and_not_through_them() -> None:
    drawn = graph(parse(definition(*long_edges())), {}, ended=False)
    assert (len(drawn.nodes), len({(node.x, node.y) for node in drawn.nodes})) == (12, 12)
    crossed = [
        (node.name, line.path)
        for line in drawn.lines
        for x, y in points(line.path)
        for node in drawn.nodes
        if node.x - 4 < x < node.x + WIDTH + 4 and node.y < y < node.y + HEIGHT
    ]
    assert crossed == []
    tops, bottoms = ({(node.x + WIDTH // 2, node.y + down) for node in drawn.nodes} for down in (0, HEIGHT))
    for line in drawn.lines:
        way = points(line.path)
        assert (way[0] in bottoms, way[-1] in tops) == (True, True)
        assert all(0 < x < drawn.width and 0 < y < drawn.height for x, y in way)
