"""Cold and warm: jobs of a real server on the process runtime share what they compiled. GPU and plugin stand in."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.cache_jobs import CacheJobs, build_plugin, install_gpu
from support.jobs import Jobs
from support.server import SageletProcess

pytestmark = pytest.mark.xla


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SageletProcess]:
    monkeypatch.setenv("PATH", install_gpu(tmp_path / "bin") + os.pathsep + os.environ["PATH"])
    process = SageletProcess(tmp_path / "data", "--runtime", "process", "--gpus", "require").start()
    yield process
    process.stop()


def cache_command(server: SageletProcess, *arguments: str) -> Any:
    """`sagelet cache ... --json`, while the server runs."""
    command = [str(Path(sys.executable).with_name("sagelet")), "cache", *arguments, "--data", str(server.data)]
    told = subprocess.run([*command, "--json"], check=True, timeout=60, stdout=subprocess.PIPE)
    return json.loads(told.stdout)


def cache_of(job: dict[str, Any]) -> dict[str, Any]:
    """What the job's report says of its cache."""
    assert job["status"] == "Completed"
    cache: dict[str, Any] = job["report"]["total"]["cache"]
    return cache


def test_the_second_job_hits_what_the_first_one_compiled(server: SageletProcess, tmp_path: Path) -> None:
    build_plugin(tmp_path / "plugin.so")
    jobs = Jobs(server)
    cached = CacheJobs(jobs, tmp_path / "plugin.so")
    failed = cached.run(["step", "eval"], fail=True)
    assert failed["status"] == "Failed"
    assert cache_command(server, "ls") == [], "a job that failed leaves nothing"

    cold = cached.run(["step", "eval"])
    assert cold["made"] == [["compiled", "step"], ["compiled", "eval"]]
    assert cache_of(cold) == {"enabled": True, "reason": "", "hits": 0, "misses": 2}
    assert cache_command(server, "size")["entries"] == 2

    server.kill()
    server.start()
    warm = cached.run(["step", "eval", "new"])
    assert warm["made"] == [["loaded", "step"], ["loaded", "eval"], ["compiled", "new"]]
    assert (warm["compilations"], cache_of(warm)) == (1, {"enabled": True, "reason": "", "hits": 2, "misses": 1})
    report = json.loads(jobs.artifact(warm["name"], "output")["compiler-report.json"])
    assert report["total"]["cache"]["hits"] == 2

    # An entry is its head of 40 bytes and, of the stand-in, the program.
    assert cache_command(server, "clear") == {"entries": 3, "bytes": 3 * (40 + 1024)}
    assert cache_of(cached.run(["step"]))["hits"] == 0
