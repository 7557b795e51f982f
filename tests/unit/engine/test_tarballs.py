"""Tar files: nothing lands outside, nothing but files comes along, broken archives are TarErrors."""

import bz2
import gzip
import io
import lzma
import os
import socket
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sagelet_engine.base.tarballs import merged, pack, unpack
from sagelet_engine.data.removal import remove_tree


def raw(*members: tarfile.TarInfo, data: bytes = b"") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for member in members:
            member.size = len(data) if member.isreg() else 0
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def test_what_was_packed_comes_back(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep/er").mkdir(parents=True)
    (source / "deep/er/a").write_bytes(b"a" * 100_000)
    (source / "ü \n").write_bytes(b"odd")
    (source / "run.sh").write_text("#!/bin/sh")
    (source / "run.sh").chmod(0o755)
    (source / "link").symlink_to("deep/er/a")
    pack([source], tmp_path / "x.tar.gz")
    unpack(tmp_path / "x.tar.gz", tmp_path / "target")
    assert (tmp_path / "target/link").read_bytes() == b"a" * 100_000
    assert (tmp_path / "target/ü \n").read_bytes() == b"odd"
    assert os.access(tmp_path / "target/run.sh", os.X_OK)


def test_directories_are_merged_and_the_last_one_wins(tmp_path: Path) -> None:
    hosts = [tmp_path / name for name in ("one", "two", "three")]
    content = (
        {"same": "1", "only-1": "1", "both/1": "1", "dir-then-file/x": "1", "file-then-dir": "1"},
        {"same": "2", "both/2": "2", "both/same": "2", "dir-then-file": "2", "file-then-dir/x": "2"},
        {"both/same": "3", "both/deep/er/3": "3"},
    )
    for host, files in zip(hosts, content, strict=True):
        for name, text in files.items():
            (host / name).parent.mkdir(parents=True, exist_ok=True)
            (host / name).write_text(text)
    (hosts[0] / "both/link").symlink_to("1")
    pack(hosts, tmp_path / "x.tar.gz")
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        assert len(archive.getnames()) == len(set(archive.getnames()))
    unpack(tmp_path / "x.tar.gz", tmp_path / "target")
    found = {path.relative_to(tmp_path / "target").as_posix(): path for path in (tmp_path / "target").rglob("*")}
    assert {name: path.read_text() for name, path in found.items() if path.is_file()} == {
        "same": "2",
        "only-1": "1",
        "both/1": "1",
        "both/2": "2",
        "both/link": "1",
        "both/same": "3",
        "both/deep/er/3": "3",
        "dir-then-file": "2",
        "file-then-dir/x": "2",
    }


def test_a_link_to_a_directory_is_not_followed(tmp_path: Path) -> None:
    for host in ("one", "two"):
        (tmp_path / host).mkdir()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/key").touch()
    (tmp_path / "one/d").mkdir()
    (tmp_path / "two/d").symlink_to(tmp_path / "secret")
    assert [name for name, _ in merged([tmp_path / "one", tmp_path / "two"])] == ["d"]
    assert [name for name, _ in merged([tmp_path / "two", tmp_path / "one"])] == ["d"]


def test_hard_links_stay_one_file(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s/a").write_bytes(os.urandom(500_000))
    os.link(tmp_path / "s/a", tmp_path / "s/b")
    pack([tmp_path / "s"], tmp_path / "x.tar.gz")
    assert (tmp_path / "x.tar.gz").stat().st_size < 600_000
    unpack(tmp_path / "x.tar.gz", tmp_path / "t")
    assert (tmp_path / "t/b").read_bytes() == (tmp_path / "s/a").read_bytes()


def test_pipes_and_sockets_stay_out(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    os.mkfifo(tmp_path / "s/pipe")
    (tmp_path / "s/file").touch()
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(tmp_path / "s/socket"))
        pack([tmp_path / "s"], tmp_path / "x.tar.gz")
    finally:
        listener.close()
    with tarfile.open(tmp_path / "x.tar.gz") as archive:
        assert archive.getnames() == ["file"]


@pytest.mark.parametrize("compress", [lambda data: data, gzip.compress])
def test_plain_and_gzip_are_read(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    (tmp_path / "x").write_bytes(compress(raw(member("a"), data=b"text")))
    unpack(tmp_path / "x", tmp_path / "t")
    assert (tmp_path / "t/a").read_bytes() == b"text"


@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress])
def test_what_the_toolkit_does_not_read_is_not_read(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """It opens archives with "r:gz", so elsewhere they fail on AWS only."""
    (tmp_path / "x").write_bytes(compress(raw(member("a"), data=b"text")))
    with pytest.raises(tarfile.ReadError):
        unpack(tmp_path / "x", tmp_path / "t")


@pytest.mark.parametrize(
    "members",
    [
        [member("../out")],
        [member("link", tarfile.SYMTYPE, ".."), member("link/out")],
        [member("out", tarfile.SYMTYPE, "/etc/passwd")],
        [member("out", tarfile.LNKTYPE, "../../secret")],
        [member("out", tarfile.CHRTYPE)],
        [member("out", tarfile.FIFOTYPE)],
    ],
)
def test_a_member_that_leaves_or_is_no_file_is_refused(tmp_path: Path, members: list[tarfile.TarInfo]) -> None:
    (tmp_path / "x").write_bytes(raw(*members))
    with pytest.raises(tarfile.TarError):
        unpack(tmp_path / "x", tmp_path / "in/target")
    assert not (tmp_path / "in/out").exists()


def test_an_absolute_name_lands_inside(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(raw(member("/abs/a"), data=b"x"))
    unpack(tmp_path / "x", tmp_path / "t")
    assert (tmp_path / "t/abs/a").read_bytes() == b"x"


@pytest.mark.parametrize("broken", ["empty", "no tar", "cut gzip"])
def test_a_broken_archive_is_a_tar_error(tmp_path: Path, broken: str) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_bytes(os.urandom(200_000))
    pack([source], tmp_path / "good")
    good = (tmp_path / "good").read_bytes()
    content = {
        "empty": b"",
        "no tar": b"x" * 2000,
        "cut gzip": good[: len(good) // 2],
    }[broken]
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(tarfile.TarError):
        unpack(tmp_path / "x", tmp_path / "t")


def test_names_that_are_not_utf_8_come_back_as_they_were(tmp_path: Path) -> None:
    """A file system has bytes for names, and so has a tar file."""
    source, archive = tmp_path / "source", tmp_path / "a.tar.gz"
    names = {"bad\udcff", "new\nline", "\udcfe/in", "\udcfe/ü", "good"}
    (source / "\udcfe").mkdir(parents=True)
    for name in names:
        (source / name).write_bytes(os.fsencode(name))
    pack([source], archive)
    unpack(archive, tmp_path / "back")
    found = {str(path.relative_to(tmp_path / "back")): path for path in (tmp_path / "back").rglob("*")}
    assert found.keys() == names | {"\udcfe"}
    assert {found[name].read_bytes() for name in names} == {os.fsencode(name) for name in names}


def test_what_no_path_reaches_is_told_and_the_rest_is_packed(tmp_path: Path) -> None:
    source, archive = tmp_path / "source", tmp_path / "a.tar.gz"
    source.mkdir()
    (source / "good").write_bytes(b"1")
    here = os.open(source, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    told: list[str] = []
    pack([source], archive, lambda name, _why: told.append(name))
    remove_tree(source)
    with tarfile.open(archive) as packed:
        assert "good" in packed.getnames()
        assert "d/d/d" in packed.getnames()
    (path,) = told
    assert path.endswith("/d")
    assert len(str(source / path)) > 4000
