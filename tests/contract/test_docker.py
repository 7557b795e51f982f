"""What only the docker runtime promises."""

import os
import socket
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import APIError, NotFound
from requests import Response

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.errors import ClientFault, RuntimeUnavailable
from sagelet_engine.model.runtime import Handle, Mount
from sagelet_engine.runtimes.docker import engine as sagelets_client
from sagelet_engine.runtimes.docker import networks as docker_networks
from sagelet_engine.runtimes.docker import refusals, spec
from sagelet_engine.runtimes.docker.runtime import DockerRuntime, probe
from sagelet_engine.runtimes.node.confinement import Exceptions
from sagelet_engine.settings import DEFAULT_LOG
from support.harness import DEADLINE_S, Harness, wait_for

pytestmark = [pytest.mark.docker, pytest.mark.programs("busybox")]


def container_id(handle: Handle) -> str:
    return handle.ref


def inspect(client: docker.DockerClient, handle: Handle) -> dict[str, Any]:
    attributes: dict[str, Any] = client.containers.get(container_id(handle)).attrs
    return attributes


def test_container_is_hardened(docker_host: Harness, docker_client: docker.DockerClient) -> None:
    plan = docker_host.plan("grep Cap /proc/self/status || cat /proc/self/status", memory_bytes=256 * 1024**2)
    handle = docker_host.launch(plan)
    facts = inspect(docker_client, handle)
    host = facts["HostConfig"]
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["PidsLimit"] > 0
    assert host["ShmSize"] == 64 * 1024**2
    assert host["Memory"] == host["MemorySwap"] == 256 * 1024**2
    assert host["LogConfig"]["Type"] == "json-file"
    assert host["RestartPolicy"]["Name"] in ("", "no")
    assert (host["PidMode"], host["IpcMode"], host["UTSMode"]) == ("", "private", "")
    assert host["NetworkMode"] not in ("host", "default", "bridge")
    assert (host["CgroupnsMode"], host["OomScoreAdj"], host["ReadonlyRootfs"]) == ("private", 500, True)
    assert {key: int(value) for key, value in host["LogConfig"]["Config"].items()} == {
        "max-file": 2, "max-size": DEFAULT_LOG * 9 // 8,
    }  # fmt: skip
    scratch = plan.hosts[0].run_dir / "scratch"
    assert {mount["Destination"]: mount["Source"] for mount in facts["Mounts"] if mount["RW"]} == {
        "/opt/ml": str(plan.hosts[0].opt_ml),
        "/tmp": str(scratch / "tmp"),
        "/var/tmp": str(scratch / "var-tmp"),
        "/root": str(scratch / "home"),
    }
    status = docker_host.text(handle)
    assert [line.split()[1] for line in status if line.startswith(("CapEff", "CapBnd"))] == ["0" * 16] * 2


def test_a_program_can_write_to_where_it_starts(docker_host: Harness) -> None:
    # On AWS an image without a WORKDIR starts in /, which is writable there.
    assert docker_host.text(docker_host.launch(docker_host.plan("echo kept > here && cat here && pwd"))) == [
        "kept",
        "/root",
    ]


def test_container_runs_as_the_user_of_the_server(
    docker_host: Harness, docker_client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1234)
    monkeypatch.setattr(os, "getgid", lambda: 2345)
    handle = docker_host.start("id -u; id -g; echo $HOME; touch /tmp/x && echo writable")
    assert docker_host.text(handle) == ["1234", "2345", "/root", "writable"]


def excepted(docker_host: Harness, client: docker.DockerClient, exceptions: Exceptions) -> None:
    """The runtime of a server with these settings."""
    owner = uuid.uuid4().hex
    docker_host.make = lambda: DockerRuntime(client, owner, SystemClock(), exceptions)
    docker_host.runtime = docker_host.make()


def test_an_image_that_cannot_bear_it_is_as_it_was(
    docker_host: Harness, docker_client: docker.DockerClient, tiny_image: str
) -> None:
    excepted(docker_host, docker_client, Exceptions(writable=(tiny_image,), root=("sagelet/test-*",)))
    handle = docker_host.start("id -u; touch /new /tmp/new /opt/ml/new && echo writable")
    assert docker_host.text(handle) == [str(os.getuid()), "writable"]
    facts = inspect(docker_client, handle)
    assert facts["HostConfig"]["CapDrop"] == ["ALL"]
    assert [mount["Destination"] for mount in facts["Mounts"]] == ["/opt/ml"]


