"""Archives of a few KB that would be gigabytes, go on for ever, or lead out of their directory."""

import gzip
import os
import resource
import struct
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sagelet_engine.base.extraction import MOST_HEADER
from sagelet_engine.base.tarballs import TooLarge, unpack

MIB = 1024**2


def packed(path: Path, blocks: Iterator[bytes]) -> Path:
    """A .tar.gz of headers and content, and its end."""
    with gzip.open(path, "wb", compresslevel=1) as out:
        for block in blocks:
            out.write(block)
        out.write(bytes(1024))
    return path


def header(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, link
    return info.tobuf(tarfile.GNU_FORMAT)


def memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_content_ends_where_it_may_not_go_on(tmp_path: Path) -> None:
    def blocks() -> Iterator[bytes]:
        yield header("zeros", size=50 * MIB)
        yield from (bytes(MIB) for _ in range(50))

    bomb = packed(tmp_path / "x", blocks())
    assert bomb.stat().st_size < MIB
    with pytest.raises(TooLarge):
        unpack(bomb, tmp_path / "t", 10 * MIB)
    assert not (tmp_path / "t/zeros").exists()


def test_members_without_content_count(tmp_path: Path) -> None:
    """A million of them are some KB, a million inodes, and gigabytes of tarfile's memory."""
    bomb = packed(tmp_path / "x", (header(f"f{number}") for number in range(20_000)))
    with pytest.raises(TooLarge):
        unpack(bomb, tmp_path / "t", 4 * MIB)
    assert 500 < len(os.listdir(tmp_path / "t")) <= 1024


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_has_an_end(tmp_path: Path, kind: bytes) -> None:
    """tarfile takes it into memory whole."""

    def blocks() -> Iterator[bytes]:
        yield header("bomb", kind, size=100 * MIB)
        yield from (bytes(MIB) for _ in range(100))
        yield header("file")

    bomb = packed(tmp_path / "x", blocks())
    before = memory()
    with pytest.raises(tarfile.TarError):
        unpack(bomb, tmp_path / "t")
    assert memory() - before < 50 * MIB


def test_a_header_of_headers_has_an_end(tmp_path: Path) -> None:
    """Each is read by a call within the call before."""
    long = header("x", tarfile.GNUTYPE_LONGNAME, size=1) + b"x" + bytes(511)
    with pytest.raises(tarfile.TarError):
        unpack(packed(tmp_path / "x", iter([long] * 5000)), tmp_path / "t")


def test_numbers_without_end(tmp_path: Path) -> None:
    """CVE-2024-6232: the time that tarfile takes for them grows with the square of their digits."""
    digits = b"1" * (MOST_HEADER - 4096)
    blocks = iter([header("x", tarfile.XHDTYPE, size=len(digits)), digits, bytes(-len(digits) % 512)])
    with pytest.raises(tarfile.TarError):
        unpack(packed(tmp_path / "x", blocks), tmp_path / "t")


def test_a_size_below_zero(tmp_path: Path) -> None:
    """CVE-2025-8194: the next member is the same one, for ever. A mended Python takes it for the archive's end."""
    block = bytearray(header("x"))
    block[124:136] = b"\xff" * 10 + b"\xfe\x00"
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    with suppress(tarfile.TarError):
        unpack(packed(tmp_path / "x", iter([header("first"), bytes(block)])), tmp_path / "t")
    assert {path.name for path in (tmp_path / "t").iterdir()} <= {"first"}


def sparse(*extents: tuple[int, int], size: int, data: bytes = b"") -> bytes:
    """A member of GNU's old form of files with holes."""
    block = bytearray(header("holes", tarfile.GNUTYPE_SPARSE, size=len(data)))
    for place, extent in enumerate(extents):
        block[386 + 24 * place : 386 + 24 * (place + 1)] = b"%011o\0%011o\0" % extent
    block[483:495] = b"%011o\0" % size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + data + bytes(-len(data) % 512)


def test_holes_count(tmp_path: Path) -> None:
    small = packed(tmp_path / "small", iter([sparse((1000, 4), size=5000, data=b"data")]))
    unpack(small, tmp_path / "t", MIB)
    assert (tmp_path / "t/holes").read_bytes() == bytes(1000) + b"data" + bytes(3996)
    large = packed(tmp_path / "large", iter([sparse((0, 4), size=7 * 1024**3, data=b"data")]))
    with pytest.raises(TooLarge):
        unpack(large, tmp_path / "t", 1024 * MIB)


@pytest.mark.parametrize("extents", [[(1000, 4), (0, 4)], [(0, 4), (2, 4)], [(0, 10_000)]])
def test_a_map_of_holes_that_cannot_be(tmp_path: Path, extents: list[tuple[int, int]]) -> None:
    bomb = packed(tmp_path / "x", iter([sparse(*extents, size=5000, data=b"data" * 2)]))
    with pytest.raises(tarfile.TarError):
        unpack(bomb, tmp_path / "t")


def test_a_chain_of_links_does_not_lead_out(tmp_path: Path) -> None:
    """CVE-2025-4517: its real path is longer than the system can say, so Python took it for one inside."""
    target = tmp_path / "a" / "t"
    (tmp_path / "secret").write_text("secret")
    blocks, path, component = [], "", "d" * 247
    for step in "abcdefghijklmnop":
        blocks.append(header(os.path.join(path, component), tarfile.DIRTYPE))
        blocks.append(_linked(os.path.join(path, step), component))
        path = os.path.join(path, component)
    chain = os.path.join("/".join("abcdefghijklmnop"), "l" * 254)
    blocks.append(_linked(chain, "../" * 16))
    blocks.append(_linked("escape", f"{chain}/../.."))
    blocks.append(_linked("stolen", "escape/secret", tarfile.LNKTYPE))
    blocks.append(_file("stolen", b"written"))
    blocks.append(_file("escape/new", b"written"))
    with pytest.raises(tarfile.TarError):
        unpack(packed(tmp_path / "x", iter(blocks)), target)
    assert (tmp_path / "secret").read_text() == "secret"
    assert sorted(os.listdir(tmp_path)) == ["a", "secret", "x"]


def _linked(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info.tobuf(tarfile.GNU_FORMAT)


def _file(name: str, content: bytes) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def test_a_file_does_not_go_through_a_link_of_its_name(tmp_path: Path) -> None:
    blocks = [_linked("link", "other"), _file("other", b"stays"), _file("link", b"new")]
    unpack(packed(tmp_path / "x", iter(blocks)), tmp_path / "t")
    assert (tmp_path / "t/other").read_bytes() == b"stays"
    assert (tmp_path / "t/link").read_bytes() == b"new"


def test_two_members_that_need_one_place(tmp_path: Path) -> None:
    blocks = [header("d", tarfile.DIRTYPE), _file("d/f", b"x"), _file("d", b"y")]
    with pytest.raises(tarfile.TarError):
        unpack(packed(tmp_path / "x", iter(blocks)), tmp_path / "t")


def test_a_size_in_the_millions_of_terabytes(tmp_path: Path) -> None:
    block = bytearray(header("x"))
    block[124:136] = b"\x80" + struct.pack(">Q", 2**62).rjust(11, b"\0")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    with pytest.raises(TooLarge):
        unpack(packed(tmp_path / "x", iter([bytes(block)])), tmp_path / "t", MIB)
