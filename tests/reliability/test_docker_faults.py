"""Containers that are killed, out of memory or cut off, images that go: a `sagelet up` on Docker."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container

from support.failpoints import BUCKET, Mortal
from support.killed_jobs import check_bill, model, trains
from support.server import until
from support.tiny_image import ensure

pytestmark = [pytest.mark.docker, pytest.mark.programs("busybox")]

SLEEPS = "echo ready;exec sleep 600"
#: Takes memory until the kernel kills it.
GROWS = "x=0123456789abcdef;while true;do x=$x$x;done"
WAITS = "until [ -e /opt/ml/go ];do sleep 0.05;done"
LIMIT = "24m"


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    made = docker.from_env()
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mortal]:
    directory = tmp_path_factory.mktemp("docker-faults")
    made = Mortal(directory, [], "--runtime", "docker", "--max-jobs", "2", image=ensure(client))
    made.start()
    made.client("s3").create_bucket(Bucket=BUCKET)
    yield made
    made.close()


def containers(client: docker.DockerClient, name: str) -> dict[str, Container]:
    """The running containers of a job, by host."""
    found = client.containers.list(ignore_removed=True, filters={"label": f"org.sagelet.job-name={name}"})
    return {one.labels["org.sagelet.host"]: one for one in found}


def running(server: Mortal, client: docker.DockerClient, name: str, hosts: int = 1) -> dict[str, Container]:
    """The containers, once each script has said that it runs."""
    until(lambda: list(server.log(name).values()) == [["ready"]] * hosts)
    return containers(client, name)


def touch(server: Mortal, word: str) -> None:
    for opt_ml in server.server.data.glob("jobs/*/*/*/algo-*/opt-ml"):
        (opt_ml / word).touch()


def ended(server: Mortal, name: str) -> dict[str, Any]:
    job = server.ended(name)
    check_bill(job)
    return job


def test_exit_codes(server: Mortal) -> None:
    """Of commands that end by themselves or by a signal of their own, without a failure file."""
    ends = {"exit 1": 1, "exit 2": 2, "exit 42": 42, "kill -9 $$": 137, "kill -11 $$": 139, "kill -15 $$": 143}
    # The first process of a container is spared the signals that it does not handle.
    jobs = {server.create("exits", end if end.startswith("exit") else f"sh -c '{end}'"): ends[end] for end in ends}
    for name, code in jobs.items():
        job = ended(server, name)
        assert (job["TrainingJobStatus"], job["FailureReason"]) == ("Failed", f"AlgorithmError: , exit code: {code}")


def test_a_container_that_is_killed_fails_its_job_and_no_other(server: Mortal, client: docker.DockerClient) -> None:
    killed = server.create("killed", SLEEPS)
    neighbour = server.create("neighbour", f"echo ready;{WAITS};echo w >model/w")
    running(server, client, neighbour)
    running(server, client, killed)["algo-1"].kill()
    job = ended(server, killed)
    assert (job["TrainingJobStatus"], job["FailureReason"]) == ("Failed", "AlgorithmError: , exit code: 137")
    touch(server, "go")
    assert ended(server, neighbour)["TrainingJobStatus"] == "Completed"


def test_a_container_that_is_removed_is_an_internal_error(server: Mortal, client: docker.DockerClient) -> None:
    name = server.create("removed", SLEEPS)
    running(server, client, name)["algo-1"].remove(force=True)
    job = ended(server, name)
    assert job["TrainingJobStatus"] == "Failed"
    # Killed first, so it may have been seen as such.
    assert job["FailureReason"].startswith(("InternalServerError", "AlgorithmError: , exit code: 137"))


def test_out_of_memory(server: Mortal, client: docker.DockerClient) -> None:
    name = server.create("memory", f"echo ready;{WAITS};{GROWS}")
    running(server, client, name)["algo-1"].update(mem_limit=LIMIT, memswap_limit=LIMIT)
    touch(server, "go")
    job = ended(server, name)
    assert job["TrainingJobStatus"] == "Failed"
    reason = "AlgorithmError: OutOfMemory: Process killed by SIGKILL (signal 9), exit code: 137"
    assert job["FailureReason"] == reason


def test_a_child_that_is_killed_for_memory_is_told_of(server: Mortal, client: docker.DockerClient) -> None:
    """As on AWS the exit code decides, and 0 is a success; but nobody should have to guess where a worker went."""
    name = server.create("child", f"echo ready;{WAITS};({GROWS});echo w >model/w;exit 0", hosts=2)
    for container in running(server, client, name, hosts=2).values():
        container.update(mem_limit=LIMIT, memswap_limit=LIMIT)
    touch(server, "go")
    job = ended(server, name)
    assert job["TrainingJobStatus"] == "Completed", job
    assert model(server, name) == {"w"}
    for host, lines in server.log(name).items():
        said = [line for line in lines if not line.startswith("sagelet doctor: ")]
        assert said[-1] == f"sagelet: the kernel killed a process of {host} for memory; its command went on"


def test_an_image_that_goes_while_its_job_waits(server: Mortal, client: docker.DockerClient) -> None:
    image = client.images.get(server.image)
    image.tag("sagelet/test-gone", "1")
    holders = [server.create("holds", f"echo ready;{WAITS}") for _ in range(2)]
    for name in holders:
        running(server, client, name)
    kept, server.image = server.image, "sagelet/test-gone:1"
    try:
        name = server.create("queued", "true")
    finally:
        server.image = kept
    until(lambda: server.describe(name)["SecondaryStatus"] == "Pending")
    client.images.remove("sagelet/test-gone:1")
    touch(server, "go")
    job = server.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("ClientError: No image stands in for sagelet/test-gone:1")
    for holder in holders:
        assert server.ended(holder)["TrainingJobStatus"] == "Completed"


def test_a_host_that_is_cut_off_the_network(server: Mortal, client: docker.DockerClient) -> None:
    """The script finds out; the job ends with what it says, and nothing of its network is left."""
    talks = (
        "if [ $(hostname) = algo-2 ];then echo ready;while true;do echo hello|nc -l -p 5000;done;fi;"
        'until [ "$(nc -w 2 algo-2 5000 2>/dev/null)" = hello ];do sleep 0.1;done;echo ready;misses=0;'
        "while [ $misses -lt 3 ];do sleep 0.3;"
        'if [ "$(nc -w 2 algo-2 5000 2>/dev/null)" = hello ];then misses=0;else misses=$((misses+1));fi;done;'
        "printf 'algo-2 does not answer'>output/failure;exit 5"
    )
    name = server.create("network", talks, hosts=2)
    cut = running(server, client, name, hosts=2)["algo-2"]
    cut.reload()
    (network,) = cut.attrs["NetworkSettings"]["Networks"]
    client.networks.get(network).disconnect(cut, force=True)
    job = ended(server, name)
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"] == "AlgorithmError: algo-2 does not answer, exit code: 5"
    assert containers(client, name) == {}
    assert client.networks.list(names=[network]) == []


def test_a_container_that_docker_refuses_fails_its_job(server: Mortal) -> None:
    """`ContainerEntrypoint: [""]` is valid by AWS's model. Docker never makes such a container."""
    sagemaker = server.client("sagemaker")
    for name, entrypoint in (("no-command", [""]), ("no-program", ["/no/such/program"])):
        sagemaker.create_processing_job(
            ProcessingJobName=name,
            RoleArn="arn:aws:iam::123456789012:role/SageMakerRole",
            AppSpecification={"ImageUri": server.image, "ContainerEntrypoint": entrypoint},
            ProcessingResources={
                "ClusterConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 2, "VolumeSizeInGB": 10}
            },
        )
    ends = {}
    for name in ("no-command", "no-program"):
        until(lambda name=name: status_of(sagemaker, name) != "InProgress")
        ends[name] = sagemaker.describe_processing_job(ProcessingJobName=name)
    assert {end["ProcessingJobStatus"] for end in ends.values()} == {"Failed"}
    assert ends["no-command"]["FailureReason"] == (
        "ClientError: Docker refuses the container of algo-1: No command specified. Name the program in "
        "ContainerEntrypoint, which has no empty text in its first place"
    )
    assert "exit code: 127" in ends["no-program"]["FailureReason"]


def status_of(sagemaker: Any, name: str) -> str:
    return str(sagemaker.describe_processing_job(ProcessingJobName=name)["ProcessingJobStatus"])


def test_after_all_that_jobs_train(server: Mortal) -> None:
    trains(server)(server)


def test_docker_that_does_not_answer_at_the_start(tmp_path: Path) -> None:
    mortal = Mortal(tmp_path, [], "--runtime", "docker")
    mortal.server.environment = {"DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"}
    assert not mortal.server.begin()
    assert "--runtime docker: no Docker Engine answers. Start it" in "".join(mortal.server.output)
