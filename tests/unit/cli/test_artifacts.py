"""`sagelet artifacts` and `sagelet open`: what a job left, brought here safely, and its page."""

import errno
import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sagelet_api.cli import open as open_command
from sagelet_api.cli.main import main
from support.api_world import ACCOUNT, REGION, ApiWorld

Sagelet = Callable[..., Result]


def archive(*members: tuple[str, str], links: tuple[tuple[str, str], ...] = ()) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", encoding="utf-8", errors="surrogateescape") as opened:
        for name, text in members:
            made = tarfile.TarInfo(name)
            made.size = len(text)
            opened.addfile(made, io.BytesIO(text.encode()))
        for name, target in links:
            made = tarfile.TarInfo(name)
            made.type, made.linkname = tarfile.SYMTYPE, target
            opened.addfile(made)
    return content.getvalue()


def header(name: str, **fields: Any) -> bytes:
    """Returns a member without its content, and the archive's end."""
    made = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(made, field, value)
    return made.tobuf(tarfile.GNU_FORMAT) + bytes(1024)


@pytest.fixture
def put(world: ApiWorld) -> Callable[[str, bytes], None]:
    """Puts an object into the bucket of the job `done`."""
    world.create(
        "done", OutputDataConfig={"S3OutputPath": "s3://mine/out/"}, CheckpointConfig={"S3Uri": "s3://mine/saved"}
    )
    world.host("done").end(0)
    world.ended("done")
    s3: Any = world.client("s3")
    s3.create_bucket(Bucket="mine")
    return lambda name, content: s3.put_object(Bucket="mine", Key=name, Body=content)


def filled(put: Callable[[str, bytes], None]) -> None:
    put("out/done/output/model.tar.gz", archive(("model.pt", "weights"), ("code/a.py", "1")))
    put("out/done/output/output.tar.gz", archive(("plot.png", "p")))
    put("out/done/source/sourcedir.tar.gz", b"not an artifact")
    put("out/done2/output/model.tar.gz", b"another job's")
    put("saved/step-1/state.pt", b"one")
    put("saved/step-1/", b"")
    put("saved-elsewhere/x", b"another's")


def test_what_a_job_left_is_listed(put: Callable[[str, bytes], None], sagelet: Sagelet) -> None:
    assert "done (Completed) has left nothing in S3" in sagelet("artifacts", "ls", "done").stderr
    filled(put)
    rows = [line.split("\t") for line in sagelet("artifacts", "ls", "done").stdout.splitlines()]
    assert [(row[0], row[3]) for row in rows] == [
        ("model", "s3://mine/out/done/output/model.tar.gz"),
        ("output", "s3://mine/out/done/output/output.tar.gz"),
        ("checkpoint", "s3://mine/saved/step-1/state.pt"),
    ]
    assert rows[2][1] == "3"
    found = json.loads(sagelet("artifacts", "ls", "done", "--json").stdout)
    assert found[2]["bytes"] == 3


def test_more_than_a_page_of_checkpoints(put: Callable[[str, bytes], None], sagelet: Sagelet) -> None:
    for number in range(1_005):
        put(f"saved/{number:04d}", b"")
    assert len(sagelet("artifacts", "ls", "done").stdout.splitlines()) == 1_005


def test_what_a_job_left_is_brought_here(
    put: Callable[[str, bytes], None], sagelet: Sagelet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(put)
    monkeypatch.chdir(tmp_path)
    done = sagelet("artifacts", "get", "done")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "done/model.tar.gz", "done/output.tar.gz", "done/checkpoints/step-1/state.pt",
    ]  # fmt: skip
    assert Path("done/checkpoints/step-1/state.pt").read_bytes() == b"one"
    again = sagelet("artifacts", "get", "done")
    assert (again.exit_code, "done is not empty: name another directory with --to" in again.stderr) == (1, True)
    done = sagelet("artifacts", "get", "done", "--to", "new/place", "--unpack", "--only", "model", "--json")
    assert json.loads(done.stdout) == {
        "directory": "new/place", "files": ["new/place/model/code/a.py", "new/place/model/model.pt"], "left_out": [],
    }  # fmt: skip
    assert Path("new/place/model/model.pt").read_text() == "weights"
    assert os.listdir("new/place") == ["model"]


