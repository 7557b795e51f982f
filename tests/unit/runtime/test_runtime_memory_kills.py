"""Whether the cgroup says that the kernel killed a process for memory."""

from pathlib import Path

import pytest

from sagelet_runtime.base import memory_kills
from support.training_host import TrainingHost


@pytest.mark.parametrize(
    ("cgroup", "file"),
    [
        ("0::/job", "job/memory.events"),
        ("0::/job", "memory.events"),
        ("4:memory:/job\n0::/", "memory/job/memory.oom_control"),
        ("4:memory:/docker/of/the/host", "memory/memory.oom_control"),
    ],
    ids=["v2", "v2 in a container", "v1", "v1 in a container"],
)
def test_the_count_of_the_cgroup(tmp_path: Path, cgroup: str, file: str) -> None:
    (tmp_path / "cgroup").write_text(cgroup)
    counts = tmp_path / "mount" / file
    counts.parent.mkdir(parents=True)
    counts.write_text("low 0\noom 3\noom_kill 2\noom_group_kill 0\n")
    assert memory_kills.count(tmp_path / "cgroup", tmp_path / "mount") == 2
    counts.write_text("nonsense")
    assert memory_kills.count(tmp_path / "cgroup", tmp_path / "mount") == 0
    assert memory_kills.count(tmp_path / "missing", tmp_path / "mount") == 0


@pytest.mark.parametrize("script", ["os.kill(os.getpid(), 9)", "sys.exit(137)"], ids=["by a signal", "by a shell"])
def test_a_script_that_kills_itself_did_not_run_out_of_memory(host: TrainingHost, script: str) -> None:
    host.script(f"import os, sys\n{script}\n")
    ended = host.run()
    assert ended.failure is not None
    assert "OutOfMemory" not in ended.failure
    assert "ExitCode " in ended.failure


def test_the_kernel_s_kill_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from sagemaker_training import errors

    counts = iter([4, 5])
    monkeypatch.setattr(memory_kills, "count", lambda: next(counts))
    monkeypatch.setattr(errors._CalledProcessError, "__init__", errors._CalledProcessError.__init__)
    memory_kills.install()
    error = errors.ExecuteUserScriptError(cmd="train.py", return_code=-9, output="")
    assert 'ExtraInfo "OutOfMemory: Process killed by SIGKILL (signal 9)"' in str(error)
