"""The list of training jobs, as a browser gets it."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as opened:
        yield opened


def names(text: str) -> list[str]:
    return re.findall(r'<td class="name"><a [^>]*>([^<]*)</a>', text)


def test_a_browser_gets_the_list_and_everybody_else_s3s_answer(world: ApiWorld) -> None:
    world.waiting_job("first")
    shown = world.page("/")
    assert (shown.status, names(shown.data.decode())) == (200, ["first"])
    other = world.page("/", Accept="*/*")
    assert other.status == 403
    assert b"<Code>AccessDenied</Code>" in other.data
    assert world.client("s3").list_buckets()["Buckets"] == []


def test_a_bucket_in_front_of_the_name_is_s3s(world: ApiWorld) -> None:
    shown = world.page("/", Host=f"bucket.localhost:{world.port}")
    assert shown.status == 403
    assert b"<html" not in shown.data


def test_newest_first_a_page_at_a_time(world: ApiWorld) -> None:
    for number in range(120):
        world.waiting_job(f"job-{number:03}")
        world.clock.turn(1)
    seen: list[str] = []
    path: str | None = "/"
    while path:
        text = world.page(path).data.decode()
        seen += names(text)
        link = re.search(r'rel="next" href="([^"]*)"', text)
        path = link[1].replace("&amp;", "&") if link else None
    assert seen == [f"job-{number:03}" for number in reversed(range(120))]


def test_searched_filtered_and_sorted(world: ApiWorld) -> None:
    for name, epochs in (("Bert-1", "1"), ("bert-2", "2"), ("resnet", "2")):
        world.create(name, HyperParameters={"epochs": epochs})
    assert names(world.page("/?q=bert&sort=name").data.decode()) == ["bert-2", "Bert-1"]
    assert names(world.page("/?q=bert&sort=name&order=ascending").data.decode()) == ["Bert-1", "bert-2"]
    assert names(world.page("/?q=HyperParameters.epochs%3D2&sort=name").data.decode()) == ["resnet", "bert-2"]
    assert names(world.page("/?q=HyperParameters.epochs%3E1+bert").data.decode()) == ["bert-2"]
    assert names(world.page("/?status=Completed").data.decode()) == []
    assert names(world.page("/?account=999999999999").data.decode()) == []


def test_chips_count_what_the_search_leaves(world: ApiWorld) -> None:
    def chips(query: str) -> dict[str, int]:
        """Returns the chips that count any job."""
        text = world.page(f"/?{query}").data.decode()
        found = re.findall(r"> ?(\w+) <b>(\d+)</b></a>", text)
        return {name: int(count) for name, count in found if count != "0"}

    for name, epochs, code in (("Bert-1", "1", 0), ("bert-2", "2", 1), ("resnet", "2", 1)):
        world.create(name, HyperParameters={"epochs": epochs})
        world.host(name).end(code)
        world.ended(name)
    assert chips("") == {"All": 3, "Completed": 1, "Failed": 2}
    bert = {"All": 2, "Completed": 1, "Failed": 1}
    assert chips("q=BERT") == bert
    # A chip counts what a click on it shows, whichever is chosen.
    assert chips("q=BERT&status=Failed") == bert
    assert chips("q=HyperParameters.epochs%3D2") == {"All": 2, "Failed": 2}
    assert chips("q=HyperParameters.epochs%3D2+bert&status=Completed") == {"All": 1, "Failed": 1}
    assert chips("q=nothing") == {}


@pytest.mark.parametrize("query", ["q=NoSuchProperty%3D1", "token=nonsense", "token=WzFd&q=HyperParameters.a%3D1"])
def test_what_cannot_be_asked_is_said_in_words(world: ApiWorld, query: str) -> None:
    shown = world.page(f"/?{query}")
    assert shown.status == 400
    assert b'role="alert"' in shown.data


@pytest.mark.parametrize("name", ["endpoint", "_anchor", "_external", "_method", "_scheme"])
@pytest.mark.parametrize("path", ["/", "/_sagelet/ui/", "/_sagelet/ui/processing", "/_sagelet/ui/tuning"])
def test_links_keep_no_parameter_that_is_flasks(world: ApiWorld, path: str, name: str) -> None:
    shown = world.page(f"{path}?{name}=javascript&_external=1&q=some")
    assert shown.status == (302 if path == "/_sagelet/ui/" else 200)
    assert "q=some" in shown.data.decode()
    assert name not in shown.data.decode()


def test_the_headers_that_guard_a_page(world: ApiWorld) -> None:
    headers = world.page("/").headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    static = world.page("/_sagelet/ui/static/style.css")
    assert static.headers["Cache-Control"] == "no-cache"
    assert world.page("/_sagelet/ui/static/style.css", If_None_Match=static.headers["ETag"]).status == 304


def test_no_page_has_a_script_or_a_style_in_its_text(world: ApiWorld) -> None:
    text = world.page("/").data.decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|javascript:", text)


def test_other_sites_get_no_page(world: ApiWorld) -> None:
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec_Fetch_Site": "cross-site"}):
        shown = world.page("/", **headers)
        assert shown.status == 403
        assert b"<html" not in shown.data


def test_the_old_address_of_the_list_keeps_its_query(world: ApiWorld) -> None:
    answer = world.page("/_sagelet/ui/?q=abc&status=Failed&account=999999999999&region=eu-west-1")
    assert answer.status == 302
    query = parse_qs(urlsplit(answer.headers["Location"]).query)
    wanted = {"q": ["abc"], "status": ["Failed"], "account": ["999999999999"], "region": ["eu-west-1"]}
    assert query == wanted


def test_an_empty_place_says_where_jobs_are(world: ApiWorld) -> None:
    """A client in another region than the page is the newcomer's commonest way to an empty list."""
    assert "There are jobs in" not in world.page("/").data.decode()
    world.waiting_job("first")
    text = world.page("/?region=eu-west-1").data.decode()
    found = re.search(r'There are jobs in <a href="([^"]*)">(\d{12}) · us-east-1</a>', text)
    assert found is not None
    assert names(world.page(found[1].replace("&amp;", "&")).data.decode()) == ["first"]
