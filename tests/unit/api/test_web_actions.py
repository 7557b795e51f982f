"""What a page may do to a job, and who may ask for it."""

import json
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.web.actions import free_name
from sagelet_api.web.sessions import HOURS, LINK_HOURS, Sessions
from sagelet_engine.base.keys import KeyPair
from sagelet_engine.model.session import session_key
from support.api_world import ApiWorld
from support.world import key, until
from support.world import request as body

JOBS = "/_sagelet/ui/jobs"
LOGIN = "/_sagelet/ui/login"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as opened:
        yield opened


@pytest.fixture
def locked(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    """A world that checks signatures, and so asks for a login."""
    with ApiWorld(tmp_path, bridge, auth=True) as opened:
        yield opened


def test_a_job_is_stopped(world: ApiWorld) -> None:
    world.create("train")
    host = world.host("train")
    assert b"<button" in world.page(f"{JOBS}/train/stop").data
    answer = world.send_form(f"{JOBS}/train/stop", {})
    assert (answer.status, answer.headers["Location"]) == (303, f"{JOBS}/train")
    until(lambda: host.signals)
    host.end(0)
    assert world.ended("train").status.value == "Stopped"
    again = world.send_form(f"{JOBS}/train/stop", {})
    assert again.status == 400
    assert b"Stopped" in again.data


def test_a_spot_job_is_interrupted(world: ApiWorld) -> None:
    limits = {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200}
    world.create("spot", EnableManagedSpotTraining=True, StoppingCondition=limits)
    world.create("plain")
    world.host("spot")
    assert b"/interrupt" in world.page(f"{JOBS}/spot").data
    assert b"/interrupt" not in world.page(f"{JOBS}/plain").data
    assert world.send_form(f"{JOBS}/spot/interrupt", {}).status == 303
    until(lambda: any(entry.status.value == "Interrupted" for entry in world.job("spot").transitions))
    refused = world.send_form(f"{JOBS}/plain/interrupt", {})
    assert refused.status == 400
    assert b'role="alert"' in refused.data


def test_a_job_is_cloned_with_changes(world: ApiWorld) -> None:
    tags = {"team": "nlp"}
    world.engine.jobs.create(key("train"), body("train"), tags)
    text = world.page(f"{JOBS}/train/clone").data.decode()
    found = re.search(r"<textarea[^>]*>(.*?)</textarea>", text, re.DOTALL)
    assert found is not None
    request = json.loads(unescape(found[1]))
    assert request == {**body("train"), "TrainingJobName": "train-2", "Tags": [{"Key": "team", "Value": "nlp"}]}
    request["HyperParameters"] = {"epochs": "5"}
    answer = world.send_form(f"{JOBS}/train/clone", {"request": json.dumps(request)})
    assert (answer.status, answer.headers["Location"]) == (303, f"{JOBS}/train-2")
    made = world.job("train-2")
    assert made.request["HyperParameters"] == {"epochs": "5"}
    assert made.tags == tags


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        (json.dumps({**body("train")}), "Training job names must be unique"),
        (json.dumps({**body("a-2"), "RoleArn": "nobody"}), "roleArn"),
        (json.dumps({**body("a_b")}), "trainingJobName"),
    ],
)
def test_a_clone_that_is_refused_keeps_what_was_written(world: ApiWorld, text: str, words: str) -> None:
    world.create("train")
    answer = world.send_form(f"{JOBS}/train/clone", {"request": text})
    page = unescape(answer.data.decode())
    assert answer.status == 400
    assert words in page
    assert text in page
    assert world.engine.jobs.counts("123456789012", "us-east-1") == {"InProgress": 1}


