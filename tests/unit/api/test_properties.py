"""CreateTrainingJob with bodies that hypothesis makes of the service model.

`make test` takes a few hundred, the same each time; `make properties` takes 20,000 of each kind.
"""

import copy
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import training_job_api
from hypothesis import given, settings
from hypothesis import strategies as st

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.sagemaker.training_view import CHANNEL_DEFAULTS, DEFAULTS, NOT_DESCRIBED, OUTPUT_DEFAULTS
from sagelet_engine.engine import Engine
from sagelet_engine.model.objects import ObjectInfo
from support.api_world import ApiWorld
from support.fakes import AnyImage
from support.strategies import FILE_SYSTEM, Body, bodies, create_shape
from support.violations import Broken, broken_bodies

#: What is refused whatever else a body has: members, not single values of them.
REFUSED = frozenset(
    row.path
    for row in training_job_api.request_rows(
        "CreateTrainingJob", create_shape(), training_job_api.classification()["CreateTrainingJob"]
    )
    if row.verdict == "refused" and "=" not in row.path
)
VALID = bodies(REFUSED)


class Unstarted(ApiWorld):
    """Jobs are accepted and never run, and every S3 prefix holds something: it is about what is accepted."""

    def __init__(self, root: Path, bridge: MotoBridge) -> None:
        shared = root / "shared"
        shared.mkdir()
        super().__init__(root, bridge, max_hosts=8, file_systems={FILE_SYSTEM: shared})
        self.runtime.images = AnyImage()
        self.objects.list = lambda *_: iter([ObjectInfo("key", 1)])  # type: ignore[method-assign]
        self._accounts = itertools.count(100_000_000_000)

    def boot(self) -> Engine:
        sagelet = self.compose()
        sagelet.server.start()
        return sagelet.engine

    def new_account(self) -> str:
        """Each example has an account of its own, so that names may come again."""
        return str(next(self._accounts))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unstarted]:
    with Unstarted(tmp_path_factory.mktemp("world"), MotoBridge()) as running:
        yield running


def expected(body: Body) -> Body:
    """What Describe shows of a body: its members as they came, and what AWS fills in."""
    shown = {**DEFAULTS, **{name: value for name, value in body.items() if name not in ("Tags", *NOT_DESCRIBED)}}
    shown["OutputDataConfig"] = {**OUTPUT_DEFAULTS, **body["OutputDataConfig"]}
    if "InputDataConfig" in body:
        shown["InputDataConfig"] = [{**CHANNEL_DEFAULTS, **channel} for channel in body["InputDataConfig"]]
    return shown


def tags_of(body: Body) -> list[dict[str, str]]:
    tags: list[dict[str, str]] = body.get("Tags", [])
    return sorted(tags, key=lambda tag: tag["Key"])


@given(body=VALID)
def test_valid_bodies_are_accepted_and_echoed(world: Unstarted, body: Body) -> None:
    account = world.new_account()
    status, answer = world.call("CreateTrainingJob", body, account)
    assert status == 200, answer
    arn = answer["TrainingJobArn"]
    status, answer = world.call("DescribeTrainingJob", {"TrainingJobName": body["TrainingJobName"]}, account)
    assert {name: answer.get(name) for name in expected(body)} == expected(body)
    assert not NOT_DESCRIBED & answer.keys()
    status, answer = world.call("ListTags", {"ResourceArn": arn}, account)
    assert sorted(answer["Tags"], key=lambda tag: tag["Key"]) == tags_of(body)


@given(broken=broken_bodies(VALID))
def test_broken_bodies_are_refused_by_name(world: Unstarted, broken: Broken) -> None:
    account = world.new_account()
    status, answer = world.call("CreateTrainingJob", broken.body, account)
    assert (status, answer.get("__type")) == (400, broken.code), answer
    message = answer.get("message") or answer["Message"]
    assert [named for named in broken.named if named not in message] == [], message
    status, answer = world.call("ListTrainingJobs", {}, account)
    assert (status, answer["TrainingJobSummaries"]) == (200, [])


@settings(max_examples=40)
@given(body=VALID)
def test_valid_bodies_through_boto3(world: Unstarted, body: Body) -> None:
    sagemaker = world.client("sagemaker", account=world.new_account())
    sagemaker.create_training_job(**copy.deepcopy(body))
    answer = sagemaker.describe_training_job(TrainingJobName=body["TrainingJobName"])
    assert {name: answer.get(name) for name in expected(body)} == expected(body)


@settings(max_examples=40)
@given(broken=broken_bodies(VALID))
def test_broken_bodies_over_http(world: Unstarted, broken: Broken) -> None:
    status, answer = world.post("CreateTrainingJob", broken.body)
    assert (status, answer.get("__type")) == (400, broken.code), answer


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
OPERATIONS = (
    "CreateTrainingJob",
    "DescribeTrainingJob",
    "ListTrainingJobs",
    "StopTrainingJob",
    "UpdateTrainingJob",
    "DeleteTrainingJob",
    "Search",
    "ListTags",
    "AddTags",
    "DeleteTags",
    "ListTrainingJobsForHyperParameterTuningJob",
)


@given(data=st.data(), operation=st.sampled_from(OPERATIONS))
def test_no_json_makes_a_server_error(world: Unstarted, data: st.DataObject, operation: str) -> None:
    members = sorted(training_job_api.service_model().operation_model(operation).input_shape.members)
    body = data.draw(st.dictionaries(st.sampled_from(members) | st.text(max_size=5), JSON, max_size=4))
    if operation == "Search":
        body["Resource"] = "TrainingJob"
    if "Tags" in operation:
        body["ResourceArn"] = "arn:aws:sagemaker:us-east-1:123456789012:training-job/none"
    status, answer = world.call(operation, body, world.new_account())
    assert status in (200, 400), json.dumps(answer)
