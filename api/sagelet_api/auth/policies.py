"""IAM's policy language, and the evaluation of policies as AWS documents it
(docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html).

What cannot be known counts against the caller: in a denial it denies, in a permission it permits nothing. This holds
for conditions, for policy variables, for parts of an action or a resource that are `UNKNOWN`, and for statements that
are not well formed.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from sagelet_api.auth.globs import ANYTHING, covers, meets
from sagelet_engine.base.wire import JsonObject

#: Stands for any text in an action or a resource: `arn:aws:sqs:us-east-1:123456789012:` + UNKNOWN is some queue.
UNKNOWN = ANYTHING
#: The resource of an action that has no resources (`ListTrainingJobs`). Only patterns such as `*` name it.
NO_RESOURCE = "*"
#: Context keys (`aws:PrincipalAccount`) and their values. No condition is evaluated yet.
Context = Mapping[str, Sequence[str]]
NO_CONTEXT: Context = MappingProxyType({})
#: Policies of which at least one must permit. A denial in any of them wins.
Layer = Sequence["Policy"]
_VARIABLE = re.compile(r"\$\{([^}]*)\}?")
#: The only version with policy variables. A policy without a version is of 2008.
_WITH_VARIABLES = "2012-10-17"
_ARN_FIELDS = 6
#: The beginning of ARNs whose rest is a name, with any colons.
_OBJECTS = ("arn:aws:s3:", "arn:aws-cn:s3:", "arn:aws-us-gov:s3:")
#: The ARNs of a service that takes `Prod` and `prod` for one resource. The ARN of both is in lower case.
_SAGEMAKER = re.compile(r"arn:[a-z-]+:sagemaker:")
#: How a pattern is compared with a text.
Test = Callable[[str, str], bool]


@dataclass(frozen=True)
class Element:
    """`Action` or `Resource` of a statement, or the opposite (`NotAction`). `*` and `?` are wildcards."""

    patterns: tuple[str, ...]
    negated: bool
    #: False if it is not well formed: it is missing, is there in both forms, or is neither text nor a list of texts.
    known: bool

    @classmethod
    def of(cls, statement: JsonObject, name: str, read: Callable[[str], str]) -> "Element":
        """`read`: turns a pattern of the policy into one of `globs.py`."""
        opposite = f"Not{name}"
        negated = opposite in statement
        values = _listed(statement.get(opposite if negated else name))
        patterns = tuple(read(one) for one in values if isinstance(one, str))
        known = bool(values) and len(patterns) == len(values) and not (negated and name in statement)
        return cls(patterns, negated, known)

    def with_parts(self) -> "Element":
        """Adds what is below the resources of a denial: versions of a function, streams of a log group. On AWS the
        author has to write `:*`.
        """
        if self.negated:
            return self
        below = tuple(f"{one}:*" for one in self.patterns if one.startswith("arn:") and not one.startswith(_OBJECTS))
        return replace(self, patterns=self.patterns + below)

    def names(self, text: str) -> bool:
        """True if the element certainly names what `text` stands for."""
        return self.known and (not self._any(_may_match, text) if self.negated else self._any(covers, text))

    def may_name(self, text: str) -> bool:
        """True unless the element certainly does not name what `text` stands for."""
        return not self.known or (not self._any(covers, text) if self.negated else self._any(_may_match, text))

    def _any(self, test: Test, text: str) -> bool:
        return any(test(pattern, text) for pattern in self.patterns)


def _may_match(pattern: str, text: str) -> bool:
    """True unless a pattern certainly does not match a text. Names of SageMaker have another case in their ARNs."""
    if meets(pattern, text):
        return True
    return _SAGEMAKER.match(text) is not None and meets(pattern.lower(), text.lower())


@dataclass(frozen=True)
class Statement:
    """A statement of a policy. What is not certainly a permission is a denial."""

    permits: bool
    actions: Element
    resources: Element
    conditional: bool

    @classmethod
    def of(cls, statement: JsonObject, *, variables: bool) -> "Statement":
        def resource(pattern: str) -> str:
            return _completed(_with_variables(pattern) if variables else pattern)

        permits = statement.get("Effect") == "Allow"
        resources = Element.of(statement, "Resource", resource)
        return cls(
            permits,
            Element.of(statement, "Action", str.lower),
            resources if permits else resources.with_parts(),
            bool(statement.get("Condition")) or _is_malformed_condition(statement),
        )

    def allows(self, action: str, resource: str) -> bool:
        """`action`: in lower case. The same in `denies`."""
        return self.permits and not self.conditional and self.actions.names(action) and self.resources.names(resource)

    def denies(self, action: str, resource: str) -> bool:
        if self.permits or not self.actions.may_name(action):
            return False
        # AWS lets a denial with an ARN have no effect on an action without resources. One that names the action itself
        # was meant for it.
        meant = resource == NO_RESOURCE and not self.actions.negated and action in self.actions.patterns
        return meant or self.resources.may_name(resource)


#: What a policy means that cannot be read: it might have denied anything.
_DENIES_ALL = Statement(False, Element((), False, False), Element((), False, False), False)


@dataclass(frozen=True)
class Policy:
    statements: tuple[Statement, ...]

    @classmethod
    def parse(cls, text: str) -> "Policy":
        """Parses a policy. A malformed one denies everything, and a malformed statement what it may name."""
        return _parse(text)


# A server asks about each object of a job again.
@lru_cache(maxsize=1024)
def _parse(text: str) -> Policy:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return Policy((_DENIES_ALL,))
    statements = _listed(document.get("Statement")) if isinstance(document, dict) else [None]
    variables = isinstance(document, dict) and document.get("Version") == _WITH_VARIABLES
    return Policy(
        tuple(Statement.of(one, variables=variables) if isinstance(one, dict) else _DENIES_ALL for one in statements)
    )


def evaluate(layers: Iterable[Layer], action: str, resource: str, context: Context = NO_CONTEXT) -> bool:
    """Returns True if an action on a resource is allowed: no policy denies it, and each layer permits it.

    `layers`: the identity's policies, and one layer each for a permissions boundary and a session's policies.
    `action`: `s3:GetObject`. `resource`: an ARN, or NO_RESOURCE. Both may have UNKNOWN parts.
    """
    del context  # Every condition counts as unknown.
    policies = list(layers)
    if is_denied(policies, action, resource):
        return False
    folded = action.lower()
    return all(any(one.allows(folded, resource) for one in _statements(layer)) for layer in policies)


def is_denied(layers: Iterable[Layer], action: str, resource: str) -> bool:
    """Returns True if a statement of any layer denies an action on a resource, as `evaluate` has them."""
    folded = action.lower()
    return any(one.denies(folded, resource) for layer in layers for one in _statements(layer))


def _statements(layer: Layer) -> Iterator[Statement]:
    return (one for policy in layer for one in policy.statements)


def shown(text: str) -> str:
    """Returns an action or a resource for people."""
    return text.replace(UNKNOWN, "*")


def _completed(pattern: str) -> str:
    """Returns an ARN with a wildcard for each field that it lacks, as AWS does (reference_policies_grammar.html)."""
    if not pattern.startswith("arn:"):
        return pattern
    return pattern + ":*" * (_ARN_FIELDS - len(pattern.split(":", _ARN_FIELDS - 1)))


def _with_variables(pattern: str) -> str:
    """Replaces policy variables (`${aws:username}`), whose values are not known (reference_policies_variables.html)."""
    return _VARIABLE.sub(UNKNOWN, pattern)


def _is_malformed_condition(statement: JsonObject) -> bool:
    return "Condition" in statement and not isinstance(statement["Condition"], dict)


def _listed(value: Any) -> list[Any]:
    """Returns a list. IAM writes a list of one item as the item."""
    return value if isinstance(value, list) else [] if value is None else [value]
