"""`sagelet compare --repeat`: both jobs are trained again in turn, and a verdict comes out."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.jobs import Jobs
from support.server import ACCOUNT, SageletProcess

pytestmark = pytest.mark.xla
SCRIPT = """
import argparse, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float)
seconds = parser.parse_args().seconds
for epoch in (1.0, 2.0, 3.0):
    print({'loss': 4.0 - epoch, 'learning_rate': 0.1, 'epoch': epoch})
begun = time.monotonic()
while time.monotonic() < begun + seconds:
    pass
took = time.monotonic() - begun
rate = round(100 / took, 4)
print({'train_runtime': round(took, 4), 'train_samples_per_second': rate, 'train_loss': 2.0, 'epoch': 3.0})
assert not os.listdir("/opt/ml/checkpoints"), "began from another run's checkpoint"
open("/opt/ml/checkpoints/done", "w").write("1")
open(os.environ["SM_MODEL_DIR"] + "/model.pt", "w").write("weights")
"""


@pytest.fixture
def jobs(servers: Callable[[str], SageletProcess]) -> Jobs:
    return Jobs(servers("process"))


def compare(jobs: Jobs, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [Path(sys.executable).with_name("sagelet"), "compare", *arguments, "--endpoint", jobs.server.endpoint]
    return subprocess.run([*command, "--account", ACCOUNT], capture_output=True, text=True, timeout=300)


def test_a_verdict_on_two_jobs(jobs: Jobs) -> None:
    checkpoints: dict[str, Any] = {"CheckpointConfig": {"S3Uri": "s3://tests/checkpoints/"}}
    slow = jobs.submit(SCRIPT, hyperparameters={"seconds": "1.5"}, **checkpoints)
    assert jobs.ended(slow)["TrainingJobStatus"] == "Completed", jobs.describe(slow).get("FailureReason")
    own = {"CheckpointConfig": {"S3Uri": "s3://tests/other-checkpoints/"}}
    quick = jobs.submit(SCRIPT, hyperparameters={"seconds": "0.3"}, **own)
    assert jobs.ended(quick)["TrainingJobStatus"] == "Completed"
    done = compare(jobs, slow, quick, "--repeat", "3", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    verdict = {figure["key"]: figure["verdict"] for figure in answer["verdict"]["figures"]}
    assert verdict["runtime"] == "better"
    assert verdict["script_throughput"] == "better"
    assert answer["verdict"]["losses"]["distance"] == 0
    assert len(answer["verdict"]["load"]) == 6
    names = [job["name"] for pair in answer["pairs"] for job in pair["jobs"]]
    assert len(set(names)) == 6
    # A B, B A, A B
    order = [line.rpartition(" ")[2] for line in done.stderr.splitlines() if line.startswith("pair ")]
    assert [name in names[0::2] for name in order] == [True, False, False, True, True, False]


def test_a_run_that_fails_ends_it_with_its_reason(jobs: Jobs, tmp_path: Path) -> None:
    once = "import os, sys; ran = os.environ['SM_HP_RAN']; os.path.exists(ran) and sys.exit('no data'); open(ran, 'w')"
    pair = [jobs.submit(once, hyperparameters={"ran": str(tmp_path / name)}) for name in "ab"]
    assert [jobs.ended(job)["TrainingJobStatus"] for job in pair] == ["Completed", "Completed"]
    done = compare(jobs, *pair, "--repeat", "3")
    assert done.returncode == 3
    assert "There is no verdict, because pair 1 of 3 did not complete: " in done.stderr
    assert "no data" in done.stderr
    assert "`sagelet doctor " in done.stderr


def test_jobs_that_are_not_comparable_are_not_trained_again(jobs: Jobs) -> None:
    pair = [jobs.submit("import sys; sys.exit('no data')") for _ in "ab"]
    assert [jobs.ended(job)["TrainingJobStatus"] for job in pair] == ["Failed", "Failed"]
    done = compare(jobs, *pair, "--repeat", "3")
    assert (done.returncode, done.stdout) == (1, "")
    assert "pair 1 of 3" not in done.stderr
    assert f"{pair[0]} did not complete: it is Failed" in done.stderr


def test_what_cannot_be_repeated_is_said(jobs: Jobs) -> None:
    assert "--repeat takes two jobs" in compare(jobs, "a", "b", "c", "--repeat", "3").stderr
    assert "2 is not in the range" in compare(jobs, "a", "b", "--repeat", "2").stderr
