"""The writing side of a connection."""

import socket

import pytest

from sagelet_api.http.connection import MOST_JOINED, ResponseWriter


class Wire(socket.socket):
    """Takes so many bytes at once, and keeps each piece."""

    def __init__(self, most: int = 2**62) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self._most = most

    def send(self, data: "bytes | memoryview", _flags: int = 0) -> int:  # type: ignore[override]
        self.pieces.append(bytes(data[: self._most]))
        return len(self.pieces[-1])


@pytest.fixture
def wire() -> Wire:
    with Wire() as wire:
        return wire


def test_a_head_goes_out_with_the_beginning_of_its_body(wire: Wire) -> None:
    out = ResponseWriter(wire)
    with out.together():
        out.write(b"HTTP/1.1 200 OK\r\n\r\n")
        out.write(b"first")
        assert wire.pieces == []
    out.write(b"second")
    assert wire.pieces == [b"HTTP/1.1 200 OK\r\n\r\nfirst", b"second"]
    assert out.bytes_written == len(b"".join(wire.pieces))


def test_large_bodies_are_not_copied_for_that(wire: Wire) -> None:
    out = ResponseWriter(wire)
    with out.together():
        out.write(b"head")
        out.write(b"x" * MOST_JOINED)
    assert wire.pieces == [b"head", b"x" * MOST_JOINED]


def test_what_was_written_before_an_error_goes_out(wire: Wire) -> None:
    """It may be cheroot's own 500."""
    out = ResponseWriter(wire)

    def answer() -> None:
        with out.together():
            out.write(b"head")
            raise ValueError("body")

    with pytest.raises(ValueError, match="body"):
        answer()
    out.write(b"more")
    assert wire.pieces == [b"head", b"more"]


def test_a_client_may_take_a_little_at_a_time() -> None:
    with Wire(most=3) as wire:
        ResponseWriter(wire).write(b"12345678")
    assert wire.pieces == [b"123", b"456", b"78"]


def test_nothing_written_is_nothing_sent(wire: Wire) -> None:
    with ResponseWriter(wire).together():
        pass
    assert wire.pieces == []
