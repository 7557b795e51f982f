"""Definitions of pipelines, as SDK v2 writes them."""

import json
from typing import Any

from sagelet_engine.pipelines.checking import MOST_NEEDS, MOST_STEPS
from support.world import request

ROLE = "arn:aws:iam::123456789012:role/SageMakerRole"


def get(path: str) -> dict[str, str]:
    return {"Get": path}


def join(on: str, *values: Any) -> dict[str, Any]:
    return {"Std:Join": {"On": on, "Values": [*values]}}


def json_get(step: str, file: str, path: str) -> dict[str, Any]:
    return {"Std:JsonGet": {"PropertyFile": get(f"Steps.{step}.PropertyFiles.{file}"), "Path": path}}


def step(name: str, kind: str, arguments: Any = None, **more: Any) -> dict[str, Any]:
    return {"Name": name, "Type": kind, "Arguments": arguments or {}, **more}


def train(name: str, *, hyperparameters: Any = None, **more: Any) -> dict[str, Any]:
    """A Training step, without the name of its job."""
    body = {member: value for member, value in request("x").items() if member != "TrainingJobName"}
    if hyperparameters is not None:
        body["HyperParameters"] = hyperparameters
    return step(name, "Training", body, **more)


def condition(name: str, conditions: list[Any], then: list[Any], *otherwise: Any, **more: Any) -> dict[str, Any]:
    arguments = {"Conditions": conditions, "IfSteps": then, "ElseSteps": [*otherwise]}
    return step(name, "Condition", arguments, **more)


def compare(kind: str, left: Any, right: Any) -> dict[str, Any]:
    return {"Type": kind, "LeftValue": left, "RightValue": right}


def fail(name: str, message: Any, **more: Any) -> dict[str, Any]:
    return step(name, "Fail", {"ErrorMessage": message}, **more)


def parameter(name: str, kind: str = "String", default: Any = None, **more: Any) -> dict[str, Any]:
    given = {"Name": name, "Type": kind, **more}
    return given if default is None else {**given, "DefaultValue": default}


def definition(*steps: dict[str, Any], parameters: list[dict[str, Any]] | None = None) -> str:
    given = {"Version": "2020-12-01", "Metadata": {}, "Parameters": parameters or [], "Steps": [*steps]}
    return json.dumps(given)


def largest() -> str:
    """A definition of the most steps and the most pairs of steps of which one waits for the other, of nearly 1 MiB."""
    each = MOST_NEEDS // MOST_STEPS
    steps = []
    for number in range(MOST_STEPS):
        names = {f"h{place}": join("-", get("Execution.PipelineName"), str(place)) for place in range(3)}
        needed = [f"s{other}" for other in range(max(0, number - each), number)]
        steps.append(train(f"s{number}", hyperparameters=names, DependsOn=needed))
    return definition(*steps)
