"""More idle connections than places: clients still get in, and each connection costs as little as the first."""

import http.client
import resource
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from sagelet_api.http import connection_manager
from sagelet_api.http.connection import Connection
from sagelet_api.http.connection_manager import MOST_CONNECTIONS
from sagelet_api.http.server import Server
from sagelet_api.protocol.calls import Environ, StartResponse
from support.server import until

#: More than there are places.
SURPLUS = 200


def hello(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Length", "5")])
    return [b"hello"]


@pytest.fixture
def many_files() -> Iterator[None]:
    """Both ends of each connection are files of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 3 * (MOST_CONNECTIONS + SURPLUS)
    assert hard == resource.RLIM_INFINITY or hard >= needed, "the test needs more open files: ulimit -n"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the server asked a connection for how long it has waited."""
    count = [0]

    def last_used(conn: Connection) -> float:
        count[0] += 1
        return float(conn.__dict__["used"])

    def set_used(conn: Connection, value: float) -> None:
        conn.__dict__["used"] = value

    monkeypatch.setattr(Connection, "last_used", property(last_used, set_used), raising=False)
    return count


@contextmanager
def idle(port: int, count: int, source: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    """Connections that say nothing."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120, source_address=(source, 0)))
            for _ in range(count)
        ]


def ended(connections: Iterable[socket.socket]) -> int:
    """How many of them the server has closed."""
    return sum(_is_ended(one) for one in connections)


def _is_ended(one: socket.socket) -> bool:
    one.setblocking(False)
    try:
        return one.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def answers(port: int, source: str = "127.0.0.1") -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120, source_address=(source, 0))
    connection.request("GET", "/")
    try:
        return connection.getresponse().read() == b"hello"
    finally:
        connection.close()


@pytest.mark.usefixtures("many_files")
def test_a_connection_too_many_is_not_looked_for_among_all(looks: list[int]) -> None:
    flood = MOST_CONNECTIONS + SURPLUS
    with Server(hello, "127.0.0.1", 0) as server, idle(server.port, flood) as connections:
        until(lambda: ended(connections) >= SURPLUS)
        # Those that have waited longest.
        assert ended(connections[:SURPLUS]) == SURPLUS
        assert ended(connections[SURPLUS:]) <= 1
        assert answers(server.port)
    # A scan for each one too many would be SURPLUS * MOST_CONNECTIONS.
    assert looks[0] < 10 * flood


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """A server of 64 places, to which 127.0.0.3 is another machine, or a container."""
    monkeypatch.setattr(connection_manager, "MOST_CONNECTIONS", 64)
    monkeypatch.setattr(connection_manager, "is_loopback", lambda address: address != "127.0.0.3")
    return 64


@pytest.mark.parametrize(("flooded", "kept"), [("127.0.0.3", "127.0.0.1"), ("127.0.0.1", "127.0.0.3")])
def test_loopback_and_others_keep_places_of_their_own(few: int, flooded: str, kept: str) -> None:
    with (
        Server(hello, "127.0.0.1", 0) as server,
        idle(server.port, few // 2, kept) as honest,
        idle(server.port, 4 * few, flooded) as flood,
    ):
        # The oldest of all, and yet none of them goes.
        until(lambda: ended(flood) >= 4 * few - few // 2)
        assert ended(honest) == 0
        assert answers(server.port, kept)
        assert answers(server.port, flooded)
        assert ended(honest) <= 1


def test_who_has_all_places_to_himself_uses_them(few: int) -> None:
    with Server(hello, "127.0.0.1", 0) as server, idle(server.port, few) as connections:
        assert answers(server.port)
        assert ended(connections) <= 1


def test_several_addresses_share_the_files_that_a_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of them are left to the engine, however many addresses there are."""
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (256, 256))
    hosts = ["127.0.0.2", "127.0.0.3"]
    with Server(hello, "127.0.0.1", 0, hosts) as server, idle(server.port, 100) as connections:
        until(lambda: ended(connections) >= 100 - 128 // 3)
        assert answers(server.port)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_loopback(address: str) -> None:
    assert connection_manager.is_loopback(address)


@pytest.mark.parametrize("address", ["172.17.0.2", "::ffff:172.17.0.2", "fd00::1", "0.0.0.0", "", None])
def test_others(address: str | None) -> None:
    assert not connection_manager.is_loopback(address)
