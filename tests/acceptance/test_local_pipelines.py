"""The same pipelines by SDK v2's own local mode and by sagelet: equal, but for what `local_pipelines.json` says.

Local mode is unchanged. The only thing that is not real is its `docker`, which runs a program in place of a container
(`support/pipeline_programs.py`). In sagelet the same program runs in fast-forward.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagelet.testing import FastForward
from support import pipeline_programs
from support.clients import ENVIRONMENT, RunClients, answer_of

pytestmark = pytest.mark.sdk

CLIENTS = Path(__file__).parent / "clients"
NAMES = [
    name.replace("_", "-")
    for name in re.findall(r"^@case\ndef (\w+)", (CLIENTS / "local_pipeline_cases.py").read_text(), re.MULTILINE)
]
#: By case: why the sides differ, and each difference as [local mode, sagelet] by its place.
KNOWN = json.loads((Path(__file__).parents[1] / "data" / "local_pipelines.json").read_text())
#: Members that sagelet answers as AWS does, and local mode does not know or makes up.
MADE_UP = {
    "InstanceType", "DataUri", "VolumeKmsKeyId", "RoleArn", "ExecutionRoleArn", "CreationTime", "TrainingJobArn",
    "ProcessingJobArn", "ModelArn", "TrainingStartTime", "TrainingEndTime", "ProcessingStartTime", "ProcessingEndTime",
}  # fmt: skip
#: Members that must be equal on both sides. Of others, what local mode has must be there in sagelet, which adds the
#: defaults that AWS answers. That no container had more inputs is seen in `seen.json` of its outputs.
WHOLE = ("HyperParameters", "Environment")
#: What the texts of failures say: local mode's own words and sagelet's.
REASONS = {
    r"exited with code: (\d+)|exit code: (\d+)": "exit code",
    r"is undefined|^Invalid json path": "undefined",
    r"not in valid JSON format|is not JSON": "no JSON",
    r"error while reading file|cannot be read": "unreadable",
    r"not of the same type|not supported between|is not a number": "types",
    r"No S3 objects found": "no input",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What happened in each case, on both sides. One process of the SDK runs them all."""
    directory = tmp_path_factory.mktemp("pipelines")
    pipeline_programs.install(directory / "bin", ENVIRONMENT / "bin" / "python")
    (directory / "tmp").mkdir()
    # With a configuration file, SDK v2 checks that file again at each look into it: seconds for each estimator.
    others = {
        "PATH": f"{directory / 'bin'}:{os.environ['PATH']}",
        "SAGEMAKER_ADMIN_CONFIG_OVERRIDE": os.devnull,
        "SAGEMAKER_USER_CONFIG_OVERRIDE": os.devnull,
        "AWS_DEFAULT_REGION": "us-east-1",
        # Local mode leaves a directory for each container.
        "TMPDIR": str(directory / "tmp"),
    }
    with FastForward(directory / "server") as server:
        pipeline_programs.in_fast_forward(server)
        output = RunClients(server, directory, ENVIRONMENT, others).run("python", str(CLIENTS / "local_pipelines.py"))
        yield answer_of(output)


def leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yields what is in a value by its place. Empty members are as if they were not there."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in MADE_UP:
                yield from leaves(inner, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{place}[{index}]")
    elif value is not None:
        yield place, value


def reason(text: str | None) -> str | None:
    """Returns what the text of a failure says, or the text, if it is the pipeline's own."""
    for pattern, meaning in REASONS.items():
        if text is not None and (found := re.search(pattern, text)) is not None:
            code = next(filter(None, found.groups()), "")
            return f"{meaning} {code}".strip()
    return text


def course(side: dict[str, Any]) -> dict[str, Any]:
    """How the execution and its steps ended."""
    found = {"refused": side.get("refused"), "status": side.get("status")}
    for one in side.get("steps", []):
        # Local mode writes Python's True, AWS and sagelet write true.
        outcome = None if one["outcome"] is None else str(one["outcome"]).lower()
        found[one["name"]] = {
            "status": one["status"], "outcome": outcome, "message": one["message"], "reason": reason(one["reason"]),
        }  # fmt: skip
    return dict(leaves(found))


def different(local: dict[str, Any], sagelet: dict[str, Any]) -> dict[str, list[Any]]:
    """Returns [local mode, sagelet] by place."""
    return {
        place: [local.get(place), sagelet.get(place)]
        for place in (*local, *(sagelet.keys() - local.keys()))
        if local.get(place) != sagelet.get(place)
    }


def differences(local: dict[str, Any], sagelet: dict[str, Any]) -> dict[str, list[Any]]:
    """Returns all differences between two runs of a case. What jobs are compares only those that both sides began."""
    found = different(course(local), course(sagelet))
    if "refused" in local or "refused" in sagelet:
        return found
    whole = {"requests": WHOLE, "properties": ()}
    for what in whole:
        for step in local[what].keys() & sagelet[what].keys():
            given, answered = (dict(leaves(side[what][step])) for side in (local, sagelet))
            compared = {place for place in answered if place in given or place.startswith(whole[what])}
            unlike = different(given, {place: answered[place] for place in compared})
            found.update({f"{what}.{step}.{place}": values for place, values in unlike.items()})
    unlike = different(dict(leaves(local["outputs"])), dict(leaves(sagelet["outputs"])))
    return {**found, **{f"outputs.{place}": values for place, values in unlike.items()}}


@pytest.mark.parametrize("name", NAMES)
def test_local_mode_and_sagelet_agree(name: str, ran: dict[str, Any]) -> None:
    found = differences(ran[name]["local"], ran[name]["sagelet"])
    assert found == KNOWN.get(name, {}).get("differences", {}), json.dumps(found, indent=1)


@pytest.mark.parametrize("name", NAMES)
def test_no_step_begins_before_the_steps_that_it_needs(name: str, ran: dict[str, Any]) -> None:
    """The SDK's own graph of the pipeline says which those are."""
    for side in ran[name].values():
        steps = {one["name"]: one for one in side.get("steps", [])}
        for before, after in ran[name]["local"].get("edges", []):
            if after in steps:
                assert steps[before]["end"] <= steps[after]["start"], (before, after)


def test_independent_steps_begin_at_once(ran: dict[str, Any]) -> None:
    """Local mode runs one step after the other."""
    steps = {one["name"]: one for one in ran["a-diamond"]["sagelet"]["steps"]}
    assert steps["Left"]["start"] == steps["Right"]["start"]
    assert steps["Left"]["end"] - steps["Left"]["start"] == pipeline_programs.SECONDS


def test_the_cases_are_those_that_ran(ran: dict[str, Any]) -> None:
    assert [*ran] == NAMES
    assert len(NAMES) >= 30
    assert KNOWN.keys() <= set(NAMES)
