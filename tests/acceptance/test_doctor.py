"""What a user reads of the doctor, of a job that really trained."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.doctor_scripts import EXAMPLES
from support.jobs import Jobs
from support.server import ACCOUNT, COMPILED

SCRIPT = (EXAMPLES / "explicit_evaluation_wrong.py").read_text()


@pytest.mark.parametrize("server", [pytest.param("process", marks=pytest.mark.xla)], indirect=True)
def test_a_finding_in_the_log_the_report_and_the_command(jobs: Jobs) -> None:
    name = jobs.submit(SCRIPT, image=COMPILED, hyperparameters={"sagemaker_training_compiler_enabled": "true"})
    assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
    line = next(number for number, text in enumerate(SCRIPT.splitlines(), 1) if ".item()  # <-" in text)
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
