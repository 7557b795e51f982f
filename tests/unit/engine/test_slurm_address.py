"""--slurm-address: where nodes reach the endpoint, and what is refused before the server starts."""

import socket

import pytest

from sagelet_engine.base.errors import SettingsError
from sagelet_engine.runtimes.slurm.address import check_address

NAMES = {
    "sagelet.lab.example": ["192.0.2.7"],
    "elsewhere.lab.example": ["192.0.2.99"],
    "two.lab.example": ["192.0.2.7", "2001:db8::7"],
    "localhost": ["127.0.0.1", "::1"],
}
LOCAL = {"192.0.2.7", "127.0.0.1", "::1", "127.1.2.3"}


@pytest.fixture(autouse=True)
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with the addresses above."""

    def resolve(name: str, _port: None, **_options: object) -> list[tuple[object, ...]]:
        found = NAMES.get(name, [name] if name[0].isdigit() else [])
        if not found:
            raise socket.gaierror(-2, "Name or service not known")
        return [(0, 0, 0, "", (address, 0)) for address in found]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr("sagelet_engine.runtimes.slurm.address._is_local", lambda address: address in LOCAL)


def test_a_cluster_on_this_machine_needs_nothing() -> None:
    address = check_address(None, "127.0.0.1", auth=False, tls=False)
    assert (address.name, address.listen) == ("127.0.0.1", ())
    assert check_address("localhost", "127.0.0.1", auth=True, tls=True).listen == ()
    assert check_address("127.1.2.3", "127.0.0.1", auth=False, tls=False).listen == ("127.1.2.3",)


def test_a_name_of_this_machine_is_listened_on() -> None:
    address = check_address("sagelet.lab.example", "127.0.0.1", auth=True, tls=True)
    assert (address.name, address.listen) == ("sagelet.lab.example", ("192.0.2.7",))
    assert check_address("two.lab.example", "127.0.0.1", auth=True, tls=True).listen == ("192.0.2.7",)
    assert check_address("sagelet.lab.example", "0.0.0.0", auth=True, tls=True).listen == ()


@pytest.mark.parametrize(
    ("auth", "tls", "missing"),
    [(False, False, "--auth and --tls"), (True, False, "--tls"), (False, True, "--auth")],
)
def test_the_network_is_crossed_with_signatures_and_encryption_only(auth: bool, tls: bool, missing: str) -> None:
    with pytest.raises(SettingsError, match=f"would cross the network; add {missing}$"):
        check_address("sagelet.lab.example", "127.0.0.1", auth=auth, tls=tls)


@pytest.mark.parametrize(
    ("name", "host", "said"),
    [
        (None, "0.0.0.0", r"--host 0.0.0.0 \(there is no --slurm-address\): name the address"),
        ("nowhere.lab.example", "127.0.0.1", "--slurm-address nowhere.lab.example: this name has no address"),
        ("elsewhere.lab.example", "127.0.0.1", "192.0.2.99 is not an address of this machine"),
    ],
)
def test_an_address_that_no_node_could_use_is_refused(name: str | None, host: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        check_address(name, host, auth=True, tls=True)
