"""images/training/installing/remote_wheel.py: a wheel without what is left out of it, from a server that counts."""

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from installing.remote_wheel import PIECE, NotInRanges, RemoteWheel
from support.small_torch import torch_wheel
from torch_without_cuda.wheel import DROPPED, without_cuda

BIG = b"kernel" * (PIECE // 2)


class Index(ThreadingHTTPServer):
    """Sends one file. `ranges`: whether in parts. The first `broken` answers are cut short."""

    def __init__(self, content: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content, self.ranges, self.broken, self.sent = content, True, 0, 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/packages/torch-2.9.0-py3-none-any.whl"


class Handler(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        named = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"])
        assert named is not None
        begin, end = int(named[1]), int(named[2]) + 1
        content = self.server.content[begin:end] if self.server.ranges else self.server.content
        with self.server.lock:
            cut = self.server.broken > 0 and end - begin > 1
            self.server.broken -= cut
            self.server.sent += len(content)
        self.send_response(206 if self.server.ranges else 200)
        if self.server.ranges:
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(self.server.content)}")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small torch, with a kernel of several pieces and a library of several pieces beside it."""
    made = torch_wheel(tmp_path_factory.mktemp("torch"))
    with ZipFile(made, "a", ZIP_DEFLATED) as archive:
        members = {member.filename for member in archive.infolist()}
        for name, content in (("torch/lib/libtorch_cuda_big.so", BIG), ("torch/lib/libother.so", BIG)):
            if name not in members:
                archive.writestr(name, content, compress_type=0)
    return made


@pytest.fixture
def index(wheel: Path) -> Iterator[Index]:
    with Index(wheel.read_bytes()) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def fetch(index: Index, folder: Path) -> Path:
    return RemoteWheel(index.url, {}).fetch(folder, DROPPED, lambda _done, _total: None)


def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_rewritten_wheel_is_the_same_and_kernels_are_not_sent(index: Index, wheel: Path, tmp_path: Path) -> None:
    for name in ("parts", "whole", "remote"):
        (tmp_path / name).mkdir()
    seen: list[tuple[int, int]] = []
    partial = RemoteWheel(index.url, {}).fetch(tmp_path / "remote", DROPPED, lambda *both: seen.append(both))
    assert contents(without_cuda(partial, tmp_path / "parts")) == contents(without_cuda(wheel, tmp_path / "whole"))
    with ZipFile(wheel) as archive:
        dropped = sum(member.compress_size for member in archive.infolist() if DROPPED.match(member.filename))
    assert dropped >= len(BIG)
    # The archive's directory is sent twice: once to be read, once beside the last member.
    assert index.sent < len(index.content) - dropped + 100_000
    assert seen[-1][0] == seen[-1][1] == max(total for _, total in seen)


def test_an_answer_that_is_cut_short_is_asked_for_again(index: Index, wheel: Path, tmp_path: Path) -> None:
    index.broken = 2
    with ZipFile(fetch(index, tmp_path)) as partial, ZipFile(wheel) as whole:
        assert partial.read("torch/lib/libother.so") == whole.read("torch/lib/libother.so")


def test_an_index_that_breaks_off_for_good_is_given_up(index: Index, tmp_path: Path) -> None:
    index.broken = 1_000_000
    with pytest.raises(NotInRanges, match=r"127\.0\.0\.1: "):
        fetch(index, tmp_path)
    assert [*tmp_path.iterdir()] == []


def test_an_index_that_sends_the_whole_is_no_index_of_ranges(index: Index, tmp_path: Path) -> None:
    index.ranges = False
    with pytest.raises(NotInRanges, match="does not answer requests for ranges"):
        fetch(index, tmp_path)


def test_what_is_no_wheel_is_refused(index: Index, tmp_path: Path) -> None:
    index.content = b"<html>" * 10_000
    with pytest.raises(NotInRanges, match="zip file"):
        fetch(index, tmp_path)


@pytest.mark.parametrize("url", ["http://mirror.example/torch.whl", "ftp://127.0.0.2/torch.whl"])
def test_the_wheel_s_digest_is_not_given_up_without_https(url: str, tmp_path: Path) -> None:
    with pytest.raises(NotInRanges, match="is not https"):
        RemoteWheel(url, {}).fetch(tmp_path, DROPPED, lambda _done, _total: None)


def test_the_name_is_that_of_the_file() -> None:
    assert (
        RemoteWheel("https://a/b/torch-2.9.0%2Bcpu-py3-none-any.whl?x=1", {}).name == "torch-2.9.0+cpu-py3-none-any.whl"
    )
