"""How a container is made for Docker Desktop, for a rootless engine, for Podman, and on another architecture."""

from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import NotFound

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.model.runtime import Handle
from sagelet_engine.runtimes.docker import podman, spec
from sagelet_engine.runtimes.docker.engine import DockerFacts, facts
from sagelet_engine.runtimes.docker.runtime import DockerRuntime


def engine(**facts: Any) -> DockerFacts:
    return DockerFacts(**{"version": "1", "bridge_gateway": None, "gpus": False, "rootless": False, **facts})


@pytest.mark.parametrize(
    ("facts", "entry"),
    [
        ({"own_address": "192.0.2.7"}, {"host.docker.internal": "host-gateway"}),
        # Its own name server answers, with an address that leads out of the virtual machine.
        ({"desktop": True}, {}),
        # host-gateway would be the bridge in the engine's network namespace.
        ({"rootless": True, "own_address": "192.0.2.7"}, {"host.docker.internal": "192.0.2.7"}),
        ({"rootless": True}, {"host.docker.internal": "host-gateway"}),
        # It writes host.containers.internal itself.
        ({"podman": True}, {}),
        ({"podman": True, "rootless": True, "own_address": "192.0.2.7"}, {}),
    ],
)
def test_a_container_gets_the_address_of_this_machine(facts: dict[str, Any], entry: dict[str, str]) -> None:
    assert spec.gateway_entry(engine(**facts)) == entry


def told(info: dict[str, Any], headers: dict[str, str] | None = None) -> DockerFacts:
    """The facts of an engine that answers so."""

    def absent(_name: str) -> None:
        raise NotFound("no bridge")

    ping = SimpleNamespace(headers=headers or {}, raise_for_status=lambda: None)
    api = SimpleNamespace(base_url="http+docker://localhost", get=lambda _url: ping)
    return facts(SimpleNamespace(info=lambda: info, api=api, networks=SimpleNamespace(get=absent)))


def test_engines_are_told_apart() -> None:
    """As the engines answered: Docker 20.10 and Podman 4.3.1, also without root, and Docker Desktop's documentation."""
    docker = told(
        {"ServerVersion": "20.10.24", "SecurityOptions": ["name=seccomp,profile=default"], "CgroupVersion": "1"}
    )
    assert (docker.name, docker.has_way_back, docker.has_cgroups) == ("Docker Engine 20.10.24", True, True)
    rootless = told(
        {"ServerVersion": "20.10.24", "SecurityOptions": ["name=seccomp", "name=rootless"], "CgroupDriver": "none"}
    )
    assert (rootless.name, rootless.has_cgroups) == ("Docker Engine 20.10.24, rootless", False)
    podman_info = {"ServerVersion": "4.3.1", "CgroupDriver": "cgroupfs", "CgroupVersion": "1", "Architecture": "amd64"}
    libpod = {"Libpod-API-Version": "4.3.1"}
    assert told(podman_info | {"Rootless": False}, libpod).name == "Podman 4.3.1"
    own = told(podman_info | {"Rootless": True}, libpod)
    assert (own.name, own.rootless, own.has_cgroups) == ("Podman 4.3.1, rootless", True, False)
    assert told(podman_info | {"Rootless": True, "CgroupVersion": "2"}, libpod).has_cgroups
    desktop = told({"ServerVersion": "28.2.2", "OperatingSystem": "Docker Desktop", "Architecture": "aarch64"})
    assert (desktop.name, desktop.desktop) == ("Docker Desktop, Engine 28.2.2, arm64", True)


def test_without_control_groups_the_usage_is_nobodys() -> None:
    """A rootless engine on control groups of version 1 reports what the whole machine uses."""
    client = SimpleNamespace(api=SimpleNamespace(stats=lambda *_, **__: pytest.fail("asked")))
    runtime = DockerRuntime(client, "owner", SystemClock())
    runtime._facts = engine(rootless=True, has_cgroups=False)
    assert runtime.usage(Handle("algo-1", "ref", 0)) is None


@pytest.mark.parametrize(
    ("image", "own", "asked"),
    [
        ({"Os": "linux", "Architecture": "amd64"}, "amd64", None),
        ({"Os": "linux", "Architecture": "amd64"}, "arm64", "linux/amd64"),
        # An image of the user's own, made for this machine.
        ({"Os": "linux", "Architecture": "arm64"}, "arm64", None),
        ({"Os": "linux", "Architecture": "arm64"}, "amd64", "linux/arm64"),
    ],
)
def test_a_container_has_the_platform_of_its_image(image: dict[str, str], own: str, asked: str | None) -> None:
    assert spec.platform(image, engine(architecture=own)) == asked


def test_podman_is_not_told_to_empty_a_log_that_is_full() -> None:
    assert spec.log_options(8_000, engine()) == {"max-size": "9000", "max-file": "2"}
    assert spec.log_options(8_000, engine(podman=True)) == {}


@pytest.mark.parametrize(
    ("explanation", "code"),
    [
        (
            'runc: runc create failed: unable to start container process: exec: "/no/such": stat /no/such: '
            "no such file or directory: OCI runtime attempted to invoke a command that was not found",
            127,
        ),
        ("crun: open executable: Permission denied: OCI permission denied", 126),
        ("crun: setrlimit `RLIMIT_NOFILE`: Operation not permitted: OCI permission denied", None),
        ("rootlessport listen tcp 127.0.0.1:5678: bind: address already in use", None),
    ],
)
def test_what_podman_says_of_a_command_that_it_cannot_start(explanation: str, code: int | None) -> None:
    assert podman.exit_code(explanation) == code
