import io
from types import SimpleNamespace

import pytest
from urllib3.exceptions import ProtocolError

from sagelet_engine.runtimes.docker.stream import Unchunker, body

CONTENT = [b"a", b"\r\n", b"0\r\n\r\n", b"x" * 70_000, b"last"]


def chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x;name=value\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 1000, 200_000])
def test_chunks_are_found_however_the_bytes_are_cut(size: int) -> None:
    data = chunked(CONTENT)
    unchunker = Unchunker()
    found = b"".join(unchunker.feed(data[start : start + size]) for start in range(0, len(data), size))
    assert found == b"".join(CONTENT)
    assert unchunker.ended


def test_a_stream_that_breaks_off_gives_the_chunks_that_are_whole() -> None:
    data = chunked([b"whole", b"cut"])
    unchunker = Unchunker()
    assert unchunker.feed(data[: data.index(b"cut") + 2]) == b"whole"
    assert not unchunker.ended


def test_what_is_no_chunk_is_said_to_be_none() -> None:
    with pytest.raises(ProtocolError, match="not the size of a chunk"):
        Unchunker().feed(b"HTTP/1.1 200 OK\r\n")


def test_a_body_in_chunks_ends_with_the_last_of_them() -> None:
    answer = SimpleNamespace(chunked=True, _fp=SimpleNamespace(fp=io.BytesIO(chunked(CONTENT) + b"next answer")))
    assert b"".join(body(answer)) == b"".join(CONTENT)


def test_a_body_that_is_not_in_chunks_is_read_as_it_is() -> None:
    answer = SimpleNamespace(chunked=False, stream=lambda size, decode_content: iter(CONTENT))
    assert b"".join(body(answer)) == b"".join(CONTENT)
