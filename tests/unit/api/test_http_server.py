import http.client
import json
import re
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import pytest

from sagelet_api.http import connection, workers
from sagelet_api.http.connection import Connection, ResponseWriter
from sagelet_api.http.connection_manager import IDLE
from sagelet_api.http.server import MAX_HEADER_BYTES, THREADS, TIMEOUT, AddressInUse, Server
from sagelet_api.protocol.calls import Environ, StartResponse
from sagelet_api.protocol.file_body import FileBody
from sagelet_engine.base.errors import SettingsError
from support.server import until


def echo(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answers with the size of the body, read and counted in pieces."""
    size = 0
    while piece := environ["wsgi.input"].read(65536):
        size += len(piece)
    start_response("200 OK", [("Content-Type", "application/json")])
    yield json.dumps({"size": size, "host": environ["HTTP_HOST"]}).encode()


def ask(host: str, port: int, body: bytes = b"") -> dict[str, object]:
    connection = http.client.HTTPConnection(host, port, timeout=120)
    connection.request("PUT", "/", body=body)
    answer: dict[str, object] = json.loads(connection.getresponse().read())
    connection.close()
    return answer


def test_port_zero_is_a_free_port_and_reported() -> None:
    with Server(echo, "127.0.0.1", 0) as server:
        assert server.port > 0
        assert server.endpoint == f"http://127.0.0.1:{server.port}"
        assert ask("127.0.0.1", server.port, b"x" * 3_000_000)["size"] == 3_000_000


def test_a_request_that_computes_without_end_does_not_keep_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """cheroot waits for it without a limit, so SIGTERM did not end a server that checked a large pipeline."""
    monkeypatch.setattr(workers, "LAST_S", 0.1)
    began, end = threading.Event(), threading.Event()

    def compute(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        began.set()
        end.wait()
        start_response("200 OK", [("Content-Length", "0")])
        return []

    # Other servers of this process have workers, too.
    others = {*threading.enumerate()}
    server = Server(compute, "127.0.0.1", 0)
    server.start()
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert began.wait(60)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        stopping.join(60)
        left = [one for one in {*threading.enumerate()} - others if one.name.startswith("sagelet-worker")]
        assert (stopping.is_alive(), [one.daemon for one in left]) == (False, [True])
        end.set()
        for one in left:
            one.join(60)


def test_an_answer_with_its_head_is_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two a client wakes up twice, and waits for the second."""
    pieces: list[bytes] = []
    send = ResponseWriter._send

    def noted(self: ResponseWriter, data: bytes) -> None:
        pieces.append(data)
        send(self, data)

    def answer(_environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Length", "2")])
        return [b"{}"]

    monkeypatch.setattr(ResponseWriter, "_send", noted)
    with Server(answer, "127.0.0.1", 0) as server:
        assert ask("127.0.0.1", server.port) == {}
    (piece,) = pieces
    assert (piece[:15], piece[-2:]) == (b"HTTP/1.1 200 OK", b"{}")


def test_several_addresses_one_port() -> None:
    with Server(echo, "127.0.0.1", 0, ["127.0.0.2"]) as server:
        for host in ("127.0.0.1", "127.0.0.2"):
            assert ask(host, server.port)["host"] == f"{host}:{server.port}"


def test_stop_frees_the_port_and_may_be_repeated() -> None:
    server = Server(echo, "127.0.0.1", 0)
    server.start()
    port = server.port
    server.stop()
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=120)
    with Server(echo, "127.0.0.1", port) as again:
        assert ask("127.0.0.1", again.port)["size"] == 0


def test_port_in_use_names_option_and_holder() -> None:
    with Server(echo, "127.0.0.1", 0) as holder:
        second = Server(echo, "127.0.0.1", holder.port)
        with pytest.raises(AddressInUse, match=rf"{holder.port} is in use by process \d+ .*--port"):
            second.start()


def test_failure_at_the_second_address_closes_the_first() -> None:
    server = Server(echo, "127.0.0.1", 0, ["192.0.2.1"])
    with pytest.raises(SettingsError, match=r"192\.0\.2\.1"):
        server.start()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=120)


def test_keep_alive_without_delay() -> None:
    with Server(echo, "127.0.0.1", 0) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        connection.connect()
        first = connection.sock
        for _ in range(20):
            connection.request("PUT", "/", body=b"abc")
            assert json.loads(connection.getresponse().read())["size"] == 3
        assert connection.sock is first
        connection.close()


def test_expect_continue_is_answered_before_the_body() -> None:
    head = b"PUT / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    with (
        Server(echo, "127.0.0.1", 0) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=120) as raw,
    ):
        raw.sendall(head)
        assert raw.recv(1000).startswith(b"HTTP/1.1 100 Continue")
        raw.sendall(b"abc")
        assert raw.recv(1000).startswith(b"HTTP/1.1 200 OK")


