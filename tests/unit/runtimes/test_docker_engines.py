"""How a container is made for Docker Desktop, for a rootless engine, for Podman, and on another architecture."""

from typing import Any

import pytest

from sagelet_engine.runtimes.docker import podman, spec
from sagelet_engine.runtimes.docker.engine import DockerFacts


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