def test_where_docker_cannot_hold_a_writable_root_to_a_size_it_does_without(
    docker_host: Harness, docker_client: docker.DockerClient, tiny_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """XFS without project quotas looks like XFS with them, until it is asked for."""
    engine = probe(docker_client)
    assert engine is not None
    excepted(docker_host, docker_client, Exceptions(writable=(tiny_image,)))
    told = replace(engine, may_limit_storage=True)
    monkeypatch.setattr(docker_host.runtime, "facts", lambda: told)
    handles = [docker_host.start("exec true") for _ in range(2)]
    sizes = [inspect(docker_client, one)["HostConfig"].get("StorageOpt") for one in handles]
    assert sizes in ([None] * 2, [{"size": "20g"}] * 2)


def test_a_host_that_runs_is_left_alone_by_another_launch(docker_host: Harness) -> None:
    """After a crash: its files are its own by now, and some of them may just go."""
    plan = docker_host.plan("exec sleep 600")
    first = docker_host.launch(plan)
    file = plan.hosts[0].opt_ml / "of the server"
    file.touch()
    assert docker_host.runtime.launch(plan) == [first]
    assert file.stat().st_uid == os.getuid()


def test_a_host_has_the_cpus_of_its_instance_type(docker_host: Harness, docker_client: docker.DockerClient) -> None:
    engine = probe(docker_client)
    assert engine is not None
    few, many = docker_host.start("true", vcpus=1), docker_host.start("true", vcpus=engine.cpus)
    assert inspect(docker_client, few)["HostConfig"]["NanoCpus"] == (10**9 if engine.cpus > 1 else 0)
    assert inspect(docker_client, many)["HostConfig"]["NanoCpus"] == 0


@pytest.mark.skipif(os.getuid() != 0, reason="containers are their server's user's")
def test_a_directory_that_the_container_could_not_use_is_named(
    docker_host: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    source = docker_host.directory / "of root"
    source.mkdir(mode=0o755)
    plan = docker_host.plan("true")
    (host,) = plan.hosts
    (host.opt_ml / "data").mkdir()
    fixed, free = (replace(host, mounts=(Mount(source, "data", read_only=one),)) for one in (True, False))
    docker_host.launch_all(replace(plan, hosts=(fixed,)))
    assert not caplog.messages
    docker_host.launch_all(replace(docker_host.plan("true"), hosts=(free,)))
    assert "65532:65532 may not write to" in caplog.text
    source.chmod(0o700)
    with pytest.raises(ClientFault, match=r"65532:65532 .* may not read .*chown.*--root-image"):
        docker_host.runtime.launch(replace(docker_host.plan("true"), hosts=(fixed,)))


def test_what_docker_writes_for_a_line_is_not_underestimated(
    docker_host: Harness, docker_client: docker.DockerClient
) -> None:
    text = r"for i in $(seq 200); do printf '\033[31m<a>&\"\\\t\342\200\250 \377 \303\244\n';"
    text += " printf 'plain line'; echo; done"
    handle = docker_host.start(text)
    *_, last = docker_host.output(handle)
    counted = int(last.position.rpartition("-")[2])
    log = Path(inspect(docker_client, handle)["LogPath"])
    if os.access(log, os.R_OK):
        assert log.stat().st_size <= counted <= 6 * log.stat().st_size


def test_labels_and_name_say_whose_container_it_is(docker_host: Harness, docker_client: docker.DockerClient) -> None:
    plan = docker_host.plan("true")
    facts = inspect(docker_client, docker_host.launch(plan))
    labels = facts["Config"]["Labels"]
    assert labels["org.sagelet.job-id"] == plan.job_id
    assert labels["org.sagelet.job-name"] == "contract-test"
    assert labels["org.sagelet.host"] == "algo-1"
    assert labels["org.sagelet.owner"]
    assert facts["Name"].startswith("/sagelet-contract-test-")


def test_servers_on_one_engine_do_not_see_each_others_containers(
    docker_host: Harness, docker_client: docker.DockerClient
) -> None:
    plan = docker_host.plan("exec sleep 600")
    handle = docker_host.launch(plan)
    other = DockerRuntime(docker_client, uuid.uuid4().hex, SystemClock())
    assert other.find(plan.job_id) == []
    (mine,) = other.launch(plan)
    assert mine.ref != handle.ref
    other.reap(plan.job_id)
    assert other.find(plan.job_id) == []
    assert docker_host.runtime.observe(handle).running


def test_gpus_are_requested_by_uuid(docker_host: Harness, docker_client: docker.DockerClient) -> None:
    """Where the engine has no GPUs the container cannot start: the host has ended, and says why."""
    plan = docker_host.plan("true")
    plan = replace(plan, hosts=(replace(plan.hosts[0], gpu_uuids=("GPU-11111111", "GPU-22222222")),))
    handle = docker_host.launch(plan)
    (request,) = inspect(docker_client, handle)["HostConfig"]["DeviceRequests"]
    assert request["DeviceIDs"] == ["GPU-11111111", "GPU-22222222"]
    assert request["Capabilities"] == [["gpu"]]
    end = docker_host.end(handle)
    assert end.exit_code != 0
    assert end.error


def test_cpu_container_gets_no_gpu_from_a_default_runtime(docker_host: Harness) -> None:
    assert docker_host.run("echo $NVIDIA_VISIBLE_DEVICES")[0] == ["void"]


def test_container_that_was_created_but_not_started_is_started(
    docker_host: Harness, docker_client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = docker_host.plan("echo started")

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(DockerRuntime, "_start", die)
        with pytest.raises(KeyboardInterrupt):
            docker_host.runtime.launch(plan)
    (created,) = docker_host.runtime.find(plan.job_id)
    end = docker_host.runtime.observe(created)
    assert (end.running, end.exit_code) == (False, None)
    assert "never started" in (end.error or "")
    assert docker_host.launch(plan).ref == created.ref
    assert docker_host.text(created) == ["started"]


def test_image_that_is_not_there_is_the_clients_fault(docker_host: Harness, docker_client: docker.DockerClient) -> None:
    plan = docker_host.plan("true", image="sagelet/no-such-image:0")
    with pytest.raises(ClientFault, match="sagelet/no-such-image:0"):
        docker_host.runtime.launch(plan)
    assert docker_host.runtime.find(plan.job_id) == []


def test_image_without_a_command_is_the_clients_fault(docker_host: Harness) -> None:
    """A processing job without ContainerEntrypoint. Docker refuses its container each time."""
    plan = docker_host.plan("", entrypoint=None)
    with pytest.raises(ClientFault, match="neither an entry point nor a command"):
        docker_host.runtime.launch(plan)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"entrypoint": ("",), "arguments": ()}, "No command specified. Name the program in ContainerEntrypoint"),
        ({"environment": {"": "x"}}, "invalid environment variable: =x. Correct Environment"),
    ],
)
def test_what_docker_refuses_is_the_clients_fault(docker_host: Harness, changes: dict[str, Any], reason: str) -> None:
    """Docker would answer the same each time, so nobody waits for it."""
    plan = docker_host.plan("true", **changes)
    with pytest.raises(ClientFault) as caught:
        docker_host.runtime.launch(plan)
    assert reason in str(caught.value)
    assert docker_host.runtime.find(plan.job_id) == []


