"""tests/support/ports.py: a port that is chosen before it is listened on is not taken meanwhile."""

import re
import socket
from pathlib import Path

from support.ports import HeldPort

ROOT = Path(__file__).parents[2]


def test_whoever_asks_for_any_port_gets_another_one() -> None:
    held = [HeldPort() for _ in range(50)]
    numbers = {one.number for one in held}
    for _ in range(2_000):
        with socket.create_server(("127.0.0.1", 0)) as server:
            assert server.getsockname()[1] not in numbers


def test_a_server_that_is_started_again_listens_on_it() -> None:
    held = HeldPort()
    for _ in range(2):
        with (
            socket.create_server(("127.0.0.1", held.number)) as server,
            socket.create_connection(("127.0.0.1", held.number)),
        ):
            server.accept()[0].close()


def test_it_is_let_go_with_the_object() -> None:
    held = HeldPort()
    number = held.number
    del held
    with socket.socket() as other:
        other.bind(("", number))


def test_nothing_chooses_a_port_and_lets_it_go() -> None:
    """`free_port` and its kind: between the choice and the use another server gets the number."""
    chooser = re.compile(r"def \w*(free|unused|available)_ports?\b")
    directories = [ROOT / name for name in ("tests", "docs", "examples", "images", "emulator", "api")]
    files = [file for directory in directories for file in directory.rglob("*.py")]
    assert [str(file) for file in files if chooser.search(file.read_text(encoding="utf-8"))] == []