HOSTILE_KEYS = ("saved/../../escaped", "saved//etc/passwd", "saved/./a", "saved/x/../../y", f"saved/{'n' * 300}")


def test_names_that_lead_elsewhere_are_left_out(
    put: Callable[[str, bytes], None], sagelet: Sagelet, tmp_path: Path
) -> None:
    for name in HOSTILE_KEYS:
        put(name, b"evil")
    put("saved/\x1b[31mred\n", b"good")
    put("saved/file", b"good")
    put("saved/file/below", b"no place")
    target = tmp_path / "there" / "in"
    done = sagelet("artifacts", "get", "done", "--to", str(target))
    assert done.exit_code == 1
    assert done.stderr.count("Left out: s3://mine/saved") == len(HOSTILE_KEYS) + 1
    here = {path.relative_to(tmp_path / "there") for path in (tmp_path / "there").rglob("*") if path.is_file()}
    assert here == {Path("in/checkpoints/\x1b[31mred\n"), Path("in/checkpoints/file")}
    assert (target / "checkpoints/file").read_bytes() == b"good"


@pytest.mark.parametrize(
    "content",
    [
        archive(("../escaped", "evil")),
        archive(("in/evil", "x"), links=(("in2", "/etc"),)),
        archive(links=(("up", ".."),)),
        archive(("ok", "x"))[:-20],
        b"no archive",
    ],
)
def test_a_hostile_or_damaged_archive_leaves_nothing(
    put: Callable[[str, bytes], None], sagelet: Sagelet, tmp_path: Path, content: bytes
) -> None:
    put("out/done/output/model.tar.gz", content)
    put("out/done/output/output.tar.gz", archive(("fine", "1")))
    done = sagelet("artifacts", "get", "done", "--to", str(tmp_path / "to"), "--unpack")
    assert done.exit_code == 1
    assert "Left out: s3://mine/out/done/output/model.tar.gz: cannot be unpacked: " in done.stderr
    assert {path.relative_to(tmp_path / "to") for path in (tmp_path / "to").rglob("*")} == {
        Path("output"), Path("output/fine"),
    }  # fmt: skip
    assert not (tmp_path / "escaped").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is not a tar archive, plain or compressed by gzip (empty file)"),
        (gzip.compress(b"a model" * 200), "it is not a tar archive, plain or compressed by gzip (invalid header)"),
        (gzip.compress(header("weights.bin", size=1 << 60)), "with 'weights.bin' its members take more than the "),
        (gzip.compress(header("null", type=tarfile.CHRTYPE)), "'null' is a special file"),
        (
            archive(("../\x1b[31m\nLeft out: nothing", "evil")),
            "'../\\x1b[31m\\nLeft out: nothing' would be extracted outside",
        ),
    ],
)
def test_what_is_wrong_with_an_archive_is_said(
    put: Callable[[str, bytes], None], sagelet: Sagelet, tmp_path: Path, content: bytes, reason: str
) -> None:
    put("out/done/output/model.tar.gz", content)
    done = sagelet("artifacts", "get", "done", "--to", str(tmp_path / "to"), "--unpack")
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Left out: s3://mine/out/done/output/model.tar.gz: cannot be unpacked: {reason}")


def test_a_name_is_one_line_that_no_terminal_obeys(
    put: Callable[[str, bytes], None], sagelet: Sagelet, tmp_path: Path
) -> None:
    names = ("\x1b[31mred", "a\n/etc/passwd", "caf\udce9", "tab\there")
    put("out/done/output/model.tar.gz", archive(*((name, "1") for name in names)))
    put("out/done/output/x\n\x1b[2J", b"1")
    shown = (
        sagelet("artifacts", "ls", "done").stdout
        + sagelet("artifacts", "get", "done", "--to", str(tmp_path / "a")).stdout
    )
    assert len(shown.splitlines()) == 4
    done = sagelet("artifacts", "get", "done", "--to", str(tmp_path / "b"), "--unpack", "--only", "model")
    assert [line.rpartition("model/")[2] for line in done.stdout.splitlines()] == [
        "\u241b[31mred", "a\u240a/etc/passwd", "caf\ufffd", "tab\u2409here",
    ]  # fmt: skip
    assert not set("\x1b\t") & set(shown.replace("\t", "", 6) + done.stdout)
    told = sagelet(
        "artifacts", "get", "done", "--to", str(tmp_path / "c"), "--unpack", "--only", "model", "--json"
    ).stdout
    assert sorted(Path(name).name for name in json.loads(told)["files"]) == sorted(
        ["passwd", *(n for n in names if "/" not in n)]
    )


