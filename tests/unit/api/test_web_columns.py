"""The list's columns, and that a filter, an order, a page and a choice of columns keep what else was asked for."""

import base64
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from support.api_world import ApiWorld
from support.world import request

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as opened:
        yield opened


def shown(world: ApiWorld, query: str = "", **headers: str) -> str:
    answer = world.page(f"/?{query}", **headers)
    assert answer.status == 200
    return answer.data.decode()


def titles(text: str) -> list[str]:
    head = re.search(r"<thead>(.*?)</thead>", text, re.DOTALL)
    assert head is not None
    words = re.sub(r"<[^>]*>", " ", head[1].replace("</th>", "|"))
    return [" ".join(word.split()).rstrip(" ↑↓") for word in unescape(words).split("|")[1:-1]]


def cells(text: str) -> dict[str, str]:
    """The first job's cells, by the title of their column."""
    found = re.findall(r'<td class="cell [^"]*" data-title="([^"]*)">(.*?)</td>', text, re.DOTALL)
    return {unescape(title): unescape(re.sub(r"<[^>]*>", "", cell)).strip() for title, cell in reversed(found)}


def failed(world: ApiWorld, **changes: Any) -> None:
    world.sagemaker.create_training_job(**request("train", **changes))
    host = world.host("train")
    host.say("loss=0.5")
    world.clock.turn(100)
    host.end(1)
    world.ended("train")


def test_reason_compiled_tags_cost_and_the_jobs_own_parameters_can_be_columns(world: ApiWorld) -> None:
    algorithm = {
        **request("x")["AlgorithmSpecification"],
        "MetricDefinitions": [{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    }
    failed(
        world,
        AlgorithmSpecification=algorithm,
        HyperParameters={"lr": '"0.01"', EVIL: EVIL, "sagemaker_training_compiler_enabled": "true"},
        Tags=[{"Key": "team", "Value": "nlp"}, {"Key": "draft", "Value": ""}],
        ResourceConfig={"InstanceType": "ml.p3.2xlarge", "InstanceCount": 1, "VolumeSizeInGB": 10},
    )
    text = shown(world)
    assert titles(text) == ["Name", "Status", "Created", "Ran for", "Cost", "Compiled", "Instances"]
    keys = ["reason", "compiled", "tags", "cost", "HyperParameters.lr", f"HyperParameters.{EVIL}", "Metrics.loss"]
    query = "&".join(f"columns={key}" for key in ("", *keys, "Tags.team", "nonsense", "Nothing.x"))
    text = shown(world, query)
    assert EVIL not in text
    assert titles(text) == ["Name", "Status", "Reason", "Compiled", "Tags", "Cost", "lr", EVIL, "loss", "team"]
    found = cells(text)
    assert found["Reason"].startswith("AlgorithmError")
    assert found["Compiled"] == "not known"
    assert found["Tags"] == "draft, team=nlp"
    assert re.fullmatch(r"\$0\.\d{4}", found["Cost"])
    assert (found["lr"], found[EVIL], found["loss"], found["team"]) == ("0.01", EVIL, "0.5", "nlp")
    offered = [unescape(value) for value in re.findall(r'type="checkbox" name="columns" value="([^"]*)"', text)]
    assert {"reason", "tags", "cost", "HyperParameters.lr", "Metrics.loss", "Tags.team", "Tags.draft"} <= set(offered)
    assert not any("sagemaker_" in key for key in offered)


def test_the_choice_of_columns_is_remembered_until_another_one(world: ApiWorld) -> None:
    world.waiting_job("train")
    answer = world.page("/?columns=&columns=tags&columns=reason")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    pair = cookie.partition(";")[0]
    assert titles(shown(world, Cookie=pair)) == ["Name", "Status", "Tags", "Reason"]
    assert "Set-Cookie" not in world.page("/", Cookie=pair).headers
    assert titles(shown(world, "columns=", Cookie=pair)) == ["Name", "Status"]
    for value in (b"[" * 2000, b"nonsense", b'["Tags.\\ud800"]'):
        broken = f"{pair.partition('=')[0]}={base64.urlsafe_b64encode(value).decode()}"
        assert set(titles(shown(world, Cookie=broken))) <= set(titles(shown(world)))
    broken = f"{pair.partition('=')[0]}=nonsense"
    assert titles(shown(world, Cookie=broken)) == titles(shown(world))


def asked_by(text: str, label: str) -> dict[str, list[str]]:
    """The query of the link with this text."""
    link = re.search(rf'<a [^>]*href="([^"]*)"[^>]*>\s*{label}\b', text)
    assert link is not None, label
    return parse_qs(urlsplit(unescape(link[1])).query, keep_blank_values=True)


def test_filters_orders_and_pages_keep_the_query(world: ApiWorld) -> None:
    for number in range(52):
        world.waiting_job(f"bert-{number:02}")
    given = {"q": ["bert"], "status": ["InProgress"], "columns": ["", "cost", "Tags.team"]}
    query = "q=bert&status=InProgress&sort=name&order=ascending&columns=&columns=cost&columns=Tags.team"
    text = shown(world, query)
    order = {"sort": ["name"], "order": ["ascending"]}
    assert asked_by(text, "Failed") == {**given, **order, "status": ["Failed"]}
    assert asked_by(text, "All") == {"q": given["q"], "columns": given["columns"], **order}
    assert asked_by(text, "Name") == {**given, "sort": ["name"], "order": ["descending"]}
    assert asked_by(text, "Status") == {**given, "sort": ["status"], "order": ["ascending"]}
    following = asked_by(text, "Next page")
    token = following.pop("token")
    assert following == {**given, **order}
    second = shown(world, f"{query}&token={token[0]}")
    assert asked_by(second, "First page") == {**given, **order}
    # Another filter begins at the first page again.
    assert "token" not in asked_by(second, "Failed")
    # Clear takes away what was searched for, and nothing else.
    assert asked_by(text, "Clear") == {"columns": given["columns"], **order}
    form = re.search(r'<form role="search".*?</form>', text, re.DOTALL)
    assert form is not None
    fields = re.findall(r'<input [^>]*name="(\w+)"[^>]*value="([^"]*)"', form[0])
    assert {("q", "bert"), ("sort", "name"), ("order", "ascending"), ("columns", "")} <= set(fields)
    assert re.search(r'<option value="InProgress" selected', form[0])
    assert re.search(r'name="columns" value="cost" checked', form[0])


def test_the_query_stays_in_its_account_and_region(world: ApiWorld) -> None:
    text = shown(world, "account=999999999999&region=eu-west-1&q=bert")
    place = {"account": ["999999999999"], "region": ["eu-west-1"]}
    assert asked_by(text, "Failed") == {**place, "q": ["bert"], "status": ["Failed"]}
    assert asked_by(text, "Show all") == place