@pytest.mark.parametrize("status", [400, 401, 403, 406, 422])
@pytest.mark.parametrize("call", ["create_container", "start"])
def test_a_status_of_the_request_is_the_clients_fault(
    docker_host: Harness, monkeypatch: pytest.MonkeyPatch, status: int, call: str
) -> None:
    monkeypatch.setattr(docker_host.runtime._api, call, answers(status))
    with pytest.raises(ClientFault, match="Docker refuses the container of algo-1: because"):
        docker_host.runtime.launch(docker_host.plan("true"))


@pytest.mark.parametrize("status", [*refusals.PASSING.keys() - {409}, 500, 502, 503, 504])
@pytest.mark.parametrize("call", ["create_container", "start"])
def test_a_status_of_the_engine_is_waited_for(
    docker_host: Harness, monkeypatch: pytest.MonkeyPatch, status: int, call: str
) -> None:
    monkeypatch.setattr(docker_host.runtime._api, call, answers(status))
    plan = docker_host.plan("true")
    with pytest.raises(RuntimeUnavailable, match="Docker: because"):
        docker_host.runtime.launch(plan)
    monkeypatch.undo()
    assert docker_host.end(docker_host.launch(plan)).exit_code == 0


def answers(status: int) -> Callable[..., Any]:
    """Returns a call of the engine that fails with a status."""

    def fail(*_arguments: Any, **_options: Any) -> Any:
        response = Response()
        response.status_code = status
        raise APIError("refused", response, "because")

    return fail


