"""The pages of processing jobs, as a browser gets them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.web import PREFIX
from sagelet_engine.model.job import JobKey, JobKind
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.processing import given, processing_request, result
from support.world import until

PAGE = f"{PREFIX}/processing"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as opened:
        yield opened


def text(world: ApiWorld, path: str) -> str:
    shown = world.page(path)
    assert shown.status == 200
    return str(shown.data.decode())


def run(world: ApiWorld, name: str, code: int) -> None:
    world.objects.put("b", "in/a", b"a")
    inputs = [given("raw", "s3://b/in", "/opt/ml/processing/in")]
    outputs = {"Outputs": [result("clean", "s3://b/out", "/opt/ml/processing/out")]}
    request = processing_request(name, ProcessingInputs=inputs, ProcessingOutputConfig=outputs)
    world.sagemaker.create_processing_job(**request)
    key = JobKey(ACCOUNT, REGION, name, JobKind.PROCESSING)
    host = until(lambda: world.runtime.hosts.get(f"{world.engine.processing.get(key).id}/algo-1"))
    (host.plan.hosts[0].opt_ml / "output/message").write_text("<b>rows</b>")
    host.say("one <i>line</i>")
    host.end(code)
    until(lambda: world.engine.processing.get(key).terminal)


def names(page: str) -> list[str]:
    return re.findall(r'<td class="name"><a [^>]*>([^<]*)</a>', page)


def test_the_list_has_processing_jobs_alone_and_is_linked_from_every_page(world: ApiWorld) -> None:
    assert "No processing jobs yet" in text(world, PAGE)
    run(world, "first", 0)
    world.clock.turn(1)
    run(world, "second", 1)
    world.create("training")
    assert names(text(world, PAGE)) == ["second", "first"]
    assert names(text(world, f"{PAGE}?q=FIRST")) == ["first"]
    assert names(text(world, f"{PAGE}?status=Failed")) == ["second"]
    assert "No processing job matches" in text(world, f"{PAGE}?q=none")
    # The chips count what the search leaves, and lead to it.
    chips = re.findall(r'<a href="([^"]*)"[^>]*>(\w+) <b>(\d+)</b>', text(world, f"{PAGE}?q=FIRST"))
    counted = {title: int(count) for _, title, count in chips if count != "0"}
    assert counted == {"All": 1, "Completed": 1}
    (failed,) = [link.replace("&amp;", "&") for link, title, _ in chips if title == "Failed"]
    assert names(text(world, failed)) == []
    front = text(world, "/")
    assert names(front) == ["training"]
    assert f'href="{PAGE}"' in front


def test_every_page_of_the_list_is_reached_in_its_order(world: ApiWorld) -> None:
    for number in range(103):
        world.sagemaker.create_processing_job(**processing_request(f"clean-{number:03d}"))
    address, listed, pages = f"{PAGE}?sort=name&order=ascending&q=clean", list[str](), 0
    while address:
        page = text(world, address)
        listed += names(page)
        pages += 1
        following = re.search(r'rel="next" href="([^"]*)"', page)
        address = following[1].replace("&amp;", "&") if following else ""
    assert listed == [f"clean-{number:03d}" for number in range(103)]
    assert pages == 3
    assert ">All <b>103</b>" in page


def test_a_job_may_be_called_as_a_part_of_the_page(world: ApiWorld) -> None:
    run(world, "events", 0)
    assert "<h1>events" in text(world, f"{PAGE}/events")


def test_the_list_is_renewed_while_it_is_open(world: ApiWorld) -> None:
    page = text(world, PAGE)
    assert f'data-events="{PAGE}/_events"' in page
    (seen,) = re.findall(r'<nav class="chips"[^>]*data-fingerprint="(\w+)"', page)
    run(world, "first", 0)
    rows = text(world, f"{PAGE}?part=rows")
    assert names(rows) == ["first"]
    assert "<html" not in rows
    (renewed,) = re.findall(r'data-fingerprint="(\w+)"', rows)
    assert renewed != seen


def test_a_job_has_its_kind_its_data_its_bill_and_its_log(world: ApiWorld) -> None:
    run(world, "first", 1)
    page = text(world, f"{PAGE}/first")
    assert "processing job" in page
    assert "AlgorithmError: See job logs for more information" in page
    assert "&lt;b&gt;rows&lt;/b&gt;" in page
    assert "one &lt;i&gt;line&lt;/i&gt;" in page
    for expected in ("s3://b/in", "s3://b/out", "python3 /opt/ml/processing/code/p.py", "ml.m5.large", "Bill"):
        assert expected in page
    assert '<th scope="row">Processing</th>' in page
    part = text(world, f"{PAGE}/first?part=head")
    assert part.startswith('<div class="heading">')
    assert world.page(f"{PAGE}/none").status == 404
