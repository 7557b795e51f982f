"""Hosts that tell each other what their GPUs are good for."""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sagelet_runtime.gpu.device import DeviceChoice
from sagelet_runtime.launch import device_consensus
from sagelet_runtime.launch.device_consensus import HostsDisagree, Meeting, agreed
from support.training_host import poll
from support.xla_workers import quiet_port

HOSTS = ("algo-1", "algo-2", "algo-3")
WORKS = DeviceChoice("CUDA", "1 GPU(s), which passed its trial", {"PJRT_DEVICE": "CUDA"})
BROKEN = DeviceChoice("CUDA", "its driver is too old", compiled=False)
CPU = DeviceChoice("CPU", "this host has no GPU")


@pytest.fixture
def port() -> int:
    return quiet_port()


def on_each_host(work: Callable[[str], Any]) -> dict[str, Any]:
    """What came of `work` on each, an exception being one of the things that may."""
    found: dict[str, Any] = {}

    def run(host: str) -> None:
        try:
            found[host] = work(host)
        except Exception as error:  # It is what the test looks at.
            found[host] = error

    threads = [threading.Thread(target=run, args=(host,), daemon=True) for host in HOSTS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return found


def choices_after(port: int, choices: dict[str, DeviceChoice]) -> dict[str, Any]:
    return on_each_host(lambda host: agreed(choices[host], Meeting(HOSTS, host, "127.0.0.1", port, "job")))


def test_hosts_whose_gpus_work_are_compiled(port: int) -> None:
    assert choices_after(port, dict.fromkeys(HOSTS, WORKS)) == dict.fromkeys(HOSTS, WORKS)


@pytest.mark.parametrize("failed", ["algo-1", "algo-3"])
def test_where_one_cannot_all_train_natively(port: int, failed: str) -> None:
    found = choices_after(port, {**dict.fromkeys(HOSTS, WORKS), failed: BROKEN})
    assert found.pop(failed) == BROKEN
    reason = f"on {failed} its driver is too old"
    assert list(found.values()) == [DeviceChoice("CUDA", reason, compiled=False)] * 2


def test_hosts_with_different_devices_fail_and_each_says_why(port: int) -> None:
    found = choices_after(port, {**dict.fromkeys(HOSTS, WORKS), "algo-2": CPU})
    for host in HOSTS:
        assert isinstance(found[host], HostsDisagree)
        assert "algo-1 CUDA (1 GPU(s), which passed its trial); algo-2 CPU (this host has no GPU)" in str(found[host])


@pytest.mark.parametrize(("current", "missing"), [("algo-1", "algo-2"), ("algo-2", "algo-1")])
def test_a_host_that_does_not_come_is_named(port: int, current: str, missing: str) -> None:
    with pytest.raises(HostsDisagree, match=f"{missing} did not say within 1 s which device it has, and {current}"):
        agreed(WORKS, Meeting(HOSTS[:2], current, "127.0.0.1", port, "job", seconds=1))


def test_strangers_at_the_port_are_not_taken_for_hosts(port: int) -> None:
    first = threading.Thread(
        target=lambda: found.append(agreed(WORKS, Meeting(HOSTS[:2], "algo-1", "127.0.0.1", port, "job"))), daemon=True
    )
    found: list[DeviceChoice] = []
    first.start()
    other_job = b'{"job": "another", "host": "algo-2", "kind": "CPU", "compiled": true, "reason": ""}'
    for said in (b"GET / HTTP/1.1", b"[]", other_job):
        stranger = _connected(port)
        stranger.sendall(said + b"\n")
        assert stranger.recv(100) == b""
        stranger.close()
    assert agreed(BROKEN, Meeting(HOSTS[:2], "algo-2", "127.0.0.1", port, "job")) == BROKEN
    first.join(120)
    assert [one.compiled for one in found] == [False]


def _connected(port: int) -> socket.socket:
    made: list[socket.socket] = []

    def connect() -> bool:
        with contextlib.suppress(ConnectionRefusedError):
            made.append(socket.create_connection(("127.0.0.1", port), timeout=120))
        return bool(made)

    poll(connect, "the first host listens")
    return made[0]


def test_hosts_of_a_job_without_gpus_do_not_ask_each_other() -> None:
    assert not device_consensus.wanted(HOSTS, "algo-1", {})
    assert not device_consensus.wanted(HOSTS, "algo-1", {device_consensus.JOB_GPUS: "0"})
    assert not device_consensus.wanted(HOSTS[:1], "algo-1", {device_consensus.JOB_GPUS: "8"})
    assert not device_consensus.wanted(HOSTS[1:], "algo-1", {device_consensus.JOB_GPUS: "8"})
    assert device_consensus.wanted(HOSTS, "algo-2", {device_consensus.JOB_GPUS: "8"})


@pytest.mark.xla
@pytest.mark.programs("g++")
@pytest.mark.parametrize(("chosen", "variable"), [("xla", "SAGELET_NOT_COMPILED"), ("", "SAGELET_INDUCTOR")])
def test_a_job_prepares_its_hosts_alike(
    port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str, variable: str
) -> None:
    """Where one host's trial fails, Inductor compiles on all of them, unless the user wants XLA or nothing."""
    from sagelet_runtime.launch import framework

    found = {**dict.fromkeys(HOSTS, WORKS), "algo-2": BROKEN}
    monkeypatch.setattr(framework.installed, "require_torch_xla", lambda: "2.8.1")
    monkeypatch.setattr(framework.device, "choose_device", lambda environ, *_: found[environ["HOST"]])
    common = {"SAGELET_JOB_GPUS": "3", "SAGELET_MASTER_PORT": str(port), "SM_STUDIO_LOCAL_MODE": "true"}
    common |= {"SAGELET_COMPILER": chosen, "PATH": os.environ["PATH"]}

    def prepared(host: str) -> dict[str, str]:
        job = SimpleNamespace(
            additional_framework_parameters={"sagemaker_training_compiler_enabled": "true"},
            output_data_dir=str(tmp_path / host / "data"), log_level=20, num_gpus=1, hosts=list(HOSTS),
            distribution_hosts=list(HOSTS), current_host=host, master_hostname="127.0.0.1",
        )  # fmt: skip
        return framework.compiler_environment(job, {**common, "HOST": host})

    for host, variables in on_each_host(prepared).items():
        assert "its driver is too old" in variables[variable], host
        assert not {"SAGELET_NOT_COMPILED", "SAGELET_INDUCTOR"} - {variable} & set(variables)
        told = json.loads((tmp_path / host / "sagelet" / "compilation.json").read_text())
        assert told["compiled"] is (variable == "SAGELET_INDUCTOR")
