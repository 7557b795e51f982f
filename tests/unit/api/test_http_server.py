import http.client
import json
import socket
from collections.abc import Iterable
from pathlib import Path

import pytest

from sagelet_api.file_body import FileBody
from sagelet_api.protocol import Environ, StartResponse
from sagelet_api.server import MAX_HEADER_BYTES, AddressInUse, Server
from sagelet_engine.errors import SettingsError


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
