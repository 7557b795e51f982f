"""`sagelet demo`, with nothing but what is installed: a server, three trainings, their comparison."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.xla
def test_the_demo_trains_natively_and_by_both_compilers_and_compares(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SAGELET_"))}
    own = {"SAGELET_DATA": str(tmp_path / "data"), "SAGELET_RUNTIME": "process", "SAGELET_PORT": "0"}
    done = subprocess.run(
        [Path(sys.executable).with_name("sagelet"), "demo", "--steps", "20", "--json", "--down"],
        env={**kept, **own, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    jobs = [one["name"] for one in json.loads(done.stdout)["jobs"]]
    assert [name.rsplit("-", 2)[0] for name in jobs] == ["demo-native", "demo-compiled", "demo-inductor"]
    assert done.stderr.count(": Completed; trained ") == 3
    assert "sagelet stopped; no job was running" in (tmp_path / "data" / "server.log").read_text()
