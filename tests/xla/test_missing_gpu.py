"""A script for GPUs where CPUs stand in for them: float16, and what asks for CUDA. Compiled and native."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.training_host import Ended, TrainingHost
from support.xla_workers import TINY

pytestmark = pytest.mark.xla

PROGRAM = Path(__file__).with_name("programs") / "half.py"
GPUS = {"SAGELET_INSTANCE_GPUS": '{"ml.p3.2xlarge": 1}', "CUDA_VISIBLE_DEVICES": ""}
COMPILED = {"sagemaker_training_compiler_enabled": "true"}
COMPUTES = {"native": "torch.float32", "compiled": "torch.bfloat16"}
LINES = {
    "native": "sagelet: float16 is computed in float32: this host's CPUs stand in for ml.p3.2xlarge",
    "compiled": "sagelet: autocast to float16 computes in bfloat16 on XLA's CPU device, where float16 is slow; "
    "nothing is scaled",
}
REMEDIES = {"native": "torch.cuda.is_available()", "compiled": "xm.xla_device()"}


@pytest.fixture(scope="module", params=["native", "compiled"])
def how(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture(scope="module")
def ended(how: str, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    host = TrainingHost(tmp_path_factory.mktemp(how), GPUS | TINY, forked=True)
    host.script(PROGRAM.read_text())
    return host.run(COMPILED if how == "compiled" else {})


def shown(ended: Ended, name: str) -> Any:
    (found,) = re.findall(rf"^{name}=(.+)$", ended.log, re.MULTILINE)
    return json.loads(found)


@pytest.mark.parametrize("way", ["trained", "evaluated", "accelerated", "torch's autocast"])
def test_float16_is_computed_in_what_this_host_can(ended: Ended, how: str, way: str) -> None:
    assert shown(ended, f"{way} in") == [COMPUTES[how]]


def test_one_line_says_so(ended: Ended, how: str) -> None:
    said = [line for line in ended.log.splitlines() if line.startswith("sagelet:") and "float16" in line]
    assert LINES[how] in said
    rest = [line for line in said if line != LINES[how]]
    assert len(said) - len(rest) == 1
    # Whole evaluations in half are something else: there is no autocast in them.
    assert [line.partition(" computes")[0] for line in rest] == (
        ["sagelet: fp16_full_eval"] if how == "compiled" else []
    )


def test_the_script_trains_and_its_own_line_is_as_on_aws(ended: Ended) -> None:
    assert len(shown(ended, "losses")) == 3
    assert "distributed training: False, 16-bits training: True" in ended.log
    assert "Process rank: -1" in ended.log


@pytest.mark.parametrize("way", ["to", "cuda", "device", "set_device", "name"])
def test_a_missing_gpu_is_named_with_its_remedy(ended: Ended, how: str, way: str) -> None:
    message = shown(ended, f"cuda by {way}")
    assert message.startswith("This host has no GPU: its CPUs stand in for ml.p3.2xlarge")
    assert REMEDIES[how] in message
    assert shown(ended, "is there") is False


def test_a_job_that_fails_of_it_says_so_and_names_no_driver(ended: Ended, how: str) -> None:
    assert ended.code == 1
    assert REMEDIES[how] in (ended.failure or "")
    assert "driver" not in ended.log
