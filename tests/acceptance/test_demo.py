"""`make demo`, as the README promises it, with half of the steps."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.clients import ROOT


@pytest.mark.sdk
@pytest.mark.docker
def test_the_demo_compares_native_xla_and_inductor() -> None:
    command = [sys.executable, ROOT / "examples" / "gpt2" / "demo.py"]
    environment = {**os.environ, "DEMO_STEPS": "30"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("status            Completed") == 3
    similar = "The decrease in training loss is similar with and without SageMaker Training Compiler"
    words = " ".join(done.stdout.split())
    difference = re.search(rf"{similar}: over \d+ points the curves are (\S+) apart \(root mean square\)", words)
    assert difference is not None
    assert float(difference[1]) < 0.003
    # One run of each gives a verdict only if the difference is far beyond what it can know.
    verdict = r"SageMaker Training Compiler is about \d+% (faster|slower) in terms of total"
    assert re.search(rf"{verdict}|One run of each does not say whether \S+ or \S+ is faster", words)
    # The table of three jobs is wider than 100 columns: its numbers are below the titles.
    assert re.search(r"Throughput without (.*?samples/s){3}", words)
    assert re.search(r"Compiling - [\d.]+", words)
    report = re.search(r"^report: (\S+)$", done.stdout, re.MULTILINE)
    assert report is not None
    assert Path(report[1]).read_text().count("<svg") == 4
    assert len(re.findall(r"model +s3://sagelet-demo/gpt2-\S+/output/model.tar.gz", done.stdout)) == 3
    assert "sagelet stopped; no job was running" in done.stdout
    assert "To compare them" not in done.stdout, "the server has ended"
    stages = [line for line in done.stdout.splitlines() if line.startswith("demo: ")]
    assert [re.search(r"training image|server|trainings|comparison|one run|again", line)[0] for line in stages] == [  # type: ignore[index]
        "training image",
        "server",
        "trainings",
        "comparison",
        "one run",
        "again",
    ]
