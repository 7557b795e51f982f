"""The artifact browser: folders of objects, what is in archives, texts and downloads."""

import gzip
import io
import re
import tarfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import pytest

from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.web.archives import Archives
from sagelet_api.web.folders import MOST_CRUMBS, crumbs, members_at, objects_at
from sagelet_engine.base.contents import MOST_LETTERS, Contents, Member, contents, member_at
from sagelet_engine.model.objects import S3Uri
from sagelet_engine.s3.errors import DamagedObject
from support.api_world import ApiWorld
from support.world import request

EVIL = "<img src=x onerror=alert(1)>"
INSIDE = "/_sagelet/ui/inside"


@pytest.fixture
def world(tmp_path: Path, bridge: MotoBridge) -> Iterator[ApiWorld]:
    with ApiWorld(tmp_path, bridge) as opened:
        yield opened


def archive(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as opened:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            opened.addfile(member, io.BytesIO(data))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            opened.addfile(member)
    return buffer.getvalue()


MODEL = archive(
    {
        "./config.json": b'{"hidden": 128}',
        "weights.bin": b"\0" * 5000,
        "checkpoints/best/optimizer.pt": b"\0\1" * 100,
        "checkpoints/log.txt": EVIL.encode(),
        EVIL: b"evil",
        "../outside": b"x",
    },
    {"latest": "/etc/passwd"},
)


def test_a_level_of_an_archive_has_its_folders_with_what_is_in_them() -> None:
    found = contents(io.BytesIO(MODEL))
    assert found.whole
    entries = {entry.name: entry for entry in members_at(found.members, "")}
    assert entries["checkpoints/"].size == 200 + len(EVIL)
    assert entries["checkpoints/"].note == "2 files"
    assert entries["config.json"].size == 15
    assert entries["latest"].note == "link to /etc/passwd"
    assert entries["latest"].index is None
    assert [entry.name for entry in members_at(found.members, "checkpoints/")] == ["best/", "log.txt"]
    assert [(one.name, one.key) for one in crumbs("checkpoints/best/")] == [
        ("checkpoints/", "checkpoints/"),
        ("best/", "checkpoints/best/"),
    ]


def test_a_file_of_an_archive_is_read_by_its_place() -> None:
    with member_at(io.BytesIO(MODEL), 0) as (member, content):
        assert (member.name, content.read()) == ("./config.json", b'{"hidden": 128}')
    with pytest.raises(KeyError), member_at(io.BytesIO(MODEL), 6):
        pass  # A link is never followed.
    with pytest.raises(KeyError), member_at(io.BytesIO(MODEL), 7):
        pass


def test_the_work_for_a_hostile_archive_is_bounded() -> None:
    bomb = archive({"a": b"1", "zeros": bytes(3_000_000), "b": b"2"})
    assert len(bomb) < 10_000
    found = contents(io.BytesIO(bomb), most_bytes=1_000_000)
    assert not found.whole
    assert [member.name for member in found.members][:1] == ["a"]
    assert not contents(io.BytesIO(MODEL), most_members=2).whole
    cut = contents(io.BytesIO(MODEL[: len(MODEL) // 2]))
    assert cut.damage
    assert contents(io.BytesIO(b"no archive at all")).damage
    assert contents(io.BytesIO(gzip.compress(b"x" * 2000))).damage
    assert contents(io.BytesIO(b"")).members == ()


def test_names_that_come_twice_and_directories_are_kept_apart() -> None:
    members = [
        Member(0, "d", 0, "directory", 0),
        Member(1, "d/a", 1, "file", 0),
        Member(2, "d/a", 2, "file", 0),
        Member(3, "pipe", 0, "special", 0),
    ]
    (folder, pipe) = members_at(members, "")
    assert (folder.note, folder.size, pipe.note) == ("2 files", 3, "special file")
    assert [entry.index for entry in members_at(members, "d/")] == [1, 2]


# --- the pages --------------------------------------------------------------------------------------------------------


def put(world: ApiWorld, key: str, data: bytes, bucket: str = "out") -> str:
    s3 = world.client("s3")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key=key, Body=data)
    return f"s3://{bucket}/{key}"


def page(world: ApiWorld, path: str, status: int = 200) -> str:
    answer = world.page(path)
    assert answer.status == status, path
    text = answer.data.decode()
    assert EVIL not in text
    return text


def test_objects_are_browsed_folder_by_folder(world: ApiWorld) -> None:
    for key in ("a/1.txt", "a/b/2.txt", "a/b/3.txt", "a!.txt", "a0", "c.txt"):
        put(world, key, b"x")
    catalog = world.sagelet.s3.store.catalog
    entries, more = objects_at(catalog, S3Uri("out", ""), "", 10)
    assert ([entry.name for entry in entries], more) == (["a!.txt", "a/", "a0", "c.txt"], "")
    seen: list[str] = []
    after = ""
    while True:
        entries, after = objects_at(catalog, S3Uri("out", ""), after, 1)
        seen += [entry.name for entry in entries]
        if not after:
            break
    assert seen == ["a!.txt", "a/", "a0", "c.txt"]
    assert [one.name for one in objects_at(catalog, S3Uri("out", "a/"), "", 10)[0]] == ["1.txt", "b/"]
    # A prefix is not a folder: S3's own rule.
    assert [one.name for one in objects_at(catalog, S3Uri("out", "a"), "", 10)[0]] == ["a!.txt", "a/", "a0"]
    text = page(world, "/_sagelet/ui/objects?uri=s3://out/a/")
    assert "uri=s3://out/a/b/" in unescape(text)
    assert "Look inside" not in text


def test_a_jobs_artifacts_with_what_is_in_its_archives(world: ApiWorld) -> None:
    world.sagemaker.create_training_job(
        **request("train", OutputDataConfig={"S3OutputPath": "s3://out/models"}),
        CheckpointConfig={"S3Uri": "s3://out/checkpoints"},
    )
    text = page(world, "/_sagelet/ui/jobs/train/artifacts")
    assert text.count("Nothing is there yet.") == 2
    uri = put(world, "models/train/output/model.tar.gz", MODEL)
    put(world, "checkpoints/step-10.pt", b"\0")
    put(world, "models/train/output/damaged.tar.gz", MODEL[:100])
    text = page(world, "/_sagelet/ui/jobs/train/artifacts")
    for name in ("model.tar.gz", "config.json", "checkpoints/", "step-10.pt", "The rest of the archive cannot be read"):
        assert name in text
    assert f"uri={uri}&amp;path=checkpoints/" in text
    assert world.page("/_sagelet/ui/jobs/none/artifacts").status == 404


def test_files_of_an_archive_are_shown_as_text_and_saved(world: ApiWorld) -> None:
    uri = put(world, "model.tar.gz", MODEL)
    text = page(world, f"{INSIDE}?uri={uri}&path=checkpoints/")
    members = dict(re.findall(r'href="[^"]*member=(\d+)">([^<]*)</a>', text))
    (index,) = (number for number, name in members.items() if name == "log.txt")
    assert EVIL in unescape(page(world, f"{INSIDE}/text?uri={uri}&member={index}"))
    assert "This file is not text." in page(world, f"{INSIDE}/text?uri={uri}&member=1")
    saved = world.page(f"{INSIDE}/file?uri={uri}&member={index}")
    assert saved.data == EVIL.encode()
    assert saved.headers["Content-Disposition"] == "attachment; filename=log.txt"
    assert saved.headers["Content-Type"] == "application/octet-stream"
    assert saved.headers["Content-Security-Policy"] == "sandbox"
    assert EVIL in unescape(page(world, f"{INSIDE}?uri={uri}"))
    for wrong in ("6", "99", "-1", "x", ""):
        assert world.page(f"{INSIDE}/file?uri={uri}&member={wrong}").status == 404
        assert world.page(f"{INSIDE}/text?uri={uri}&member={wrong}").status == 404


def test_an_objects_text_is_shown_up_to_a_length(world: ApiWorld) -> None:
    uri = put(world, "notes.txt", EVIL.encode() + b"n" * 300_000)
    text = page(world, f"/_sagelet/ui/text?uri={uri}")
    assert EVIL in unescape(text)
    assert "The file goes on" in text
    assert len(text) < 300_000
    assert "The file is empty." in page(world, f"/_sagelet/ui/text?uri={put(world, 'empty', b'')}")


def test_names_that_are_no_text_hide_no_page(world: ApiWorld) -> None:
    """A tar file holds bytes: `\\udcff` is one that is not UTF-8."""
    world.sagemaker.create_training_job(**request("train", OutputDataConfig={"S3OutputPath": "s3://out/models"}))
    uri = put(world, "models/train/output/model.tar.gz", archive({"\udcff.txt": b"text"}, {"link": "\udcff"}))
    for path in ("/_sagelet/ui/jobs/train/artifacts", f"{INSIDE}?uri={uri}", f"{INSIDE}/text?uri={uri}&member=0"):
        assert "\N{REPLACEMENT CHARACTER}" in page(world, path)
    assert world.page(f"{INSIDE}/file?uri={uri}&member=0").data == b"text"


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("\N{HIRAGANA LETTER A}.txt", "attachment; filename=.txt; filename*=UTF-8''%E3%81%82.txt"),
        ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "attachment; filename=cafe; filename*=UTF-8''caf%C3%A9"),
        ("a\x1b[31m\n\u202egnp.exe", 'attachment; filename="a_[31m__gnp.exe"'),
        ('a"b;c', 'attachment; filename="a\\"b;c"'),
    ],
)
def test_a_file_of_any_name_is_saved(world: ApiWorld, name: str, header: str) -> None:
    uri = put(world, "model.tar.gz", archive({name: b"text"}))
    saved = world.page(f"{INSIDE}/file?uri={uri}&member=0")
    assert (saved.status, saved.data) == (200, b"text")
    assert saved.headers["Content-Disposition"] == header
    saved = world.page(f"/_sagelet/ui/object?uri={quote(put(world, f'folder/{name}', b'object'), safe='')}")
    assert (saved.status, saved.data) == (200, b"object")
    assert saved.headers["Content-Disposition"] == header