def test_an_absolute_name_in_an_archive_is_below_the_directory(
    put: Callable[[str, bytes], None], sagelet: Sagelet, tmp_path: Path
) -> None:
    put("out/done/output/model.tar.gz", archive((f"{tmp_path}/absolute", "1")))
    done = sagelet("artifacts", "get", "done", "--to", str(tmp_path / "to"), "--unpack")
    assert f"{tmp_path}/to/model{tmp_path}/absolute" in done.stdout.splitlines()
    assert not (tmp_path / "absolute").exists()


def test_an_object_is_not_written_through_an_unpacked_link(
    put: Callable[[str, bytes], None], sagelet: Sagelet, tmp_path: Path
) -> None:
    put("out/done/output/model.tar.gz", archive(("deep/file", "1"), links=(("link", "deep"),)))
    put("out/done/output/model/link/file2", b"evil")
    done = sagelet("artifacts", "get", "done", "--to", str(tmp_path / "to"), "--unpack")
    assert done.exit_code == 1
    assert not (tmp_path / "to/model/deep/file2").exists()


# --- the page ---------------------------------------------------------------------------------------------------------


def test_the_address_of_a_page_is_printed(world: ApiWorld, put: object, sagelet: Sagelet) -> None:
    url = sagelet("open", "done").stdout.strip()
    page = f"http://127.0.0.1:{world.port}/_sagelet/ui/jobs/done?account={ACCOUNT}&region={REGION}"
    assert url == page
    shown = world.page(url.partition(str(world.port))[2])
    assert (shown.status, "done" in shown.data.decode()) == (200, True)
    assert json.loads(sagelet("open", "--json").stdout)["url"].partition("?")[0].endswith("/_sagelet/ui/")
    nope = sagelet("open", "nope")
    assert nope.exit_code == 1
    assert "has no training, tuning or processing job nope in" in nope.stderr


@pytest.mark.parametrize(("screen", "opened"), [({"DISPLAY": ":0"}, True), ({}, False)])
def test_a_browser_is_opened_where_there_is_one(
    world: ApiWorld, put: object, monkeypatch: pytest.MonkeyPatch, screen: dict[str, str], opened: bool
) -> None:
    shown: list[str] = []
    for name in open_command._SCREENS:
        monkeypatch.delenv(name, raising=False)
    for name, value in screen.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(open_command.sys, "platform", "linux")
    monkeypatch.setattr(open_command, "_is_terminal", lambda: True)
    monkeypatch.setattr(open_command.webbrowser, "open", lambda url: bool(shown.append(url)) or True)
    done = CliRunner().invoke(
        main, ["open", "done", "--endpoint", f"http://127.0.0.1:{world.port}", "--region", REGION]
    )
    assert done.exit_code == 0
    assert shown == ([done.stdout.strip()] if opened else [])
    assert ("This machine has no browser" in done.stderr) is not opened


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_part_of_an_archive_does_not_stay(
    put: Callable[[str, bytes], None],
    sagelet: Sagelet,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
) -> None:
    def unpack(_archive: Path, directory: Path) -> None:
        (directory / "begun").touch()
        raise error

    monkeypatch.setattr("sagelet_engine.base.tarballs.unpack", unpack)
    put("out/done/output/model.tar.gz", archive(("model.pt", "weights")))
    done = sagelet("artifacts", "get", "done", "--to", str(tmp_path / "to"), "--unpack")
    assert done.exit_code == (1 if isinstance(error, OSError) else 130)
    assert list((tmp_path / "to").iterdir()) == []
