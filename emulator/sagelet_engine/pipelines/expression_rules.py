"""What is wrong with the functions of a value, known before anything runs.

Sources: SDK v2's `sagemaker/workflow/functions.py`, which writes them, and the JSON schema of definitions that the page
"Pipelines overview" of the developer guide links. AWS publishes no texts of its errors; those here are sagelet's.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sagelet_engine.base.concurrency import pause
from sagelet_engine.pipelines.expressions import Unresolved, reference, segments

Rule = Callable[[Any, str], Iterator[str]]


def faults(value: Any, place: str) -> Iterator[str]:
    """Yields what is wrong, each with its place, such as `Arguments.Image.Std:Join.Values must be a list`."""
    if isinstance(value, list):
        for index, one in enumerate(value):
            pause()
            yield from faults(one, f"{place}[{index}]")
    elif isinstance(value, dict):
        pause()
        yield from _object(value, place)


def operand_faults(value: Any, place: str) -> Iterator[str]:
    """Yields what is wrong where a text, a number, true, false or a function must stand."""
    if isinstance(value, list) or (isinstance(value, dict) and not is_function(value)):
        yield f"{place} must be a text, a number, true, false or a function"
    else:
        yield from faults(value, place)


def is_function(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _RULES


def _object(value: Mapping[str, Any], place: str) -> Iterator[str]:
    if is_function(value):
        ((name, given),) = value.items()
        yield from _RULES[name](given, f"{place}.{name}")
        return
    for member, one in value.items():
        if member in _RULES and member != "Get":
            yield f"{place} has other members beside {member}, which must be alone"
        elif member.startswith("Std:"):
            yield f"{place}.{member} is not a function: there are {', '.join(_RULES)}"
        else:
            yield from faults(one, f"{place}.{member}")


def _get(given: Any, place: str) -> Iterator[str]:
    try:
        one = reference(given)
        segments(one.path, str(given))
    except Unresolved as error:
        yield f"{place}: {error}"


def _join(given: Any, place: str) -> Iterator[str]:
    if not isinstance(given, dict):
        yield f"{place} must be an object with On and Values"
        return
    yield from _others(given, place, ("On", "Values"))
    # The schema does not ask for On.
    if not isinstance(given.get("On", ""), str):
        yield f"{place}.On must be a text"
    if not isinstance(given.get("Values"), list):
        yield f"{place}.Values must be a list"
        return
    for index, one in enumerate(given["Values"]):
        yield from operand_faults(one, f"{place}.Values[{index}]")


def _json_get(given: Any, place: str) -> Iterator[str]:
    if not isinstance(given, dict):
        yield f"{place} must be an object with PropertyFile or S3Uri, and Path"
        return
    yield from _others(given, place, ("PropertyFile", "S3Uri", "Path"))
    if ("PropertyFile" in given) is ("S3Uri" in given):
        yield f"{place} needs one of PropertyFile and S3Uri"
    if "PropertyFile" in given:
        yield from _property_file(given["PropertyFile"], f"{place}.PropertyFile")
    if "S3Uri" in given:
        yield from _uri(given["S3Uri"], f"{place}.S3Uri")
    if not isinstance(given.get("Path"), str):
        yield f"{place}.Path must be a text, such as metrics.mse.value"
        return
    try:
        segments(given["Path"], given["Path"])
    except Unresolved as error:
        yield f"{place}.Path: {error}"


def _property_file(given: Any, place: str) -> Iterator[str]:
    try:
        if isinstance(given, dict) and given.keys() == {"Get"} and reference(given["Get"]).property_file:
            return
    except Unresolved as error:
        yield f"{place}: {error}"
        return
    yield f'{place} must be {{"Get": "Steps.STEP.PropertyFiles.NAME"}}'


def _uri(given: Any, place: str) -> Iterator[str]:
    if isinstance(given, str) or is_function(given):
        yield from faults(given, place)
    else:
        yield f"{place} must be a text or a function"


def _others(given: Mapping[str, Any], place: str, known: tuple[str, ...]) -> Iterator[str]:
    for name in given.keys() - {*known}:
        yield f"{place} has no member {name}: it has {', '.join(known)}"


_RULES: Mapping[str, Rule] = {"Get": _get, "Std:Join": _join, "Std:JsonGet": _json_get}
