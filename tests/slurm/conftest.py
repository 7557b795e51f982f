from collections.abc import Iterator
from pathlib import Path

import pytest

from support.server import SageletProcess
from support.slurm_cluster import SlurmCluster
from support.slurm_server import SlurmJobs

RULES = """
[[rule]]
tags = { partition = "urgent" }
partition = "urgent"

[[rule]]
tags = { partition = "tiny" }
partition = "tiny"

[[rule]]
tags = { partition = "gone" }
partition = "gone"

[[rule]]
tags = { team = "banned" }
refuse = "this team has no hours left"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, slurm_cluster: SlurmCluster) -> Iterator[SageletProcess]:
    directory = tmp_path_factory.mktemp("server")
    rules = directory / "rules.toml"
    rules.write_text(RULES)
    options = ("--runtime", "slurm", "--slurm-rules", str(rules), "--stop-grace", "20")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in slurm_cluster.environment.items():
            patch.setenv(name, value)
        server = SageletProcess(directory / "data", *options).start()
        yield server
        server.stop()


@pytest.fixture
def jobs(server: SageletProcess, slurm_cluster: SlurmCluster) -> Iterator[SlurmJobs]:
    """Jobs of a Slurm server. After the test it removes every job, and the cluster is idle."""
    jobs = SlurmJobs(server)
    yield jobs
    jobs.stop_all()
    slurm_cluster.clear()
    slurm_cluster.heal()


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """The file that jobs wait for. They can see this machine's files."""
    return tmp_path / "go"
