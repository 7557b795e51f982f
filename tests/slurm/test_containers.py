"""`sagelet up --runtime slurm --slurm-task docker`: the nodes run the job's image.

Both nodes are this machine, so they share one Docker Engine; their containers are told apart by their labels.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container

from sagelet_engine.runtimes.slurm import docker as slurm_docker
from support import tiny_image
from support.processing import given, result
from support.server import SageletProcess, until
from support.slurm_cluster import SlurmCluster
from support.slurm_processing import SlurmProcessing
from support.slurm_server import SlurmJobs

pytestmark = [pytest.mark.slurm, pytest.mark.docker, pytest.mark.programs("busybox")]

#: A container sees no file of the test's. It goes on when it finds a file of its own.
PATIENT = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.1; done"


#: As an object of the channel: what an entry point may hold is short.
SCRIPT = b"""
algo() { while read address name; do case $name in algo-*) echo $name;; esac; done </etc/hosts; }
echo $(hostname) sees $(algo)
while read name value; do case $name in CapEff:|NoNewPrivs:) echo $name $value;; esac; done </proc/self/status
cat /opt/ml/input/data/train/a.txt
touch /opt/ml/input/data/train/b 2>/dev/null || echo read-only
for i in $(seq 3000); do echo line $i; done
echo $WORDS
hostname >/opt/ml/model/$(hostname)
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, slurm_cluster: SlurmCluster) -> Iterator[SageletProcess]:
    options = ("--runtime", "slurm", "--slurm-task", "docker", "--stop-grace", "20")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in slurm_cluster.environment.items():
            patch.setenv(name, value)
        server = SageletProcess(tmp_path_factory.mktemp("server") / "data", *options).start()
        yield server
        server.stop()


class ContainerJobs(SlurmJobs):
    """Jobs of the tiny image, and what Docker has of them."""

    def __init__(self, server: SageletProcess, engine: docker.DockerClient) -> None:
        super().__init__(server)
        self._engine = engine
        self.image = tiny_image.ensure(engine)

    def start(self, script: str, hosts: int = 1, **options: object) -> str:
        return self.run(script, hosts=hosts, image=self.image, **options)

    def containers(self, name: str) -> list[Container]:
        found: list[Container] = self._engine.containers.list(
            all=True, ignore_removed=True, filters={"label": f"{slurm_docker.JOB_NAME}={name}"}
        )
        return found

    def gone(self, name: str) -> None:
        """Returns when no container of the job's is left."""
        until(lambda: not self.containers(name))


@pytest.fixture
def jobs(server: SageletProcess, slurm_cluster: SlurmCluster, engine: docker.DockerClient) -> Iterator[ContainerJobs]:
    jobs = ContainerJobs(server, engine)
    yield jobs
    jobs.stop_all()
    slurm_cluster.clear()
    slurm_cluster.heal()


def test_a_job_of_two_nodes_runs_its_image_in_hardened_containers(jobs: ContainerJobs) -> None:
    jobs.s3.put_object(Bucket="tests", Key="train/run.sh", Body=SCRIPT)
    jobs.s3.put_object(Bucket="tests", Key="train/a.txt", Body=b"from S3\n")
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://tests/train/"}}
    channel = {"ChannelName": "train", "DataSource": source, "InputMode": "FastFile"}
    name = jobs.start(
        "sh /opt/ml/input/data/train/run.sh",
        hosts=2,
        InputDataConfig=[channel],
        Environment={"WORDS": "two\nlines = one"},
    )
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job.get("FailureReason")
    for number in (1, 2):
        told = [f"algo-{number} sees algo-1 algo-2", "CapEff: 0000000000000000", "NoNewPrivs: 1"]
        numbered = [f"line {count}" for count in range(1, 3001)]
        assert jobs.written(name, f"algo-{number}") == [*told, "from S3", "read-only", *numbered, "two lines = one"]
    assert sorted(jobs.artifact(name)) == ["algo-1", "algo-2"]
    jobs.gone(name)


