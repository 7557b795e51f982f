"""HTTP that means harm: framing that two programs could read differently, clients that never finish, floods.

SAGELET_TEST_HOSTILE=N runs N seeds of each fuzzer; a failure names the seed, and
`SAGELET_TEST_HOSTILE_SEED=S` runs that one alone.
"""

import http.client
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from sagelet_api.http.server import MOST_THREADS, THREADS, Server, _HttpServer
from support.http_grammar import SMUGGLED, Conversation, conversation, mutated
from support.raw_http import PATIENCE, Answer, Witness, exchange
from support.server import until

SEEDS = int(os.environ.get("SAGELET_TEST_HOSTILE", "400"))
ONE = os.environ.get("SAGELET_TEST_HOSTILE_SEED")
#: Answered by the server itself, or by the application to a body that is broken.
REFUSALS = {400, 405, 413, 414, 417, 501, 505}


@pytest.fixture(scope="module")
def witness() -> Witness:
    return Witness()


@pytest.fixture(scope="module")
def server(witness: Witness) -> Iterator[Server]:
    with Server(witness, "127.0.0.1", 0) as running:
        yield running


def seeds() -> Iterator[int]:
    yield from (range(SEEDS) if ONE is None else [int(ONE)])


def judge(talk: Conversation, answers: list[Answer], witness: Witness) -> None:
    seen = witness.take()
    statuses = [answer.status for answer in answers]
    assert [one for one in seen if one.path.startswith(SMUGGLED) or one.id == "smuggled"] == []
    if talk.valid:
        assert statuses == [200] if talk.first.closes else [200, 200], statuses
        assert seen[0].body == talk.first.content
        assert seen[0].id == "first"
        assert [(one.id, one.body) for one in seen[1:]] == ([] if talk.first.closes else [("second", b"ok")])
    else:
        # The request behind a wrong one is never run: where it begins is anybody's guess.
        assert len(statuses) == 1, statuses
        assert statuses[0] in REFUSALS, statuses
        assert [one for one in seen if one.whole] == []


def test_every_conversation_of_the_grammar(server: Server, witness: Witness) -> None:
    for seed in seeds():
        talk = conversation(seed)
        try:
            judge(talk, exchange(server.port, talk.pieces), witness)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {' '.join(talk.rules)}: {error}") from error


def test_no_bytes_make_a_server_error(server: Server, witness: Witness) -> None:
    for seed in seeds():
        statuses = [answer.status for answer in exchange(server.port, [mutated(seed)])]
        assert {status for status in statuses if status not in REFUSALS | {200}} == set(), f"seed {seed}: {statuses}"
    witness.take()
    assert ask(server.port) == 200


def ask(port: int) -> int:
    """An honest request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with closing(connection):
        connection.request("PUT", "/honest", body=b"{}")
        answer = connection.getresponse()
        answer.read()
        return answer.status


class Drip(threading.Thread):
    """Clients that begin a request, and then send a byte now and then: they are never silent for long."""

    def __init__(self, port: int, count: int, head: bytes) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        self._clients = [socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) for _ in range(count)]
        for client in self._clients:
            client.sendall(head)
            client.setblocking(False)

    def run(self) -> None:
        while not self._over.wait(0.5):
            for client in self._clients:
                with suppress(OSError):  # The server may have had enough of this one.
                    client.send(b"x")

    def stop(self) -> None:
        self._over.set()
        self.join()
        for client in self._clients:
            client.close()


@contextmanager
def dripping(port: int, count: int, head: bytes) -> Iterator[None]:
    drip = Drip(port, count, head)
    drip.start()
    try:
        yield
    finally:
        drip.stop()


HEAD = b"PUT /slow HTTP/1.1\r\nHost: localhost\r\n"
SLOW = {
    "request lines": b"PUT /",
    "headers": HEAD + b"X-Slow: ",
    "small bodies": HEAD + b"Content-Length: 10000\r\n\r\n",
    "large bodies": HEAD + b"Content-Length: 100000000\r\n\r\n",
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffff\r\n",
}


#: More of each than the server has workers at first.
COUNTS = {"large bodies": 60, "chunks": 60}


@pytest.mark.parametrize("kind", SLOW)
def test_slow_clients_keep_nobody_out(kind: str) -> None:
    before = threading.active_count()
    with Server(Witness(), "127.0.0.1", 0) as server, dripping(server.port, COUNTS.get(kind, 300), SLOW[kind]):
        assert [ask(server.port) for _ in range(20)] == [200] * 20
        # Whoever only begins a request holds no worker at all.
        more = MOST_THREADS if kind in COUNTS else THREADS
        assert threading.active_count() - before <= more + 5


def test_a_busy_server_takes_more_workers_when_slow_clients_hold_them_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_HttpServer, "_is_busy", lambda _: True)
    with Server(Witness(), "127.0.0.1", 0) as server, dripping(server.port, 60, SLOW["large bodies"]):
        # An honest request may come in before they hold all workers.
        until(lambda: len(server._servers[0].requests._threads) > THREADS)
        assert ask(server.port) == 200