def test_a_file_goes_out_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    for first, length, wanted in ((0, 10, b"0123456789"), (3, 4, b"3456"), (5, 0, b"")):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            body = FileBody(path.open("rb"), first, length)
            body.send(ours)
            body.close()
            ours.close()
            assert theirs.recv(100) == wanted
        assert b"".join(FileBody(path.open("rb"), first, length)) == wanted
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(OSError, match="became shorter"):
        FileBody(path.open("rb"), 5, 10).send(ours)
    with pytest.raises(OSError, match="became shorter"):
        list(FileBody(path.open("rb"), 5, 10))


def exchange(port: int, request: bytes) -> bytes:
    """The answer to bytes as they are, up to the end of the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as raw:
        raw.sendall(request)
        raw.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: raw.recv(65536), b""))


@pytest.mark.parametrize(
    "lines",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        b"Content-Length: 3\r\nContent-Length: 4\r\n",
        b"Content-Length: +3\r\n",
        b"Content-Length: -3\r\n",
        b"Content-Length: 0_3\r\n",
        b"Content-Length : 3\r\n",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        b"Host: other\r\n",
        b"Authorization: a\r\nAuthorization: b\r\n",
        b"X-Amz-Target: a\r\nx-amz-target: b\r\n",
    ],
)
def test_headers_that_mean_two_things_are_refused(lines: bytes) -> None:
    with Server(echo, "127.0.0.1", 0) as server:
        answer = exchange(server.port, b"PUT / HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\nabc")
    assert answer.startswith(b"HTTP/1.1 400 "), answer


def test_a_refused_header_is_shown_as_it_was_sent() -> None:
    with Server(echo, "127.0.0.1", 0) as server:
        answer = exchange(server.port, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\x00b\r\n\r\n")
    assert answer.endswith(rb"'X: a\x00b' is not a header."), answer


def test_a_header_cannot_pass_for_another() -> None:
    def show(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", [])
        yield json.dumps({name: value for name, value in environ.items() if "AMZ" in name}).encode()

    lines = b"X-Amz-Target: signed\r\nX_Amz_Target: smuggled\r\nX-Amz-Meta-a_b: 1\r\nConnection: close\r\n"
    with Server(show, "127.0.0.1", 0) as server:
        answer = exchange(server.port, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + lines + b"\r\n")
    assert b'"HTTP_X_AMZ_TARGET": "signed"' in answer
    assert b'"HTTP_X_AMZ_META_A_B": "1"' in answer
    assert b"smuggled" not in answer


def test_headers_have_a_limit() -> None:
    with Server(echo, "127.0.0.1", 0) as server:
        long = b"X-Long: " + b"x" * (MAX_HEADER_BYTES + 1000) + b"\r\n"
        assert b" 413 " in exchange(server.port, b"GET / HTTP/1.1\r\nHost: localhost\r\n" + long + b"\r\n")[:40]


def readers(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
    """Answers with the body as `readinto` gives it, or without a look at it."""
    memory, body = memoryview(bytearray(5)), b""
    while environ["PATH_INFO"] == "/read" and (count := environ["wsgi.input"].readinto(memory)):
        body += memory[:count]
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def test_a_body_is_read_up_to_its_end_and_no_further() -> None:
    """Requests that come in one go, the first with its body and the body of the second unread."""
    requests = [("/read", b"first body"), ("/", b"nobody reads this"), ("/read", b"third"), ("/read", b"")]
    sent = b"".join(
        b"PUT %s HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body)
        for path, body in requests
    )
    with Server(readers, "127.0.0.1", 0) as server, socket.create_connection(("127.0.0.1", server.port), 120) as client:
        client.sendall(sent)
        answers = client.makefile("rb")
        bodies = []
        for _ in requests:
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
            bodies.append(answers.read(int(http.client.parse_headers(answers)["Content-Length"])))
    assert bodies == [b"first body", b"", b"third", b""]


def test_a_body_that_nobody_reads_is_not_kept() -> None:
    """cheroot reads what is left of it at once."""
    size = 32 << 20
    with Server(readers, "127.0.0.1", 0) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        tracemalloc.start()
        try:
            block = bytes(1 << 16)
            pieces = (block for _ in range(size // len(block)))
            connection.request("PUT", "/refused", body=pieces, headers={"Content-Length": str(size)})
            assert connection.getresponse().read() == b""
            assert tracemalloc.get_traced_memory()[1] < size // 8
        finally:
            tracemalloc.stop()
        connection.request("PUT", "/read", body=b"the next")
        assert connection.getresponse().read() == b"the next"
        connection.close()


def test_a_thread_stays_with_its_connection_only_while_nobody_waits() -> None:
    ours, theirs = socket.socketpair()
    with Server(echo, "127.0.0.1", 0) as server, ours, theirs:
        connection = Connection(server._servers[0], ours)
        assert not connection.comes_soon()
        theirs.send(b"GET / HTTP/1.1\r\n")
        # A part of a request holds no thread.
        assert not connection.comes_soon()
        theirs.send(b"Host: localhost\r\n\r\n")
        # There it goes behind others, who may wait.
        assert not connection.comes_soon()
        again = Connection(server._servers[0], ours)
        theirs.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2)
        again.server = type("Busy", (), {"requests": type("Queue", (), {"qsize": 1})})
        assert not again.comes_soon()
        again.server = server._servers[0]
        assert again.comes_soon()


def test_more_clients_than_threads_that_all_keep_their_connections_are_served() -> None:
    with Server(echo, "127.0.0.1", 0) as server:
        clients = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=120) for _ in range(2 * THREADS)]
        for _ in range(3):
            for client in clients:
                client.request("PUT", "/", body=b"four")
                assert json.loads(client.getresponse().read())["size"] == 4
        for client in clients:
            client.close()


class Shifted:
    """`time`, whose `time.time` is moved on at will."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def time(self) -> float:
        return time.time() + self.ahead

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.fixture
def shifted(monkeypatch: pytest.MonkeyPatch) -> Shifted:
    clock = Shifted()
    for module in ("connection", "connection_manager"):
        monkeypatch.setattr(f"sagelet_api.http.{module}.time", clock)
    return clock


