"""Checks requests against botocore's own service model and refuses them in AWS's words.

botocore's ParamValidator knows neither patterns nor enums nor maxima, so sagelet walks the shapes itself. The model is
loaded on the first call (about 0.1 s for SageMaker) and each operation's rules are made once.
"""

import threading
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from sagelet_api.protocol import botocore_parts
from sagelet_api.protocol.aws_errors import (
    LogsInvalidParameter,
    SerializationException,
    UnknownOperationException,
    ValidationException,
)
from sagelet_api.protocol.members import Parameters
from sagelet_api.protocol.shapes import (
    MOST_TOLD,
    BooleanRule,
    Broken,
    ListRule,
    MapRule,
    NumberRule,
    Rule,
    StringRule,
    StructureRule,
    TimestampRule,
    Traits,
)
from sagelet_api.protocol.wire_types import WrongType


def validate(service: str, operation: str, parameters: Parameters) -> Parameters:
    """Returns the parameters in the model's types, without null members.

    `service` is botocore's name of the model (`sagemaker`, `logs`). Raises SerializationException for a wrong JSON
    type, UnknownOperationException, and ValidationException, which lists the broken constraints, at most MOST_TOLD of
    them (CloudWatch Logs calls it InvalidParameterException).
    """
    typed, errors = checked(service, operation, parameters)
    if errors:
        summary = validation_errors(errors)
        raise LogsInvalidParameter(summary.message) if service == "logs" else summary
    return typed


def checked(service: str, operation: str, parameters: Parameters) -> tuple[Parameters, list[str]]:
    """Returns the parameters as `validate` does, and the broken constraints in AWS's words instead of raising them.

    One more than MOST_TOLD of them says that the rest of the parameters was not looked at.
    """
    broken: list[Broken] = []
    try:
        typed: Parameters = rule_book(service).input_rule(operation).take(parameters, broken)
    except WrongType as error:
        raise SerializationException(f"{error.words} at '{error.path[1:]}'") from error
    return typed, [constraint_error(path[1:], shown, words) for path, shown, words in broken[: MOST_TOLD + 1]]


def validation_errors(errors: list[str]) -> ValidationException:
    """Returns AWS's summary of one or more errors, each in the form that `constraint_error` gives."""
    noun = "error" if len(errors) == 1 else "errors"
    told = errors[:MOST_TOLD]
    more = f"; correct these {MOST_TOLD} first, for there are more" if len(errors) > MOST_TOLD else ""
    return ValidationException(f"{len(told)} validation {noun} detected: {'; '.join(told)}{more}")


def constraint_error(path: str, value: str | None, constraint: str) -> str:
    """Returns one error in AWS's words. A value of None is a missing member."""
    shown = "null" if value is None else f"'{value}'"
    return f"Value {shown} at '{path}' failed to satisfy constraint: {constraint}"


@cache
def rule_book(service: str) -> "RuleBook":
    return RuleBook(service)


class RuleBook:
    """The rules of one service. Each is made when it is first used."""

    def __init__(self, service: str) -> None:
        self._model = botocore_parts.service_model(service)
        self._rules: dict[str, Rule] = {}
        self._inputs: dict[str, Rule] = {}
        self._lock = threading.Lock()

    def shape(self, name: str) -> Any:
        """Returns one of botocore's shapes."""
        with self._lock:  # botocore fills its caches as it is used.
            return self._model.shape_for(name)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Returns how requests of the service are written: `targetPrefix`, `jsonVersion`, `signingName`, ..."""
        metadata: Mapping[str, Any] = self._model.metadata
        return metadata

    @property
    def namespace(self) -> str:
        """Returns the namespace of the XML that services of the Query protocol answer."""
        return str(self._model.metadata["xmlNamespace"])

    def input_shape(self, operation: str) -> Any:
        """Returns botocore's shape of an operation's input, or None if it has none."""
        with self._lock:
            return self._model.operation_model(operation).input_shape

    def output_shape(self, operation: str) -> Any:
        """Returns botocore's shape of an operation's output, or None if it has none."""
        with self._lock:
            return self._model.operation_model(operation).output_shape

    def operations(self) -> frozenset[str]:
        return frozenset(self._model.operation_names)

    def input_rule(self, operation: str) -> Rule:
        """Returns the rule of an operation's input. Raises UnknownOperationException."""
        rule = self._inputs.get(operation)
        if rule is not None:
            return rule
        if operation not in self._model.operation_names:
            raise UnknownOperationException(f"{operation!r} is not an operation of {self._model.service_name}")
        with self._lock:
            shape = self._model.operation_model(operation).input_shape
            # Entered last: other threads read this table without the lock and must never see a half-made rule.
            self._inputs[operation] = self._rule(shape) if shape else _no_members()
            return self._inputs[operation]

    def _rule(self, shape: Any) -> Rule:
        if shape.name in self._rules:
            return self._rules[shape.name]
        rule = _new_rule(shape)
        self._rules[shape.name] = rule  # Entered before its members, because shapes refer to themselves.
        if isinstance(rule, StructureRule):
            rule.required = frozenset(shape.required_members)
            rule.members = {name: self._rule(member) for name, member in shape.members.items()}
        elif isinstance(rule, ListRule):
            rule.member = self._rule(shape.member)
        elif isinstance(rule, MapRule):
            rule.key, rule.value = self._rule(shape.key), self._rule(shape.value)
        return rule


def _new_rule(shape: Any) -> Rule:
    kind, traits = shape.type_name, cast(Traits, {**shape.metadata, "enum": getattr(shape, "enum", None)})
    if kind == "string":
        return StringRule(shape.name, traits)
    if kind in ("integer", "long", "float", "double"):
        return NumberRule(shape.name, kind, traits)
    if kind == "list":
        return ListRule(shape.name, traits)
    if kind == "map":
        return MapRule(shape.name, traits)
    simple = {"structure": StructureRule, "boolean": BooleanRule, "timestamp": TimestampRule}
    return simple.get(kind, Rule)(shape.name)


def _no_members() -> Rule:
    rule = StructureRule("Unit")
    rule.members, rule.required = {}, frozenset()
    return rule
