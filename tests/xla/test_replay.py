"""Steps of optimizers and clipping that are replayed train as those that are traced at each step."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.images.context import find_root
from support.flat import numbers
from support.xla_workers import UNOPTIMIZED

pytestmark = pytest.mark.xla

PROGRAMS = Path(__file__).parent / "programs"
#: XLA rounds in other places where a program ends in another place: a norm of gradients, two updates of a parameter.
ROUNDED = {
    "a norm that must be finite",
    "a schedule",
    "accumulation",
    "adamw, all",
    "aliases and copies",
    "another norm",
    "changed in part",
    "clipping",
    "clipping, torch.float64",
    "evaluation",
    "resumed",
    "the largest value",
    "views",
    "watched",
}
#: Traced as before, and why.
TRACED = {
    "capturable": {"Adam: capturable": 5},
    "foreach": {"Adam: foreach": 5},
    "a rate that is a tensor": {"Adam: lr is no number of Python": 3},
    "rmsprop": {"RMSprop: sagelet has no program for this optimizer": 5},
    "sgd, momentum": {"SGD: the first step, which makes the momentum": 1},
    "sgd, nesterov": {"SGD: the first step, which makes the momentum": 1},
    "sgd, dampening": {"SGD: the first step, which makes the momentum": 1},
    "hooks": {"SGD: the first step, which makes the momentum": 1},
    "clipping, torch.bfloat16": {
        "Adam: tensors of torch.bfloat16": 5,
        "clip_grad_norm_: tensors of torch.bfloat16": 5,
    },
    "the largest value": {"clip_grad_norm_: the largest value as norm, for which torch_xla reads each gradient's": 3},
    "a norm that must be finite": {"clip_grad_norm_: error_if_nonfinite, which reads the norm": 3},
}
#: Calls that were replayed (steps, clips) and their programs.
REPLAYED = {
    "adamw": (5, 0, 1),
    "clipping": (5, 5, 2),
    # Two groups have a step each, and an added one has from then on.
    "groups": (10, 0, 2),
    "an added group": (9, 0, 2),
    "frozen": (6, 0, 2),
    # Two parameters fewer in the first steps, and then at another count.
    "a late parameter": (5, 0, 2),
    # Learning rate and beta1 change at each step.
    "a schedule": (6, 6, 2),
    "accumulation": (4, 4, 2),
    "sgd, momentum": (4, 0, 1),
    "another norm": (3, 3, 2),
    "torch's clipping": (3, 3, 2),
    "capturable": (0, 0, 0),
}

Outcomes = dict[str, tuple[Any, dict[str, Any]]]


@dataclass(frozen=True)
class Trained:
    """The outcomes of the cases: all traced at each step, steps replayed, and models traced once, too.

    `tiered`: models from their third call on.
    """

    traced: Outcomes
    replayed: Outcomes
    once: Outcomes
    tiered: Outcomes
    #: What could not be traced once.
    faults: dict[str, int]


def run(program: str, **variables: str) -> Any:
    environ = {**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": str(find_root() / "runtime"), **UNOPTIMIZED}
    command = [sys.executable, PROGRAMS / program]
    done = subprocess.run(command, env=environ | variables, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def outcomes() -> Trained:
    return Trained(*run("replay.py"))


def assert_equal(name: str, after: Any, before: Any, *, rel: float = 1e-5, abs: float = 1e-6) -> None:
    assert not isinstance(after, str), f"{name}: {after}"
    assert list(numbers(after)) == pytest.approx(list(numbers(before)), rel=rel, abs=abs), name


def test_each_number_that_a_script_sees_is_the_same(outcomes: Trained) -> None:
    assert outcomes.traced.keys() == outcomes.replayed.keys()
    for name, (before, _) in outcomes.traced.items():
        assert not isinstance(before, str), f"{name}: {before}"
        if name in ROUNDED:
            assert_equal(name, outcomes.replayed[name][0], before)
        else:
            assert outcomes.replayed[name][0] == before, name


@pytest.mark.parametrize("way", ["once", "tiered"])
def test_each_number_is_the_same_if_models_are_traced_once(outcomes: Trained, way: str) -> None:
    found: Outcomes = getattr(outcomes, way)
    assert len(found) == 16
    for name, (after, _) in found.items():
        # Within one program XLA rounds to 8 bits less often.
        tolerance = {"rel": 2e-2, "abs": 2e-2} if name.endswith("bfloat16") else {}
        assert_equal(name, after, outcomes.traced[name][0], **tolerance)
    assert outcomes.faults == {}


def test_what_was_replayed_and_what_was_not(outcomes: Trained) -> None:
    assert all(counts["programs"] == 0 for _, counts in outcomes.traced.values() if counts)
    for name, (_, counts) in outcomes.replayed.items():
        assert counts["traced"] == TRACED.get(name, {}), name
    found = {name: outcomes.replayed[name][1] for name in REPLAYED}
    assert {name: (one["steps"], one["clips"], one["programs"]) for name, one in found.items()} == REPLAYED


@pytest.fixture(scope="module")
def ended() -> dict[str, dict[str, Any]]:
    cases: dict[str, dict[str, Any]] = run("replay_ended.py", XLA_COMPILATION_CACHE_SIZE="4")
    return cases


#: The case, the calls that were replayed before (steps and clips), and what the report says of the others.
UNUSABLE = {
    "dropped": (3, 3, "torch_xla dropped the program from its cache"),
    "no placeholders": (0, 0, "this torch_xla lacks torch_xla.core.xla_builder.create_placeholder_tensor"),
    "other arguments": (0, 0, "torch_xla's functions are not those that sagelet knows: TypeError: "),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_training_goes_on_without_replay_if_torch_xla_cannot(ended: dict[str, dict[str, Any]], name: str) -> None:
    steps, clips, reason = UNUSABLE[name]
    case, figures = ended[name], ended[name]["figures"]
    assert case["error"] == ""
    assert case["numbers"] == pytest.approx(ended["lazy"]["numbers"], rel=1e-5, abs=1e-6)
    assert (figures.get("steps"), figures.get("clips")) == (steps, clips)
    traced = {text.partition(": ")[0]: count for text, count in figures["traced"].items()}
    assert traced == {"Adam": 6 - steps, "clip_grad_norm_": 6 - clips}
    assert all(reason in text for text in figures["traced"])


def test_an_error_of_the_scripts_work_is_raised_and_nothing_is_written(ended: dict[str, dict[str, Any]]) -> None:
    case = ended["failed work"]
    assert case["error"] == "RuntimeError: the script's own computation failed"
    assert case["figures"].get("traced", {}) == {}
    assert case["numbers"] == ended["untrained"]["numbers"]
