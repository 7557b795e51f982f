"""`make demo`, as the README promises it."""

import re
import subprocess
import sys

import pytest

from support.clients import ROOT


@pytest.mark.sdk
@pytest.mark.docker
def test_the_demo_compares_a_native_and_a_compiled_job() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "gpt2" / "demo.py"], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("status            Completed") == 2
    assert re.search(r"compiled / native: [0-9.]+ x the throughput", done.stdout)
    difference = re.search(r"losses differ by (\S+)", done.stdout)
    assert difference is not None
    assert float(difference[1]) < 1e-4
    assert len(re.findall(r"model +s3://sagelet-demo/gpt2-\S+/output/model.tar.gz", done.stdout)) == 2
    assert "sagelet stopped; no job was running" in done.stdout
