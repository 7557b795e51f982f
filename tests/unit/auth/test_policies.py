"""IAM's policies: generated ones against a second evaluation of AWS's logic, and what cannot be known."""

import json
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagelet_api.auth.globs import ANYTHING, covers, meets
from sagelet_api.auth.policies import NO_RESOURCE, UNKNOWN, Policy, evaluate
from support import iam_oracle

ACTIONS = ("s3:GetObject", "s3:GetObjectVersion", "lambda:InvokeFunction", "sqs:SendMessage")
ACTION_PATTERNS = (*ACTIONS, "*", "s3:*", "S3:getobject", "s3:Get*", "s3:G?tObject", "lambda:*", "*:*", "sqs:S*e")
RESOURCES = (
    "arn:aws:s3:::a/x", "arn:aws:s3:::b/x*", "arn:aws:lambda:us-east-1:123456789012:function:f",
    "arn:aws:sqs:us-east-1:123456789012:q",
)  # fmt: skip
RESOURCE_PATTERNS = (
    *RESOURCES, "*", "arn:aws:s3:::a/*", "arn:aws:s3:::?/x", "arn:aws:lambda:*:*:function:*",
    "arn:aws:*:*:123456789012:*", "arn:aws:sqs:us-east-1:123456789012:Q", "arn:aws:s3:::*/x*",
)  # fmt: skip
#: What an unknown part may be, in the oracle's worlds.
PARTS = ("", "x", "a/x", "b/x*", "function:f", "q", "GetObject", "GetObjectVersion", "InvokeFunction")
CONDITION = {"StringEquals": {"aws:RequestedRegion": "us-east-1"}}


def some(patterns: tuple[str, ...]) -> st.SearchStrategy[Any]:
    one = st.sampled_from(patterns)
    return one | st.lists(one, min_size=1, max_size=3)


@st.composite
def statements(draw: st.DrawFn) -> dict[str, Any]:
    made = {
        "Effect": draw(st.sampled_from(["Allow", "Allow", "Deny"])),
        draw(st.sampled_from(["Action", "Action", "NotAction"])): draw(some(ACTION_PATTERNS)),
        draw(st.sampled_from(["Resource", "Resource", "NotResource"])): draw(some(RESOURCE_PATTERNS)),
    }
    if draw(st.integers(0, 3)) == 0:
        made["Condition"] = CONDITION
    return made


def layers(conditional: bool = True) -> st.SearchStrategy[Any]:
    statement = statements() if conditional else statements().map(_without_condition)
    policy = st.lists(statement, min_size=1, max_size=3)
    return st.lists(st.lists(policy, max_size=2), min_size=1, max_size=3)


def _without_condition(statement: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in statement.items() if name != "Condition"}


def parsed(given_layers: Any) -> list[list[Policy]]:
    return [
        [Policy.parse(json.dumps({"Version": "2012-10-17", "Statement": policy})) for policy in layer]
        for layer in given_layers
    ]


@given(layers(conditional=False), st.sampled_from(ACTIONS), st.sampled_from(RESOURCES))
def test_what_is_known_is_decided_as_aws_documents_it(given_layers: Any, action: str, resource: str) -> None:
    wanted = iam_oracle.decide(given_layers, action, resource, lambda _: True)
    assert evaluate(parsed(given_layers), action, resource) is wanted


@given(
    layers(),
    st.sampled_from([*ACTIONS, f"s3:{UNKNOWN}", f"lambda:{UNKNOWN}"]),
    st.sampled_from(
        [*RESOURCES, UNKNOWN, f"arn:aws:s3:::a/{UNKNOWN}", f"arn:aws:sqs:us-east-1:123456789012:{UNKNOWN}",
         f"arn:aws:s3:::{UNKNOWN}/x"]
    ),
)  # fmt: skip
def test_what_is_not_known_is_allowed_only_if_it_is_allowed_whatever_it_is(
    given_layers: Any, action: str, resource: str
) -> None:
    if not evaluate(parsed(given_layers), action, resource):
        return
    for one_action, one_resource in product(worlds(action), worlds(resource)):
        for holds in (lambda _: True, lambda one: "Condition" not in one):
            assert iam_oracle.decide(given_layers, one_action, one_resource, holds)


def worlds(text: str) -> Iterator[str]:
    yield from (text.replace(UNKNOWN, part) for part in PARTS)


@given(st.text("ab*?", max_size=8), st.text("ab*", max_size=8))
def test_a_pattern_matches_a_known_text_as_aws_says(pattern: str, text: str) -> None:
    assert covers(pattern, text) is meets(pattern, text) is iam_oracle.glob(pattern, text)


@given(st.text("ab*?", max_size=6), st.text(f"ab{ANYTHING}", max_size=5))
def test_a_pattern_and_a_text_of_which_parts_are_unknown(pattern: str, text: str) -> None:
    parts = ("", "a", "b", "ab", "ba", "aab", "abb", "bbaa")
    values = [text]
    for _ in range(text.count(ANYTHING)):
        values = [value.replace(ANYTHING, part, 1) for value in values for part in parts]
    matched = [iam_oracle.glob(pattern, value) for value in values[:4096]]
    assert all(matched) or not covers(pattern, text)
    assert meets(pattern, text) or not any(matched)


def allowed(*given_statements: Any, action: str = "lambda:InvokeFunction", resource: str = RESOURCES[2]) -> bool:
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    text = json.dumps({"Version": "2012-10-17", "Statement": [everything, *given_statements]})
    return evaluate([[Policy.parse(text)]], action, resource)


