"""The code that a page prints makes the request again."""

import json
import re
import sys
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from sagelet_api.protocol.validation import rule_book
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.web.snippets.boto3 import boto3_code
from sagelet_api.web.snippets.python import literal
from sagelet_api.web.snippets.sdk_v2 import sdk_v2_code
from sagelet_api.web.snippets.sdk_v3 import sdk_v3_code, snake
from support.api_world import ApiWorld
from support.world import request as body

TEXTS = [
    '"',
    "'",
    "\\",
    "\n\t\r",
    "{}",
    "{0} %s",
    "\N{SNOWMAN}",
    "\x00\x7f\u2028",
    "</code>",
    "'''",
    '"""',
    "${HOME}",
    "",
]


class Recorder(ModuleType):
    """A module whose every name makes a Made of what it is called with."""

    def __getattr__(self, name: str) -> Any:
        return Maker(name)


class Maker:
    made: ClassVar[list[dict[str, Any]]] = []

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> "Maker":
        return Maker(name)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        self.made.append({"name": self._name, "positional": positional, **named})
        return Maker(self._name) if self._name in ("client", "Estimator", "create") else named


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What code calls of boto3 and the SDKs, which are not here themselves."""
    for name in (
        "boto3", "sagemaker", "sagemaker.core", "sagemaker.core.resources", "sagemaker.core.shapes",
        "sagemaker.estimator", "sagemaker.inputs",
    ):  # fmt: skip
        module = Recorder(name)
        module.__path__ = []
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(Maker, "made", [])
    return Maker.made


def of(calls: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (call,) = (call for call in calls if call["name"] == name)
    return {key: value for key, value in call.items() if key not in ("name", "positional")}


def test_boto3_makes_every_recorded_request(recorded: list[dict[str, Any]], calls: list[dict[str, Any]]) -> None:
    for one in recorded:
        calls.clear()
        exec(boto3_code(one["request"], "eu-west-1", "http://localhost:1"), {})
        assert of(calls, "create_training_job") == one["request"]
        assert of(calls, "client") == {"region_name": "eu-west-1", "endpoint_url": "http://localhost:1"}


def test_sdk_v3_makes_every_recorded_request(recorded: list[dict[str, Any]], calls: list[dict[str, Any]]) -> None:
    shape = rule_book("sagemaker").shape("CreateTrainingJobRequest")
    for one in recorded:
        calls.clear()
        exec(sdk_v3_code(one["request"], "us-east-1"), {})
        made = of(calls, "create")
        assert made.pop("region") == "us-east-1"
        assert as_request(shape, made) == one["request"]


def as_request(shape: Any, value: Any) -> Any:
    """Members under the names of the service model again."""
    if shape.type_name == "structure":
        members = {snake(name): name for name in shape.members}
        return {members[key]: as_request(shape.members[members[key]], one) for key, one in value.items()}
    if shape.type_name == "list":
        return [as_request(shape.member, one) for one in value]
    return value


def test_sdk_v2_has_everything_or_says_so(recorded: list[dict[str, Any]], calls: list[dict[str, Any]]) -> None:
    """Every value of the request is an argument, or its member is named in the comment."""
    for one in recorded:
        calls.clear()
        code = sdk_v2_code(one["request"])
        exec(code, {})
        arguments = {**of(calls, "Estimator"), **of(calls, "fit")}
        told = re.findall(r"# The Estimator has no argument for (.*): boto3 has", code)
        left = told[0].split(", ") if told else []
        found = json.dumps(arguments)
        for path, value in leaves(one["request"]):
            assert json.dumps(value) in found or any(path.startswith(name) for name in left), (one["case"], path)


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        dot = f"{path}." if path else ""
        return [leaf for key, one in value.items() for leaf in leaves(one, f"{dot}{key}")]
    if isinstance(value, list) and value:
        return [leaf for one in value for leaf in leaves(one, path)]
    return [(path, value)]


def test_any_text_survives(calls: list[dict[str, Any]]) -> None:
    request = {**body("train"), "HyperParameters": {text: text for text in TEXTS if text}}
    for code in (boto3_code(request, "r", "e"), sdk_v2_code(request), sdk_v3_code(request, "r")):
        calls.clear()
        exec(code, {})
        found = [
            one for call in calls for key, one in call.items() if key.lower().replace("_", "") == "hyperparameters"
        ]
        assert found == [request["HyperParameters"]]
    assert eval(literal(TEXTS)) == TEXTS


def test_the_printed_program_creates_the_job(
    tmp_path: Path, bridge: MotoBridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "123456789012")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    with ApiWorld(tmp_path, bridge) as world:
        world.sagemaker.create_training_job(
            **body("train", HyperParameters={"text": "".join(TEXTS[:3])}), Tags=[{"Key": "team", "Value": "nlp"}]
        )
        text = world.page("/_sagelet/ui/jobs/train/request").data.decode()
        found = re.search(r'<code id="boto3">(.*?)</code>', text, re.DOTALL)
        assert found is not None
        code = unescape(found[1])
        exec(code.replace('TrainingJobName="train"', 'TrainingJobName="again"'), {})
        first, again = world.job("train"), world.job("again")
        assert again.request == {**first.request, "TrainingJobName": "again"}
        assert again.tags == first.tags
        shown = re.search(r'<code id="json">(.*?)</code>', text, re.DOTALL)
        assert shown is not None
        assert json.loads(unescape(shown[1])) == {**first.request, "Tags": [{"Key": "team", "Value": "nlp"}]}
