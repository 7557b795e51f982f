"""sagelet's lowerings compute on XLA what torch computes on the CPU, in a form that XLA compiles well for CPUs."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sagelet_engine.images.context import find_root
from support import forked_python
from support.training_host import TrainingHost
from support.xla_workers import UNOPTIMIZED

pytestmark = pytest.mark.xla

PROGRAMS = Path(__file__).parent / "programs"
#: HLO's operation for the gradient of a maximum. XLA's CPU compiler makes a scalar loop of it.
SCALAR_LOOP = "select-and-scatter"


def run(program: str, python: str = sys.executable, **variables: str) -> Any:
    environ = {**os.environ, "PJRT_DEVICE": "CPU", "PYTHONPATH": str(find_root() / "runtime"), **variables}
    command = [python, PROGRAMS / program]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def pooled() -> Any:
    return run("pooling.py", forked_python.python())


def numbers(value: Any) -> list[float]:
    return [number for one in value for number in one]


def test_pooling_is_torchs_bit_for_bit(pooled: Any) -> None:
    # XLA fuses the script's own products and sums there, and so rounds them otherwise.
    twice = pooled["cases"]["pool, double backward"]
    assert numbers(twice["xla"]) == pytest.approx(numbers(twice["cpu"]), rel=1e-5, abs=1e-6)
    # By their texts, since NaN is not equal to NaN, and zero is equal to negative zero.
    different = {name for name, one in pooled["cases"].items() if repr(one["cpu"]) != repr(one["xla"])}
    assert different <= {"pool, double backward"}


def test_only_windows_that_do_not_overlap_are_pooled_by_sagelet(pooled: Any) -> None:
    counts = {name: one["lowered"] for name, one in pooled["cases"].items()}
    # A checkpoint pools again in the backward pass.
    expected = {name: 0 if name.startswith("own") else 2 if "checkpoint" in name else 1 for name in counts}
    assert counts.pop("pool, torch.compile") >= expected.pop("pool, torch.compile")
    assert counts == expected


def test_the_gradient_of_a_maximum_is_no_scalar_loop(pooled: Any) -> None:
    assert SCALAR_LOOP in pooled["hlo"]["own"]
    assert SCALAR_LOOP not in pooled["hlo"]["lowered"]


@pytest.fixture(scope="module")
def recurrent() -> Any:
    return run("recurrent.py", **UNOPTIMIZED)


def test_recurrent_layers_compute_what_torch_computes(recurrent: Any) -> None:
    for name, case in recurrent["cases"].items():
        if name.endswith(("autocast", "bfloat16")):
            continue
        tolerance = {"rel": 1e-9, "abs": 1e-9} if name.endswith("float64") else {"rel": 1e-5, "abs": 1e-6}
        assert numbers(case["xla"]) == pytest.approx(numbers(case["cpu"]), **tolerance), name


def test_recurrent_layers_of_other_kinds_are_torchs(recurrent: Any) -> None:
    counts = {name: one["lowered"] for name, one in recurrent["cases"].items()}
    twice = ("checkpoint", "twice")
    assert counts == {name: 0 if name.startswith("own") else 2 if name.endswith(twice) else 1 for name in counts}


def test_a_step_of_a_sequence_has_one_matmul_in_each_direction(recurrent: Any) -> None:
    """The other four: all inputs of a layer, and the gradients of its input and weights. The first state has none."""
    for name in ("LSTM", "GRU"):
        for steps in (4, 8):
            lowered, own = (recurrent["hlo"][f"{which} {name}, {steps} steps"] for which in ("lowered", "own"))
            assert lowered.count(" dot(") == steps + (steps - 1) + 4
            assert own.count(" dot(") == 2 * steps + 2 * (2 * steps) - 1
            # So compiling a long sequence does not take longer than before.
            assert lowered.count("\n") < own.count("\n")


SCRIPT = """
    import torch
    from torch.nn.functional import max_pool2d
    import torch_xla
    import torch_xla.core.xla_model as xm

    x = torch.ones(1, 1, 4, 4, device=xm.xla_device(), requires_grad=True)
    max_pool2d(x, 2).sum().backward()
    torch.manual_seed(0)
    module = torch.nn.LSTM(2, 3).to(x.device)
    module(torch.ones(4, 2, 2, device=x.device))[0].sum().backward()
    program = torch_xla._XLAC._get_xla_tensors_hlo([x.grad, *(one.grad for one in module.parameters())])
    print("operations=" + str([program.count("select-and-scatter"), program.count(" dot(")]))
    print("gradient=" + str(x.grad.flatten().tolist()))
    """
#: The first of equal values gets the gradient.
GRADIENT = [1.0, 0.0] * 2 + [0.0] * 4 + [1.0, 0.0] * 2 + [0.0] * 4


@pytest.mark.parametrize(
    ("environment", "operations"), [({}, [0, 10]), ({"SAGELET_XLA_LOWERINGS": "0"}, [3, 19])], ids=["on", "off"]
)
def test_a_job_has_the_lowerings_unless_it_refuses(
    tmp_path: Path, environment: dict[str, str], operations: list[int]
) -> None:
    host = TrainingHost(tmp_path, environment, forked=bool(environment))
    host.script(SCRIPT)
    ended = host.run({"sagemaker_training_compiler_enabled": "true"})
    assert ended.code == 0, ended.log
    assert f"operations={operations}\n" in ended.log
    assert f"gradient={GRADIENT}\n" in ended.log