def looked(server: Server) -> None:
    """Returns when the server has looked for late connections, after all that was sent came in."""
    (http_server,) = server._servers
    looks: list[int] = []
    relieve = http_server.relieve
    http_server.relieve = lambda: (looks.append(1), relieve())[1]  # type: ignore[method-assign,func-returns-value]
    until(lambda: len(looks) > 1)
    http_server.relieve = relieve  # type: ignore[method-assign]


def answered(answers: BinaryIO) -> str:
    """The host of the next answer of `echo`, which comes in one chunk."""
    assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
    while answers.readline() != b"\r\n":
        pass
    body = answers.read(int(answers.readline(), 16))
    assert answers.read(7) == b"\r\n0\r\n\r\n"
    host: str = json.loads(body)["host"]
    return host


def test_a_request_has_all_of_its_time_after_an_idle_connection(shifted: Shifted) -> None:
    """Its head may come in pieces, and the server look for late connections in between."""
    with (
        Server(echo, "127.0.0.1", 0) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=120) as raw,
    ):
        answers = raw.makefile("rb")
        raw.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert answered(answers) == "a"
        (http_server,) = server._servers
        until(lambda: len(list(http_server._connections._selector.connections)) == 2)  # The listener, and this one.
        shifted.ahead = IDLE - 10
        raw.sendall(b"GET / HTTP/1.1\r\nHost: b")
        looked(server)
        shifted.ahead += TIMEOUT - 10
        looked(server)
        raw.sendall(b"\r\n\r\n")
        assert answered(answers) == "b"


def test_an_idle_connection_ends_without_a_word_and_half_a_request_with_408(shifted: Shifted) -> None:
    with (
        Server(echo, "127.0.0.1", 0) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=120) as idle,
        socket.create_connection(("127.0.0.1", server.port), timeout=120) as half,
    ):
        half.sendall(b"GET / HTTP/1.1\r\nHost: b")
        looked(server)
        shifted.ahead = TIMEOUT + 1
        assert half.recv(65536).startswith(b"HTTP/1.1 408 ")
        assert half.recv(65536) == b""
        shifted.ahead = IDLE + 1
        assert idle.recv(65536) == b""


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 1000])
def test_a_request_may_come_in_any_pieces(pieces: int) -> None:
    wanted = b"PUT / HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\nContent-Length: 4\r\n\r\nfour" * 2
    with Server(echo, "127.0.0.1", 0) as server, socket.create_connection(("127.0.0.1", server.port), 120) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        size = -(-len(wanted) // pieces)
        for start in range(0, len(wanted), size):
            client.sendall(wanted[start : start + size])
        client.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
        assert answer.count(b'"size": 4') == 2


def test_a_head_is_looked_at_once_however_slowly_its_body_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread takes in what all clients send, and a head may have 256 KiB."""
    looks = []

    class Counted:
        def search(self, head: bytes) -> "re.Match[bytes] | None":
            looks.append(head)
            return length.search(head)

    length = connection._LENGTH
    monkeypatch.setattr(connection, "_LENGTH", Counted())
    server, client = socket.socketpair()
    with server, client:
        reader = connection.RequestReader(server, MAX_HEADER_BYTES)
        client.sendall(b"PUT / HTTP/1.1\r\nContent-Length: 50\r\n\r\n")
        for _ in range(50):
            assert not reader.gather()
            client.sendall(b"x")
        assert reader.gather()
        assert len(looks) == 1
        reader.begin()
        assert (reader.take_head()[:3], reader.read(50)) == (b"PUT", b"x" * 50)
        client.sendall(b"GET / HTTP/1.1\r\nHost: b\r\n\r\n")
        reader.begin()
        assert reader.gather()
        assert len(looks) == 2