def test_container_that_vanished_is_not_running(docker_host: Harness, docker_client: docker.DockerClient) -> None:
    handle = docker_host.start("exec sleep 600")
    docker_client.containers.get(container_id(handle)).remove(force=True)
    end = docker_host.runtime.observe(handle)
    assert (end.running, end.exit_code) == (False, None)
    assert "removed" in (end.error or "")
    assert docker_host.text(handle) == []
    docker_host.runtime.stop(handle)


def test_network_is_the_jobs_own_and_goes_with_the_job(
    docker_host: Harness, docker_client: docker.DockerClient
) -> None:
    plan = docker_host.plan("exec sleep 600", hosts=2)
    first, second = docker_host.launch_all(plan)
    networks = [inspect(docker_client, handle)["NetworkSettings"]["Networks"] for handle in (first, second)]
    (name,) = networks[0]
    assert list(networks[1]) == [name]
    addresses = [network[name]["IPAddress"] for network in networks]
    assert [address.rpartition(".")[2] for address in addresses] == ["2", "3"]
    docker_client.api.remove_container(first.ref, force=True)
    assert docker_client.networks.get(name).name == name
    docker_host.runtime.reap(plan.job_id)
    with pytest.raises(NotFound):
        docker_client.networks.get(name)


@pytest.mark.parametrize("made", [1, 2])
def test_a_launch_that_was_killed_among_its_networks_goes_on(
    docker_host: Harness, monkeypatch: pytest.MonkeyPatch, made: int
) -> None:
    """Docker chooses a subnet by a network that is made and removed: one that was left is not the job's."""
    plan = docker_host.plan("true", hosts=2)
    new, left = docker_networks.JobNetworks._new, iter(range(1, made + 1))

    def die(self: docker_networks.JobNetworks, *arguments: Any) -> None:
        new(self, *arguments)
        if next(left) == made:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(docker_networks.JobNetworks, "_new", die)
        with pytest.raises(KeyboardInterrupt):
            docker_host.runtime.launch(plan)
    handles = docker_host.launch_all(plan)
    ends = [docker_host.end(handle) for handle in handles]
    assert [(end.exit_code, end.error) for end in ends] == [(0, None)] * 2


def test_requests_for_many_containers_share_one_pool_of_connections() -> None:
    """docker-py had a pool for each path, and closed the oldest of 25 under whoever was about to use it."""
    client = sagelets_client.connect()
    adapter = client.api.get_adapter(client.api.base_url)
    pools = [adapter.get_connection(f"{client.api.base_url}/containers/{number}/json") for number in range(30)]
    assert all(pool is pools[0] for pool in pools)
    assert pools[0].pool is not None
    runtime = DockerRuntime(client, uuid.uuid4().hex, SystemClock())
    with ThreadPoolExecutor(40) as threads:
        ends = threads.map(runtime.observe, [Handle("algo-1", f"none-{number}", 0) for number in range(100)])
        assert not any(end.running for end in ends)
    client.close()


def hello_from(address: tuple[str, int]) -> bytes:
    """Returns the text that a listener there sends, or an empty text without a listener."""
    try:
        with socket.create_connection(address, timeout=5) as connection:
            return connection.recv(100)
    except OSError:
        return b""


def test_jobs_of_one_host_share_a_network_on_which_they_do_not_reach_each_other(
    docker_host: Harness, docker_client: docker.DockerClient
) -> None:
    service = docker_host.start("while true; do echo hello | nc -l -p 5000; done")
    ((name, network),) = inspect(docker_client, service)["NetworkSettings"]["Networks"].items()
    address = (network["IPAddress"], 5000)
    wait_for("the service", lambda: hello_from(address) == b"hello\n")
    other = docker_host.start(f"nc -w 2 {address[0]} 5000 < /dev/null 2>/dev/null && echo reached; echo end")
    assert list(inspect(docker_client, other)["NetworkSettings"]["Networks"]) == [name]
    assert docker_host.text(other)[-1] == "end"
    assert not {"hello", "reached"} & {*docker_host.text(other)}
    docker_host.runtime.reap(docker_host.jobs[0])
    assert docker_client.networks.get(name).name == name


def test_where_no_network_can_be_shared_each_job_has_its_own(
    docker_host: Harness, docker_client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_networks, "SHARED_LABELS", {"org.sagelet.network": uuid.uuid4().hex})
    monkeypatch.setattr(docker_networks, "APART", {"com.docker.network.bridge.enable_icc": "cannot"})
    plan = docker_host.plan("echo alone")
    handle = docker_host.launch(plan)
    (name,) = inspect(docker_client, handle)["NetworkSettings"]["Networks"]
    assert docker_client.networks.get(name).attrs["Labels"]["org.sagelet.job-id"] == plan.job_id
    assert docker_host.text(handle) == ["alone"]


