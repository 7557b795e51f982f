"""Nodes that share no file system with the server: each has an empty directory in the data directory's place."""

import json
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_engine.base.errors import ClientFault, RuntimeUnavailable
from sagelet_engine.model.batch_keys import staging_bucket
from sagelet_engine.model.cluster import AllocationRequest, ClusterContext
from sagelet_engine.model.principal import owner
from sagelet_engine.model.runtime import Handle, HostPlan, LaunchPlan
from sagelet_engine.runtimes.node import host_files
from sagelet_engine.runtimes.slurm import files as slurm_files
from sagelet_engine.runtimes.slurm.file_sync.server import FileSyncServer
from sagelet_engine.runtimes.slurm.file_sync.staging import Staging
from sagelet_engine.runtimes.slurm.runtime import SlurmRuntime
from support.api_world import ACCOUNT, REGION, ApiWorld
from support.slurm_cluster import SlurmCluster
from support.slurm_jobs import slurm_runtime
from support.world import until

pytestmark = pytest.mark.slurm

#: Says which host it is and who else there is, waits for the word to end, and leaves a model.
SCRIPT = """
import os, pathlib, signal, socket, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
ml = pathlib.Path("/opt/ml")
print(socket.gethostname(), (ml / "input/data/train/a.txt").read_text(), flush=True)
print(sorted({line.split()[1] for line in open("/etc/hosts") if "algo" in line}), flush=True)
(ml / "checkpoints").mkdir(exist_ok=True)
(ml / "checkpoints" / socket.gethostname()).write_text("step 1")
if sys.argv[1] == "wait":
    signal.sigwait({signal.SIGTERM})
    print("asked to end", flush=True)
(ml / "model" / socket.gethostname()).write_bytes(b"w" * 100_000)
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def cluster(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Two nodes with private directories in the place of `data`."""
    cluster = SlurmCluster(tmp_path_factory.mktemp("cluster"), private=data)
    try:
        yield cluster.start()
    finally:
        cluster.stop()


class Remote:
    """A server's runtime over such a cluster, and its S3 behind its own front."""

    def __init__(self, world: ApiWorld, cluster: SlurmCluster, data: Path) -> None:
        self.world, self.data = world, data
        self.job = world.waiting_job(uuid.uuid4().hex)
        file_sync = FileSyncServer(data, data / "file_sync", world.sagelet.s3.objects)
        context = ClusterContext(world.sagelet.s3.objects, world.engine.keys, lambda: f"http://127.0.0.1:{world.port}")
        self.staging = Staging(data, file_sync, context, sys.executable)
        self.runtime: SlurmRuntime = slurm_runtime(
            cluster, data / "runtime", self.job.id, (sys.executable, "-c", SCRIPT)
        )
        self.runtime.cluster.staging = self.staging
        self.roots = {name: data / "jobs" / self.job.id / name for name in ("algo-1", "algo-2")}

    def plan(self, *arguments: str) -> LaunchPlan:
        hosts = tuple(self._host(name, root) for name, root in self.roots.items())
        return LaunchPlan(self.job.launch_id, self.job.key.name, "", hosts, arguments=("train", *arguments))

    def _host(self, name: str, root: Path) -> HostPlan:
        for part in ("input/data/train", "model", "output"):
            (root / "opt-ml" / part).mkdir(parents=True, exist_ok=True)
        (root / "opt-ml/input/data/train/a.txt").write_text(f"for {name}")
        return HostPlan(name, root / "opt-ml", root / "run")

    def launch(self, plan: LaunchPlan) -> list[Handle]:
        order = AllocationRequest(plan.job_id, plan.job_name, ("", ""), account=ACCOUNT, region=REGION)
        self.runtime.cluster.submit(order)
        handles: list[Handle] = []

        def launched() -> bool:
            self.staging.look()
            try:
                handles[:] = self.runtime.launch(plan)
            except RuntimeUnavailable:
                return False
            return True

        until(launched)
        return handles

    def wait(self, condition: object) -> None:
        until(lambda: (self.staging.look(), condition())[1])  # type: ignore[operator]

    def ended(self, handles: list[Handle]) -> list[int | None]:
        def over() -> bool:
            return not any(self.runtime.observe(handle).running for handle in handles)

        self.wait(over)
        return [self.runtime.observe(handle).exit_code for handle in handles]

    def output(self, name: str) -> list[str]:
        return (self.roots[name] / "run" / host_files.OUTPUT).read_text().splitlines()


@pytest.fixture
def remote(data: Path, cluster: SlurmCluster, tmp_path: Path, bridge: MotoBridge) -> Iterator[Remote]:
    with ApiWorld(tmp_path / "server", bridge, auth=True) as world:
        running = Remote(world, cluster, data)
        yield running
        running.runtime.reap(running.job.launch_id)
        cluster.clear()


@pytest.fixture
def bridge() -> MotoBridge:
    return MotoBridge()


def test_a_job_of_two_nodes_gets_its_data_and_gives_its_results_through_s3(remote: Remote) -> None:
    handles = remote.launch(remote.plan("go", "0"))
    assert remote.ended(handles) == [0, 0]
    for name, root in remote.roots.items():
        assert remote.output(name) == [f"{name} for {name}", "['algo-1', 'algo-2']"]
        assert (root / "opt-ml/model" / name).read_bytes() == b"w" * 100_000
        assert (root / "opt-ml/checkpoints" / name).read_text() == "step 1"
    remote.runtime.reap(remote.job.launch_id)
    remote.wait(lambda: not list(remote.world.sagelet.s3.objects.list(owner(ACCOUNT), staging_bucket(ACCOUNT), "")))


def test_a_stop_reaches_the_nodes_and_what_they_wrote_by_then_is_there(remote: Remote) -> None:
    # One that failed would have Slurm end the other, which may hear that first.
    handles = remote.launch(remote.plan("wait", "0"))
    remote.wait(lambda: all((root / "opt-ml/checkpoints" / name).exists() for name, root in remote.roots.items()))
    for handle in handles:
        remote.runtime.stop(handle)
    assert remote.ended(handles) == [0, 0]
    assert remote.output("algo-2")[-1] == "asked to end"
    assert (remote.roots["algo-2"] / "opt-ml/model/algo-2").stat().st_size == 100_000
    ends = [json.loads((root / "run" / host_files.EXIT).read_text()) for root in remote.roots.values()]
    assert [end[host_files.HEARD] for end in ends] == [slurm_files.TERMINATE] * 2


def test_an_exit_code_crosses_the_network(remote: Remote) -> None:
    handles = remote.launch(remote.plan("go", "3"))
    # Slurm ends the others of a host that failed.
    assert 3 in remote.ended(handles)


def test_what_needs_a_shared_directory_is_refused(remote: Remote) -> None:
    plan = remote.plan("go", "0")
    os.mkfifo(remote.roots["algo-1"] / "opt-ml/input/data/pipe_0")
    with pytest.raises(ClientFault, match="Pipe mode"):
        remote.runtime.launch(plan)