def test_a_processing_job_runs_its_image(jobs: ContainerJobs, server: SageletProcess) -> None:
    processing = SlurmProcessing(server)
    rows = processing.put("rows", a=b"1\n", b=b"2\n")
    script = (
        "cat /opt/ml/processing/input/rows/* >/opt/ml/processing/output/sum/$(hostname); "
        "echo done >/opt/ml/output/message"
    )
    name = processing.run(
        script,
        hosts=2,
        image=jobs.image,
        ProcessingInputs=[
            given("rows", rows, "/opt/ml/processing/input/rows", S3DataDistributionType="ShardedByS3Key")
        ],
        ProcessingOutputConfig={"Outputs": [result("sum", "s3://tests/sum", "/opt/ml/processing/output/sum")]},
    )
    job = processing.ended(name)
    assert (job["ProcessingJobStatus"], job["ExitMessage"]) == ("Completed", "done\n"), job
    assert processing.objects("sum/") == {"algo-1": b"1\n", "algo-2": b"2\n"}
    jobs.gone(name)


def test_stop_gives_the_script_in_the_container_its_grace(jobs: ContainerJobs) -> None:
    name = jobs.start(PATIENT)
    jobs.training(name)
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    assert jobs.ended(name)["TrainingJobStatus"] == "Stopped"
    assert jobs.lines(name) == ["ready", "saved"]
    jobs.gone(name)


def test_a_host_that_fails_ends_the_container_of_the_other_node(jobs: ContainerJobs) -> None:
    """Slurm kills the other shim at once."""
    name = jobs.start(f"[ $(hostname) = algo-2 ] && {{ {STUBBORN}; }}; sleep 3; exit 9", hosts=2)
    job = jobs.ended(name)
    assert job["FailureReason"] == "AlgorithmError: , exit code: 9"
    jobs.gone(name)


def test_a_command_that_does_not_exist(jobs: ContainerJobs) -> None:
    reason = jobs.ended(jobs.start("true", shell=("/no/such",)))["FailureReason"]
    assert "no such file or directory" in reason
    assert reason.endswith("exit code: 127")


def test_an_image_that_the_node_does_not_have_is_named_with_the_remedy(jobs: ContainerJobs) -> None:
    job = jobs.ended(jobs.run("true", image="registry.example/none:1"))
    assert job["FailureReason"].startswith("ClientError: algo-1: n")
    assert "has no image registry.example/none:1: `docker pull` or `docker load` it on every" in job["FailureReason"]


def test_a_job_that_slurm_ends_leaves_no_container(jobs: ContainerJobs, slurm_cluster: SlurmCluster) -> None:
    """The script heeds nothing, and is not Slurm's to kill."""
    name = jobs.start(STUBBORN, hosts=2)
    jobs.training(name, 2)
    slurm_cluster.run("scancel", slurm_cluster.number(name))
    assert "cancelled by somebody other than sagelet" in jobs.ended(name)["FailureReason"] + jobs.message(name)
    jobs.gone(name)


def test_a_killed_shim_leaves_no_container(jobs: ContainerJobs, slurm_cluster: SlurmCluster) -> None:
    name = jobs.start(STUBBORN)
    jobs.training(name)
    for shim in _shims(slurm_cluster.number(name)):
        os.kill(shim, signal.SIGKILL)
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert "without a note from the host" in jobs.message(name) + job["FailureReason"]
    jobs.gone(name)


def test_what_is_left_on_a_node_is_cleared_by_the_next_job(jobs: ContainerJobs, engine: docker.DockerClient) -> None:
    """As after a node that lost its power, or that Slurm killed everything on at once."""
    name = jobs.start(PATIENT)
    jobs.training(name)
    (running,) = jobs.containers(name)
    labels = {**running.labels, slurm_docker.NUMBER: "999999", slurm_docker.JOB_NAME: "left"}
    engine.containers.run(jobs.image, ["sleep", "600"], labels=labels, detach=True, init=True)
    assert jobs.ended(jobs.start("true"))["TrainingJobStatus"] == "Completed"
    jobs.gone("left")
    running.reload()
    assert running.status == "running"


def _shims(number: str) -> list[int]:
    """The shims of a job of Slurm's."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            job = f"SLURM_JOB_ID={number}".encode() in (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if job and b"slurm/shim.py" in command and command.split(b"\0")[1] == b"-I":
            found.append(int(process.name))
    assert found
    return found
