"""What differs with Podman's Docker API, and what must not."""

import io
import socket
import tarfile
from collections.abc import Iterator
from dataclasses import replace

import docker
import pytest
from docker.errors import NotFound

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import ClientFault
from sagelet_engine.images.engine import image_id, import_image
from sagelet_engine.images.listing import list_images
from sagelet_engine.runtimes.docker.engine import DockerFacts
from sagelet_engine.runtimes.docker.runtime import DockerRuntime
from support.harness import DEADLINE_S, Harness
from support.private_podman import PrivatePodman

pytestmark = [pytest.mark.podman, pytest.mark.programs("busybox")]


@pytest.fixture
def listener(podman: PrivatePodman) -> Iterator[socket.socket]:
    """A service of what Podman's containers take for this machine."""
    with podman.inside(lambda: socket.create_server(("", 0))) as server:
        yield server


def test_facts_name_podman(podman_facts: DockerFacts) -> None:
    assert (podman_facts.podman, podman_facts.desktop, podman_facts.rootless) == (True, False, False)
    assert podman_facts.name == f"Podman {podman_facts.version}"
    assert podman_facts.architecture == "amd64"
    assert podman_facts.bridge_gateway is not None


def test_a_container_is_hardened(podman_host: Harness, podman_client: docker.DockerClient) -> None:
    plan = podman_host.plan("cat /proc/self/status; id -u; touch /no || touch /tmp/yes", memory_bytes=256 * 1024**2)
    handle = podman_host.launch(plan)
    said = podman_host.text(handle)
    found = {name: rest.split() for name, _, rest in (line.partition(":") for line in said) if rest}
    assert [found[name] for name in ("CapEff", "CapBnd", "CapPrm", "NoNewPrivs")] == [["0" * 16]] * 3 + [["1"]]
    assert "65532" in said
    assert (plan.hosts[0].run_dir / "scratch/tmp/yes").exists()
    host = podman_client.containers.get(handle.ref).attrs["HostConfig"]
    assert (host["Privileged"], host["ReadonlyRootfs"], host["IpcMode"]) == (False, True, "shareable")
    assert host["Memory"] == host["MemorySwap"] == 256 * 1024**2
    assert host["PidsLimit"] > 0
    assert host["ShmSize"] == plan.shm_bytes


def test_a_host_reaches_this_machine_by_name(podman_host: Harness, listener: socket.socket) -> None:
    name = podman_host.runtime.endpoint_host
    assert name == "host.containers.internal"
    handle = podman_host.start(f"nc -w 5 {name} {listener.getsockname()[1]} < /dev/null && echo reached")
    listener.settimeout(DEADLINE_S)
    connection, _ = listener.accept()
    connection.close()
    assert podman_host.text(handle) == ["reached"]


def test_jobs_do_not_reach_each_other(podman_host: Harness, podman_client: docker.DockerClient) -> None:
    """Each has a network of its own: Podman cannot keep the containers of one apart."""
    service = podman_host.start("while true; do echo hello | nc -l -p 5000; done")
    ((name, network),) = podman_client.containers.get(service.ref).attrs["NetworkSettings"]["Networks"].items()
    script = f"nc -w 2 {network['IPAddress']} 5000 < /dev/null 2>/dev/null && echo reached; echo end"
    assert podman_host.run(script)[0] == ["end"]
    podman_host.runtime.reap(podman_host.jobs[0])
    with pytest.raises(NotFound):
        podman_client.networks.get(name)


def test_isolated_hosts_reach_each_other_and_not_this_machine(
    podman_host: Harness, podman_client: docker.DockerClient, listener: socket.socket
) -> None:
    port = listener.getsockname()[1]
    script = f"""
        if [ $(hostname) = algo-1 ]; then while true; do echo hello | nc -l -p 5000; done; fi
        until [ "$(nc -w 2 algo-1 5000 2>/dev/null)" = hello ]; do sleep 0.1; done
        echo reached
        own=$(hostname -i)
        for address in ${{own%.*}}.1 host.containers.internal; do
            nc -w 1 $address {port} < /dev/null 2>/dev/null && echo $address
        done
        echo end
    """
    first, second = podman_host.launch_all(podman_host.plan(script, hosts=2, network_isolation=True))
    (name,) = podman_client.containers.get(first.ref).attrs["NetworkSettings"]["Networks"]
    assert podman_client.networks.get(name).attrs["Internal"] is True
    assert podman_host.text(second) == ["reached", "end"]


def test_a_job_with_gpus_is_refused_rather_than_trained_on_the_cpu(podman_host: Harness) -> None:
    plan = podman_host.plan("true")
    plan = replace(plan, hosts=(replace(plan.hosts[0], gpu_uuids=("GPU-11111111",)),))
    with pytest.raises(ClientFault, match=r"Podman.*no GPUs.*--runtime process"):
        podman_host.runtime.launch(plan)
    assert podman_host.runtime.find(plan.job_id) == []


def test_a_killed_service_loses_no_host_and_no_line(podman_host: Harness, podman: PrivatePodman) -> None:
    go = "until [ -e /opt/ml/go ]; do sleep 0.1; done"
    plan = podman_host.plan(f"echo first; {go}; echo second; exit 6")
    handle = podman_host.launch(plan)
    position = podman_host.read_until(handle, "first")[-1].position
    podman.kill()
    (plan.hosts[0].opt_ml / "go").touch()
    podman.start()
    podman_host.runtime = podman_host.make()
    assert podman_host.runtime.find(plan.job_id) == [handle]
    assert podman_host.runtime.launch(plan) == [handle]
    assert podman_host.text(handle, position) == ["second"]
    assert podman_host.end(handle).exit_code == 6


def test_images_have_the_names_that_they_were_given(podman_client: docker.DockerClient) -> None:
    """Podman ignores the tag of an import, and lists names with their registry."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("file"))
    reference = "sagelet/training:of-a-test"
    made = import_image(podman_client, [packed.getvalue()], reference, ["LABEL org.sagelet.image=training"])
    try:
        assert image_id(podman_client, reference) == made
        assert [image.reference for image in list_images(podman_client)] == [reference]
    finally:
        podman_client.images.remove(reference)


def test_a_runtime_knows_podman_by_itself(podman_client: docker.DockerClient) -> None:
    assert DockerRuntime(podman_client, "owner", SystemClock()).facts().podman
