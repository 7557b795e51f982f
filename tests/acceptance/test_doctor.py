"""What a user reads of the doctor, of a job that really trained."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.doctor_scripts import COMPILED as ENABLED
from support.doctor_scripts import EXAMPLES, RUNS, SEVERAL, Run
from support.jobs import Jobs
from support.server import ACCOUNT, COMPILED, SageletProcess

SCRIPT = (EXAMPLES / "explicit_evaluation_wrong.py").read_text()
#: `SAGELET_TEST_DOCTOR=all`: all scripts but the one that would have to stall for ten minutes.
ALL = os.environ.get("SAGELET_TEST_DOCTOR") == "all"
#: One that fails, and one of two hosts.
FEW = ("device_mixing_wrong", "gradients_wrong")
IN_DOCKER = [one for one in RUNS if one.name in FEW or (ALL and not one.stalls_at)]
#: These depend on the speed of this machine, on a checkpoint that cannot be loaded, or on a script that saves nothing.
BESIDE = {"short-training", "slower-than-native", "input-bound", "torch-save", "nothing-saved"}
BETWEEN_HOSTS = {"single-gpu-instances", "no-efa"}


def marked(script: str) -> int | None:
    """Returns the line that the finding must name, or None if it names no line."""
    return next((number for number, text in enumerate(script.splitlines(), 1) if "# <- " in text), None)


@pytest.mark.parametrize("server", [pytest.param("process", marks=pytest.mark.xla)], indirect=True)
def test_a_finding_in_the_log_the_report_and_the_command(jobs: Jobs) -> None:
    name = jobs.submit(SCRIPT, image=COMPILED, hyperparameters=ENABLED)
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    line = marked(SCRIPT)
    head = f"warning explicit-evaluation train.py:{line}"
    log = jobs.log(name)
    (shown,) = [text for text in log if head in text]
    assert shown == f"sagelet doctor: {head}: .item() read a tensor of the device 600 times in 600 steps " + (
        "(`total += loss.item()`)"
    )
    assert log[-1].startswith("sagelet doctor: ")
    report = json.loads(jobs.artifact(name, "output")["compiler-report.json"])
    (finding,) = [one for one in report["findings"] if one["rule"] == "explicit-evaluation"]
    assert (finding["file"], finding["line"], finding["count"]) == ("train.py", line, 600)
    command = [Path(sys.executable).with_name("sagelet"), "doctor", name, "--endpoint", jobs.server.endpoint]
    told = subprocess.run([*command, "--account", ACCOUNT], capture_output=True, text=True, check=True, timeout=60)
    assert told.stdout.startswith(f"{name} (Completed): ")
    assert head in told.stdout


@pytest.fixture(scope="module")
def submitted(servers: Callable[[str], SageletProcess]) -> dict[str, str]:
    """The scripts as jobs in Docker, by run; all at once, so that the machine is never idle."""
    jobs = Jobs(servers("docker"))
    names: dict[str, str] = {}
    for one in IN_DOCKER:
        flags = {**(ENABLED if one.compiled else {}), **(SEVERAL if one.workers > 1 else {})}
        names[one.name] = jobs.submit(
            (EXAMPLES / one.file).read_text(), image=COMPILED, hosts=one.workers,
            hyperparameters={**one.hyperparameters, **flags},
        )  # fmt: skip
        if not one.compiled:  # Others are compared with it, once it has ended.
            jobs.ended(names[one.name])
    return names


@pytest.mark.docker
@pytest.mark.parametrize("one", IN_DOCKER, ids=lambda one: one.name)
def test_what_the_doctor_says_of_a_script_in_docker(
    one: Run, servers: Callable[[str], SageletProcess], submitted: dict[str, str]
) -> None:
    jobs = Jobs(servers("docker"))
    name = submitted[one.name]
    job = jobs.ended(name, 600)
    assert job["TrainingJobStatus"] == ("Failed" if one.fails else "Completed"), job.get("FailureReason")
    found = {finding["rule"]: finding for finding in doctor(jobs.server, name)}
    finding = found.pop(one.rule) if one.rule else {}
    assert found.keys() <= BESIDE | (BETWEEN_HOSTS if one.workers > 1 else set())
    if not finding:
        return
    assert finding.get("line") == marked((EXAMPLES / one.file).read_text())
    first = jobs.log(name, "algo-1")
    assert [line for line in first if line.startswith(f"sagelet doctor: {finding['severity']} {one.rule}")]


def doctor(server: SageletProcess, name: str) -> list[dict[str, Any]]:
    """`sagelet doctor NAME --json`."""
    command = [str(Path(sys.executable).with_name("sagelet")), "doctor", name, "--json", "--endpoint", server.endpoint]
    told = subprocess.run([*command, "--account", ACCOUNT], capture_output=True, text=True, check=True, timeout=60)
    found: list[dict[str, Any]] = json.loads(told.stdout)["findings"]
    return found
