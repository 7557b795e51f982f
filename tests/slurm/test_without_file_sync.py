"""A cluster with a shared directory needs nothing of `runtimes/slurm/file_sync`: here its import is blocked."""

import os
from pathlib import Path

import pytest

from support.jobs import Jobs
from support.server import SageletProcess
from support.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.slurm

BLOCKED = "import sys; sys.modules['sagelet_engine.runtimes.slurm.file_sync'] = None\n"


def test_only_nodes_without_the_data_directory_need_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SlurmCluster(tmp_path / "cluster")
    (tmp_path / "blocking").mkdir()
    (tmp_path / "blocking" / "sitecustomize.py").write_text(BLOCKED)
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'blocking'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    try:
        cluster.start()
        server = SageletProcess(tmp_path / "data", "--runtime", "slurm").start()
        try:
            jobs = Jobs(server)
            name = jobs.submit("", entrypoint=["/bin/sh", "-c", "echo here"], instance_type="ml.m5.large")
            assert jobs.ended(name)["TrainingJobStatus"] == "Completed"
            assert "here" in jobs.log(name)
        finally:
            server.stop()
        other = SageletProcess(tmp_path / "other", "--runtime", "slurm", "--slurm-files", "s3")
        assert not other.begin()
        assert "--slurm-files s3: this installation has no file sync" in "".join(other.output)
    finally:
        cluster.stop()