@pytest.mark.parametrize(
    ("name", "taken", "free"),
    [
        ("train", [], "train-2"),
        ("train", ["train-2", "train-3"], "train-4"),
        ("train-9", [], "train-10"),
        ("a" * 63, [], "a" * 61 + "-2"),
        ("a" * 60 + "-99", [], "a" * 59 + "-100"),
    ],
)
def test_the_name_of_a_clone(name: str, taken: list[str], free: str) -> None:
    assert free_name(name, lambda other: other in taken) == free


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://evil.example"}, {"Origin": "null"}])
def test_only_a_page_of_ours_may_do_something(world: ApiWorld, headers: dict[str, str]) -> None:
    """A form of another site, and one that says nothing of where it comes from."""
    world.create("train")
    world.host("train")
    for action in ("stop", "interrupt", "clone"):
        answer = world.page(f"{JOBS}/train/{action}", "POST", **headers)
        assert answer.status == 403
    assert world.job("train").status.value == "InProgress"


def test_looking_changes_nothing(world: ApiWorld) -> None:
    world.waiting_job("train")
    before = world.job("train")
    for page in ("", "/stop", "/clone", "/interrupt", "/log"):
        assert world.page(f"{JOBS}/train{page}").status == 200
    assert world.job("train") == before


# --- logins -----------------------------------------------------------------------------------------------------------


def cookie(answer: Any) -> str:
    text: str = answer.headers["Set-Cookie"]
    assert "HttpOnly" in text
    assert "SameSite=Strict" in text
    return text.partition(";")[0]


def test_who_is_not_logged_in_sees_the_login_alone(locked: ApiWorld) -> None:
    locked.waiting_job("secret-job")
    for path in ("/", f"{JOBS}/secret-job", f"{JOBS}/secret-job/log", "/_sagelet/ui/"):
        answer = locked.page(path)
        assert (answer.status, answer.headers["Location"]) == (302, LOGIN)
    for path in ("/_sagelet/ui/events", f"{JOBS}/secret-job/curves"):
        answer = locked.page(path, Sec_Fetch_Mode="cors", Accept="application/json")
        assert answer.status == 401
        assert b"secret-job" not in answer.data
    assert locked.send_form(f"{JOBS}/secret-job/stop", {}).status == 401
    assert locked.job("secret-job").stop_ms is None
    assert locked.page(LOGIN).status == 200
    assert locked.page("/_sagelet/ui/static/style.css").status == 200


def test_a_link_opens_once(locked: ApiWorld) -> None:
    locked.waiting_job("my-job")
    link = f"{LOGIN}?token={locked.sagelet.sessions.link()}"
    entered = locked.page(link)
    assert (entered.status, entered.headers["Location"]) == (303, "/")
    assert b"my-job" in locked.page("/", Cookie=cookie(entered)).data
    again = locked.page(link)
    assert again.status == 403
    assert "Set-Cookie" not in again.headers


def test_the_key_pair_opens(locked: ApiWorld) -> None:
    keys = locked.engine.keys
    right = {"access_key": keys.access_key, "secret": keys.secret}
    session = cookie(locked.send_form(LOGIN, right))
    assert locked.page("/", Cookie=session).status == 200
    for wrong in ({**right, "secret": "x"}, {**right, "access_key": "AKIA"}, {}, {**right, "secret": "\N{SNOWMAN}"}):
        answer = locked.send_form(LOGIN, wrong)
        assert answer.status == 403
        assert "Set-Cookie" not in answer.headers
    assert locked.page(LOGIN, "POST").status == 403, "a form without Origin"
    left = locked.send_form("/_sagelet/ui/logout", {}, Cookie=session)
    assert left.status == 303
    assert locked.page("/", Cookie=session).status == 302


def test_a_login_ends() -> None:
    now = [0.0]
    sessions = Sessions(KeyPair("AKIA", "secret"), lambda: now[0])
    link, late = sessions.link(), sessions.link()
    session = sessions.by_link(link)
    assert session is not None
    assert sessions.holds(session)
    assert not sessions.holds("")
    now[0] = LINK_HOURS * 3600
    assert sessions.by_link(late) is None
    now[0] = HOURS * 3600
    assert not sessions.holds(session)


def test_the_credentials_of_a_job_open_no_page(locked: ApiWorld) -> None:
    locked.create("train")
    locked.host("train")
    token = session_key(locked.engine.keys, locked.job("train").id).token
    answer = locked.page("/_sagelet/ui/", X_Amz_Security_Token=token)
    assert answer.status == 403
