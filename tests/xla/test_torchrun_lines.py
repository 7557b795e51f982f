"""What torchrun's workers print comes out in whole lines, all of it, and before torchrun's own report."""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from support.training_host import Ended, TrainingHost

pytestmark = pytest.mark.xla

WORKERS = 4
LINES = 150


@pytest.fixture
def host(tmp_path: Path) -> TrainingHost:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    gpus = json.dumps({"ml.p3.2xlarge": WORKERS})
    return TrainingHost(tmp_path, {"SAGELET_INSTANCE_GPUS": gpus, "PATH": path})


def run(host: TrainingHost, script: str) -> Ended:
    host.script(script)
    return host.run({"sagemaker_torch_distributed_enabled": "true"})


def test_lines_of_several_workers_stay_whole(host: TrainingHost) -> None:
    ended = run(
        host,
        f"""
        import os, subprocess, sys
        rank = os.environ["RANK"]
        for number in range({LINES}):
            # As print writes it without a buffer.
            sys.stdout.write(f"out {{rank}}:")
            sys.stdout.write(f"{{number}}:" + "x" * (number * 50 % 9000))
            sys.stdout.write("\\n")
            sys.stderr.write(f"err {{rank}}:")
            sys.stderr.write(f"{{number}}\\n")
        subprocess.run(["sh", "-c", f"printf 'child {{rank}}:'; printf '0\\n'"])
        sys.stdout.write(f"last {{rank}}:0")
        """,
    )
    assert ended.code == 0, ended.log[-3000:]
    lines = [line for line in ended.log.splitlines() if re.match(r"(out|err|child|last) \d", line)]
    for rank in range(WORKERS):
        out = [line for line in lines if line.startswith(f"out {rank}:")]
        assert out == [f"out {rank}:{number}:{'x' * (number * 50 % 9000)}" for number in range(LINES)]
        assert [line for line in lines if line.startswith(f"err {rank}:")] == [f"err {rank}:{n}" for n in range(LINES)]
        assert f"child {rank}:0" in lines
        assert f"last {rank}:0" in lines
    assert len(lines) == WORKERS * (2 * LINES + 2)
    # Nothing of theirs is within another line.
    assert len(re.findall(r"(?:out|err|child|last) \d:", ended.log)) == len(lines)


def test_a_failed_workers_own_error_comes_before_torchruns_report(host: TrainingHost) -> None:
    ended = run(
        host,
        """
        import os, time
        if os.environ["RANK"] == "2":
            raise ValueError("a bad batch")
        while True:
            time.sleep(0.1)
        """,
    )
    assert ended.code != 0
    assert "worker 2 of 4" in (ended.failure or "")
    assert "ValueError: a bad batch" in (ended.failure or "")
    assert ended.log.index("ValueError: a bad batch") < ended.log.index("ChildFailedError")


def test_what_a_worker_left_behind_does_not_hold_the_job_up(host: TrainingHost) -> None:
    ended = run(
        host,
        """
        import os, subprocess, sys
        if os.environ["RANK"] == "0":
            subprocess.Popen(["sleep", "600"], start_new_session=True)
        print("done", os.environ["RANK"])
        """,
    )
    assert ended.code == 0
    assert sorted(re.findall(r"^done (\d)$", ended.log, re.MULTILINE)) == list("0123")