@pytest.mark.parametrize("path", ["/inside", "/inside/text", "/inside/file", "/text"])
def test_other_accounts_archives_are_not_there(world: ApiWorld, path: str) -> None:
    theirs = world.client("s3", account="999999999999")
    theirs.create_bucket(Bucket="theirs")
    theirs.put_object(Bucket="theirs", Key="m.tar.gz", Body=MODEL)
    answer = world.page(f"/_sagelet/ui{path}?uri={quote('s3://theirs/m.tar.gz')}&member=0")
    assert answer.status == 404
    assert b"config.json" not in answer.data


def test_a_page_opens_some_archives_and_links_to_the_others(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.sagemaker.create_training_job(**request("train", OutputDataConfig={"S3OutputPath": "s3://out/models"}))
    for number in range(9):
        put(world, f"models/train/output/{number}.tar.gz", archive({f"file-{number}": b"x"}))
    asked: list[int] = []

    def counted(data: BinaryIO, *, most_bytes: int) -> Contents:
        asked.append(most_bytes)
        return contents(data, most_bytes=most_bytes)

    monkeypatch.setattr("sagelet_api.web.archives.contents", counted)
    text = page(world, "/_sagelet/ui/jobs/train/artifacts")
    assert list(dict.fromkeys(re.findall(r"file-\d", text))) == [f"file-{number}" for number in range(4)]
    assert re.findall(r">Show the files in (\d)", text) == list("45678")
    assert len(asked) == 4
    # All of them share one bound.
    assert asked == sorted(set(asked), reverse=True)
    page(world, "/_sagelet/ui/jobs/train/artifacts")
    assert len(asked) == 4, "what was found is remembered"
    assert "file-8" in page(world, f"{INSIDE}?uri=s3://out/models/train/output/8.tar.gz")


def test_a_bomb_costs_a_page_its_bound_and_no_more(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagelet_api.web.artifacts.MOST_UNPACKED", 1_000_000)
    world.sagemaker.create_training_job(**request("train", OutputDataConfig={"S3OutputPath": "s3://out/models"}))
    for name in ("a", "b"):
        put(world, f"models/train/output/{name}.tar.gz", archive({name: b"1", "zeros": bytes(3_000_000), "end": b"2"}))
    text = page(world, "/_sagelet/ui/jobs/train/artifacts")
    assert "The archive is large: this is its beginning" in text
    assert ">Show the files in b.tar.gz<" in text
    # Asked for, all of it is shown: a page's bound is not remembered as the archive's end.
    assert "The archive is large" not in page(world, f"{INSIDE}?uri=s3://out/models/train/output/a.tar.gz")


def test_damaged_archives_count_for_a_page_too(world: ApiWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def damaged(_self: Archives, uri: S3Uri, *, most_bytes: int) -> Contents:
        opened.append(uri.key)
        raise DamagedObject(uri.key)

    monkeypatch.setattr(Archives, "contents", damaged)
    world.sagemaker.create_training_job(**request("train", OutputDataConfig={"S3OutputPath": "s3://out/models"}))
    for number in range(9):
        put(world, f"models/train/output/{number}.tar.gz", archive({"file": b"x"}))
    page(world, "/_sagelet/ui/jobs/train/artifacts")
    assert len(opened) == 4


def long_names(count: int, length: int) -> bytes:
    return archive({f"{number:06}{'n' * length}": b"" for number in range(count)})


@pytest.mark.parametrize(("count", "length"), [(60, 200_000), (120, 200_000), (2_000, 4_000), (4_900, 200)])
def test_long_names_in_an_archive_make_no_long_page(world: ApiWorld, count: int, length: int) -> None:
    """Names compress to almost nothing: 131 KiB with 490 names of 200,000 letters made a page of 187 MiB."""
    s3 = world.client("s3")
    s3.create_bucket(Bucket="names")
    s3.put_object(Bucket="names", Key="model.tar.gz", Body=long_names(count, length))
    page = world.page(f"{INSIDE}?uri=s3://names/model.tar.gz")
    assert page.status == 200
    assert len(page.data) < 2 * 1024**2
    assert b"this is its beginning" in page.data
    listed = contents(io.BytesIO(long_names(count, length)))
    assert sum(len(member.name) for member in listed.members) <= MOST_LETTERS
    assert not listed.whole


def test_a_deep_path_has_few_links_to_what_is_above(world: ApiWorld) -> None:
    deep = "d/" * 1900
    assert [one.name for one in crumbs(deep)] == ["d/"] * MOST_CRUMBS
    assert crumbs(deep)[-1].key == deep
    s3 = world.client("s3")
    s3.create_bucket(Bucket="deep")
    s3.put_object(Bucket="deep", Key="a.tar.gz", Body=archive({f"{deep}file": b"x"}))
    page = world.page(f"{INSIDE}?uri=s3://deep/a.tar.gz&path={deep}")
    assert b">file<" in page.data
    assert len(page.data) < 200_000
    assert len(world.page(f"{INSIDE}?uri=s3://deep/a.tar.gz&path={'e/' * 15_000}").data) < 200_000


def test_a_member_with_a_long_name_is_shown_and_saved_by_its_beginning(world: ApiWorld) -> None:
    s3 = world.client("s3")
    s3.create_bucket(Bucket="long")
    s3.put_object(Bucket="long", Key="a.tar.gz", Body=long_names(1, 100_000))
    assert len(world.page(f"{INSIDE}/text?uri=s3://long/a.tar.gz&member=0").data) < 20_000
    saved = world.page(f"{INSIDE}/file?uri=s3://long/a.tar.gz&member=0")
    assert len(saved.headers["Content-Disposition"]) < 1_000