@pytest.mark.parametrize(
    "denial",
    [
        {"Effect": "Deny", "Action": "lambda:InvokeFunction"},
        {"Effect": "Deny", "Resource": "*"},
        {"Effect": "Deny", "Action": "lambda:InvokeFunction", "Resource": []},
        {"Effect": "Deny", "Action": "lambda:InvokeFunction", "Resource": 3},
        {"Effect": "Deny", "Action": ["lambda:InvokeFunction", None], "Resource": "*"},
        {"Effect": "Deny", "Action": {"a": 1}, "Resource": "*"},
        {"Effect": "Deny", "Action": "s3:x", "NotAction": "s3:x", "Resource": "*"},
        {"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": ["x"]},
        {"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": {"Unheard": {"of": "it"}}},
        {"Effect": "deny", "Action": "*", "Resource": "*"},
        {"Action": "*", "Resource": "*"},
        {"Effect": ["Allow"], "Action": "*", "Resource": "*"},
        {"Effect": "Deny", "Action": "*", "Resource": "arn:aws:lambda:*:*:function:${aws:username}"},
        {"Effect": "Deny", "Action": "*", "Resource": "arn:aws:lambda"},
        "Deny",
        None,
    ],
)
def test_a_denial_that_is_not_understood_denies(denial: Any) -> None:
    assert allowed()
    assert not allowed(denial)


@pytest.mark.parametrize(
    "text", ["", "no JSON", "[]", "3", '"Deny"', "[" * 100_000, '{"Statement": "x"}'], ids=lambda text: text[:20]
)
def test_a_policy_that_cannot_be_read_denies_everything(text: str) -> None:
    everything = Policy.parse('{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}')
    assert not evaluate([[everything, Policy.parse(text)]], "s3:GetObject", RESOURCES[0])


@pytest.mark.parametrize(
    "permission",
    [
        {"Effect": "Allow", "Action": "s3:GetObject"},
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": [3, "*"]},
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*", "Condition": CONDITION},
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::a/${aws:username}"},
        {"Effect": "Allow", "Action": "s3:GetObject", "NotResource": "arn:aws:s3:::${aws:username}/*"},
        {"Effect": "Allow", "NotAction": [], "Resource": "*"},
    ],
)
def test_a_permission_that_is_not_understood_permits_nothing(permission: Any) -> None:
    text = json.dumps({"Version": "2012-10-17", "Statement": permission})
    assert not evaluate([[Policy.parse(text)]], "s3:GetObject", RESOURCES[0])


def test_a_policy_of_2008_has_no_variables() -> None:
    permission = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::a/${x}"}
    old = Policy.parse(json.dumps({"Statement": permission}))
    assert evaluate([[old]], "s3:GetObject", "arn:aws:s3:::a/${x}")
    assert not evaluate([[old]], "s3:GetObject", "arn:aws:s3:::a/b")


def test_a_denial_that_names_an_action_without_resources_denies_it() -> None:
    denial = {"Effect": "Deny", "Action": "cloudwatch:PutMetricData", "Resource": "arn:aws:cloudwatch:*:*:alarm:*"}
    wide = {**denial, "Action": "cloudwatch:*"}
    assert not allowed(denial, action="cloudwatch:PutMetricData", resource=NO_RESOURCE)
    # As on AWS: this denial is about other actions, which have resources.
    assert allowed(wide, action="cloudwatch:PutMetricData", resource=NO_RESOURCE)


def test_a_denial_holds_for_a_name_of_sagemaker_in_any_case() -> None:
    """sagelet takes `PROD` and `prod` for one resource, as its ARN is in lower case."""
    arn = "arn:aws:sagemaker:us-east-1:123456789012:model-package-group/"
    denial = {"Effect": "Deny", "Action": "*", "Resource": f"{arn}Prod*"}
    but = {"Effect": "Allow", "Action": "*", "NotResource": f"{arn}prod*"}
    for name in ("prod-1", "Prod-1", "PROD-1"):
        assert not allowed(denial, action="sagemaker:DeleteModelPackageGroup", resource=arn + name)
        policy = Policy.parse(json.dumps({"Statement": but}))
        assert not evaluate([[policy]], "sagemaker:DeleteModelPackageGroup", arn + name)
    assert allowed(denial, action="sagemaker:DeleteModelPackageGroup", resource=f"{arn}dev")
    other = {"Effect": "Deny", "Action": "*", "Resource": "arn:aws:s3:::b/Prod"}
    assert allowed(other, action="s3:GetObject", resource="arn:aws:s3:::b/prod")


def test_each_layer_has_to_permit_and_any_denial_wins() -> None:
    everything = Policy.parse('{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}')
    denial = Policy.parse('{"Statement": {"Effect": "Deny", "Action": "s3:*", "Resource": "*"}}')
    assert evaluate([[everything], [everything]], "s3:GetObject", RESOURCES[0])
    assert not evaluate([[everything], []], "s3:GetObject", RESOURCES[0])
    assert not evaluate([[everything], [everything, denial]], "s3:GetObject", RESOURCES[0])


def test_a_long_pattern_and_a_long_text_cost_little() -> None:
    pattern, text = "arn:*" + "a*" * 5_000 + "b", "arn:" + "a" * 1_000_000
    assert not covers(pattern, text)
    assert meets(pattern, text)