def test_of_two_shared_networks_the_older_is_taken(
    docker_host: Harness, docker_client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers may make one at the same time."""
    labels = {"org.sagelet.network": uuid.uuid4().hex}
    monkeypatch.setattr(docker_networks, "SHARED_LABELS", labels)
    api, found = docker_client.api, []
    monkeypatch.setattr(docker_networks, "SHARED", f"sagelet-{uuid.uuid4().hex}")
    make = api.create_network

    def make_two(*arguments: Any, **options: Any) -> Any:
        found.append(make(*arguments, **options)["Id"])
        found.append(make(*arguments, **options)["Id"])
        return {"Id": found[1]}

    monkeypatch.setattr(api, "create_network", make_two)
    try:
        joined, _ = docker_networks.JobNetworks(api, "owner").join(docker_host.plan("true"))
        assert joined == found[0]
        assert [network["Id"] for network in api.networks(filters=spec.as_filters(labels))] == [joined]
    finally:
        for network in api.networks(filters=spec.as_filters(labels)):
            api.remove_network(network["Id"])


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A service of this machine that containers can reach unless they are isolated."""
    with socket.create_server(("", 0)) as server:
        yield server


def test_isolated_hosts_reach_each_other_and_not_this_machine(
    docker_host: Harness, docker_client: docker.DockerClient, listener: socket.socket
) -> None:
    facts = probe()
    assert facts is not None
    port = listener.getsockname()[1]
    script = f"""
        if [ $(hostname) = algo-1 ]; then while true; do echo hello | nc -l -p 5000; done; fi
        until [ "$(nc -w 2 algo-1 5000 2>/dev/null)" = hello ]; do sleep 0.1; done
        echo reached
        for address in {facts.bridge_gateway} $(ip route | while read to via gateway rest; do echo $gateway; done); do
            nc -w 1 $address {port} < /dev/null 2>/dev/null && echo $address
        done
        echo end
    """
    first, second = docker_host.launch_all(docker_host.plan(script, hosts=2, network_isolation=True))
    (name,) = inspect(docker_client, first)["NetworkSettings"]["Networks"]
    assert docker_client.networks.get(name).attrs["Internal"] is True
    assert docker_host.text(second) == ["reached", "end"]


def test_other_hosts_reach_the_services_of_this_machine(docker_host: Harness, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    handle = docker_host.start(f"nc -w 5 host.docker.internal {port} < /dev/null && echo reached")
    listener.settimeout(DEADLINE_S)
    connection, _ = listener.accept()
    connection.close()
    assert docker_host.text(handle) == ["reached"]


def test_host_reaches_the_machine_by_name(docker_host: Harness) -> None:
    facts = probe()
    assert facts is not None
    text, _ = docker_host.run("cat /etc/hosts")
    known = {name: line.split()[0] for line in text for name in line.split()[1:]}
    assert known[docker_host.runtime.endpoint_host] == facts.bridge_gateway


def test_memory_limit_ends_in_out_of_memory(docker_host: Harness) -> None:
    script = "x=0123456789abcdef; while true; do x=$x$x; done"
    _, end = docker_host.run(script, memory_bytes=16 * 1024**2)
    assert end.out_of_memory
    assert end.exit_code == 137


def test_child_killed_for_memory_is_seen_although_the_command_ends_well(docker_host: Harness) -> None:
    script = "(x=0123456789abcdef; while true; do x=$x$x; done); exit 0"
    _, end = docker_host.run(script, memory_bytes=16 * 1024**2)
    assert end.out_of_memory
    assert end.exit_code == 0


def test_engine_that_does_not_answer(tmp_path: Any) -> None:
    client = docker.DockerClient(base_url=f"unix://{tmp_path}/no.sock", version="1.41")
    runtime = DockerRuntime(client, "owner", SystemClock())
    assert probe(client) is None
    with pytest.raises(RuntimeUnavailable):
        runtime.find("job")
    with pytest.raises(RuntimeUnavailable):
        runtime.observe(Handle("algo-1", "ref", 0))
    with pytest.raises(RuntimeUnavailable):
        list(runtime.lines(Handle("algo-1", "ref", 0), None))


def test_probe_knows_the_engine(docker_client: docker.DockerClient) -> None:
    facts = probe(docker_client)
    assert facts is not None
    assert facts.version == docker_client.version()["Version"]
