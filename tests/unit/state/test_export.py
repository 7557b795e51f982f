"""An export has all of a data directory, and an import makes the same of it, or nothing."""

import gzip
import io
import json
import os
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.database import UnknownSchema
from sagelet_engine.base.errors import DataDirectoryInUse, SageletError, SettingsError
from sagelet_engine.s3.errors import DamagedObject
from sagelet_engine.s3.multipart import NamedPart, Uploads
from sagelet_engine.s3.store import S3Store
from sagelet_engine.state.archive import ArchiveDamaged
from sagelet_engine.state.contents import NoDataDirectory
from sagelet_engine.state.exporting import export_data
from sagelet_engine.state.importing import DataThere, UnknownArchive, import_data
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.store.jobs import Store
from support.data_directory import ACCOUNTS, KEYS, PART, add_linked, add_uploads, contents, fill

BUCKET = f"one-{ACCOUNTS[0][0]}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    fill(tmp_path / "data")
    return tmp_path / "data"


def names(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()}


@pytest.mark.parametrize("ending", [".tar", ".tar.gz", ".tgz"])
def test_all_comes_back(data: Path, tmp_path: Path, ending: str) -> None:
    add_uploads(data, BUCKET)
    add_linked(data, BUCKET, tmp_path / "source")
    (data / "warm-pools/cluster/algo-1").mkdir(parents=True)
    (data / "warm-pools/cluster/algo-1/cached").write_bytes(b"c")
    target = tmp_path / f"saved{ending}"
    done = export_data(data, target)
    assert (done.jobs, done.objects, done.left_out) == (2, 2 * len(KEYS) + 2, 0)
    assert target.stat().st_mode & 0o777 == 0o600
    before = contents(data)
    assert import_data(target, tmp_path / "new").objects == done.objects
    assert contents(tmp_path / "new") == before
    assert names(tmp_path / "new") == {"lock", "identity.json", "sagelet.db", "s3", "jobs", "warm-pools"}
    assert names(tmp_path) == {"data", "new", "source", target.name}
    # The copy is not a link to the user's file any more, and people find the bytes.
    assert (tmp_path / "new/s3" / BUCKET / "user/linked").stat().st_nlink == 1
    assert (tmp_path / "new/s3" / BUCKET / "a").read_bytes().startswith(b"one")


def test_an_upload_goes_on_where_it_was_imported(data: Path, tmp_path: Path) -> None:
    add_uploads(data, BUCKET)
    export_data(data, tmp_path / "saved.tar")
    import_data(tmp_path / "saved.tar", tmp_path / "new")
    store = S3Store(tmp_path / "new/s3", SystemClock())
    store.recover()
    (upload,) = store.catalog.uploads(BUCKET)
    parts = [NamedPart(part.number, part.etag, {}) for part in store.catalog.parts(upload)]
    stored = Uploads(store).complete(upload, parts)
    _, opened = store.open(BUCKET, "under-way")
    with opened:
        assert opened.read() == b"\1" * PART + b"new"
    assert stored.etag.endswith("-2")
    store.close()


def test_it_is_of_one_moment_while_a_server_goes_on(data: Path, tmp_path: Path) -> None:
    """Every object in it has the bytes of its ETag, and no job's line is cut."""
    store = S3Store(data / "s3", SystemClock())
    over = threading.Event()

    def write() -> None:
        number = 0
        while not over.is_set():
            number += 1
            for key in ("a", "b"):
                with store.stage() as staged:
                    staged.write(f"{key} {number}".encode() * (number % 50 + 1))
                    store.put(BUCKET, key, staged)
            store.delete(BUCKET, ["b"])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            export_data(data, tmp_path / f"{number}.tar")
    finally:
        over.set()
        writer.join()
        store.close()
    for number in range(5):
        import_data(tmp_path / f"{number}.tar", tmp_path / f"data-{number}")
        for name, found in contents(tmp_path / f"data-{number}").items():
            if name.startswith("s3://") and isinstance(found, tuple):
                assert found[0].etag == found[1], name


def test_what_an_archive_cannot_hold_is_counted(data: Path, tmp_path: Path) -> None:
    directory = next((data / "jobs").glob("*/*/*"))
    os.mkfifo(directory / "pipe")
    (directory / "out").symlink_to("/etc/passwd")
    (directory / "up").symlink_to("../../../../../x")
    (directory / os.fsdecode(b"not-utf8-\xff")).write_bytes(b"")
    done = export_data(data, tmp_path / "saved.tar.gz")
    assert done.left_out == 3
    import_data(tmp_path / "saved.tar.gz", tmp_path / "new")
    there = tmp_path / "new" / directory.relative_to(data)
    assert names(there) == {"algo-1", os.fsdecode(b"not-utf8-\xff")}
    export_data(data, tmp_path / "small.tar", job_files=False)
    import_data(tmp_path / "small.tar", tmp_path / "small")
    assert names(tmp_path / "small") == {"lock", "identity.json", "sagelet.db", "s3"}


def test_exports_that_are_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "there.tar").touch()
    with pytest.raises(SettingsError, match="exists already"):
        export_data(data, tmp_path / "there.tar")
    with pytest.raises(SettingsError, match=r"must end with \.tar, \.tar\.gz"):
        export_data(data, tmp_path / "saved.zip")
    with pytest.raises(NoDataDirectory, match="not a data directory"):
        export_data(tmp_path, tmp_path / "saved.tar")
    with pytest.raises(SettingsError, match="No such file"):
        export_data(data, tmp_path / "none/saved.tar")
    (data / "s3" / BUCKET / "A").unlink()
    with pytest.raises(DamagedObject, match=rf"1 objects .* s3://{BUCKET}/A\."):
        export_data(data, tmp_path / "saved.tar")
    assert names(tmp_path) == {"data", "there.tar"}
    assert not [name for name in names(data) if name.startswith(".")]


def test_imports_only_into_what_is_empty_or_to_be_replaced(data: Path, tmp_path: Path) -> None:
    export_data(data, tmp_path / "saved.tar")
    other = tmp_path / "other"
    fill(other, "two")
    (other / "of-others").write_text("stays")
    (other / "s3/two-123456789012/of-others").write_text("stays")
    before = contents(other)
    with pytest.raises(DataThere, match="--replace"):
        import_data(tmp_path / "saved.tar", other)
    (tmp_path / "home").mkdir()
    (tmp_path / "home/letter").touch()
    for replace in (False, True):
        with pytest.raises(NoDataDirectory):
            import_data(tmp_path / "saved.tar", tmp_path / "home", replace=replace)
    assert names(tmp_path / "home") == {"letter"}
    lock = lock_directory(other)
    with pytest.raises(DataDirectoryInUse):
        import_data(tmp_path / "saved.tar", other, replace=True)
    lock.close()
    importing = S3Store(other / "s3", SystemClock())
    with importing.importing(), pytest.raises(DataDirectoryInUse, match="s3 import"):
        import_data(tmp_path / "saved.tar", other, replace=True)
    importing.close()
    assert contents(other) == before
    done = import_data(tmp_path / "saved.tar", other, replace=True)
    assert contents(other) == contents(data)
    assert (other / "of-others").read_text() == "stays"
    (kept,) = done.kept
    assert [path.read_text() for path in kept.rglob("of-others")] == ["stays"]


def test_an_import_beside_a_replaced_store_is_refused(data: Path, tmp_path: Path) -> None:
    export_data(data, tmp_path / "saved.tar")
    begun = S3Store(data / "s3", SystemClock())
    import_data(tmp_path / "saved.tar", data, replace=True)
    with pytest.raises(DataDirectoryInUse, match="repeat the import"), begun.importing():
        raise AssertionError
    begun.close()


# --- archives that are not what was exported ------------------------------------------------------------------------

Change = Callable[[list[tuple[tarfile.TarInfo, bytes]]], None]


def rewritten(source: Path, target: Path, change: Change) -> None:
    """The archive with other members, and an end that fits them: only what `change` did is wrong."""
    with tarfile.open(source) as tar:
        members = [(info, tar.extractfile(info).read() if info.isreg() else b"") for info in tar]  # type: ignore[union-attr]
    change(members)
    with tarfile.open(target, "w") as out:
        for info, content in members:
            info.size = len(content) if info.isreg() else 0
            out.addfile(info, io.BytesIO(content))


def member(
    name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info, content


def inserted(*made: tuple[tarfile.TarInfo, bytes]) -> Change:
    return lambda members: members.__setitem__(slice(-1, -1), made)


def headed(**changes: object) -> Change:
    def change(members: list[tuple[tarfile.TarInfo, bytes]]) -> None:
        info, content = members[0]
        members[0] = info, json.dumps({**json.loads(content), **changes}).encode()

    return change


JOB = "jobs/123456789012/us-east-1/x"
HOSTILE: dict[str, tuple[Change, type[SageletError], str]] = {
    "absolute": (inserted(member("/tmp/x")), ArchiveDamaged, "no place"),
    "up": (inserted(member("jobs/../../x")), ArchiveDamaged, "no place"),
    "another tree": (inserted(member("s3/bucket/a")), ArchiveDamaged, "no place"),
    "lock": (inserted(member("lock")), ArchiveDamaged, "no place"),
    "file id": (inserted(member("s3/files/../../x")), ArchiveDamaged, "no place"),
    "link out": (inserted(member(f"{JOB}/l", kind=tarfile.SYMTYPE, link="../../../../x")), ArchiveDamaged, "SHA-256"),
    "absolute link": (inserted(member(f"{JOB}/l", kind=tarfile.SYMTYPE, link="/etc")), ArchiveDamaged, "absolute path"),
    "hard link": (inserted(member(f"{JOB}/l", kind=tarfile.LNKTYPE, link="sagelet.db")), ArchiveDamaged, "not a file"),
    "device": (inserted(member(f"{JOB}/l", kind=tarfile.CHRTYPE)), ArchiveDamaged, "not a file"),
    "tree is a link": (inserted(member("jobs", kind=tarfile.SYMTYPE, link="/etc")), ArchiveDamaged, "no place"),
    "twice": (inserted(member(f"{JOB}/f"), member(f"{JOB}/f")), ArchiveDamaged, "twice"),
    "more bytes": (inserted(member(f"{JOB}/f", b"x")), ArchiveDamaged, "SHA-256"),
    "stray file": (inserted(member(f"s3/files/{'0' * 32}")), ArchiveDamaged, "SHA-256"),
    "no head": (lambda members: members.__delitem__(0), ArchiveDamaged, "begins with"),
    "no end": (lambda members: members.__delitem__(-1), ArchiveDamaged, "too early"),
    "behind the end": (lambda members: members.append(member(f"{JOB}/f")), ArchiveDamaged, "after its end"),
    "format": (headed(format=3), UnknownArchive, "format 3 .* up to 2"),
    "schema": (headed(schemas={"sagelet.db": 99}), UnknownArchive, r"sagelet\.db .* has schema 99, .* up to \d"),
    "old schema": (headed(schemas={"sagelet.db": 15}), UnknownArchive, r"has schema 15, .* before the first release"),
}  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive beside its data directory."""
    root = tmp_path_factory.mktemp("saved")
    fill(root / "data", keys=("a",))
    export_data(root / "data", root / "saved.tar")
    return root / "saved.tar"


@pytest.mark.parametrize("case", HOSTILE)
def test_other_archives_are_refused_and_nothing_is_left_of_them(saved: Path, tmp_path: Path, case: str) -> None:
    change, error, text = HOSTILE[case]
    rewritten(saved, tmp_path / "other.tar", change)
    data = saved.with_name("data")
    before = contents(data)
    for target in (tmp_path / "new", data):
        with pytest.raises(error, match=text):
            import_data(tmp_path / "other.tar", target, replace=True)
    assert names(tmp_path / "new") == {"lock", "identity.json"}
    assert contents(data) == before
    assert names(tmp_path) == {"new", "other.tar"}
    assert names(data) == {"lock", "identity.json", "sagelet.db", "s3", "jobs"}


def test_a_directory_that_refused_an_archive_takes_the_next(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    (tmp_path / "bad.tar").write_bytes(whole[: whole.index(b"sagelet-export-end.json")])
    with pytest.raises(ArchiveDamaged):
        import_data(tmp_path / "bad.tar", tmp_path / "new")
    assert import_data(saved, tmp_path / "new").jobs == 2


def test_links_are_made_when_all_else_is_there(saved: Path, tmp_path: Path) -> None:
    """A directory that an archive turns into a link takes no file, and a link behind a link is none."""
    through = inserted(member(f"{JOB}/l", kind=tarfile.SYMTYPE, link="."), member(f"{JOB}/l/f", b"x"))
    rewritten(saved, tmp_path / "other.tar", through)
    with pytest.raises(SageletError):
        import_data(tmp_path / "other.tar", tmp_path / "new")
    assert names(tmp_path / "new") == {"lock", "identity.json"}


def test_damage_is_found(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    at = whole.index(b"one 123456789012 a")
    packed = gzip.compress(whole)
    middle = len(packed) // 2
    damaged = {
        "bit": whole[:at] + b"O" + whole[at + 1 :],
        "cut": whole[: len(whole) // 2],
        "no end": whole[: whole.index(b"sagelet-export-end.json")],
        "packed cut": packed[:middle],
        "packed bit": packed[:middle] + bytes([packed[middle] ^ 1]) + packed[middle + 1 :],
        "empty": b"",
        "other": b"x" * 2000,
    }  # fmt: skip
    for name, content in damaged.items():
        (tmp_path / "bad.tar").write_bytes(content)
        with pytest.raises(ArchiveDamaged):
            import_data(tmp_path / "bad.tar", tmp_path / name)
        assert names(tmp_path / name) == {"lock", "identity.json"}
    with pytest.raises(SettingsError, match="no such file"):
        import_data(tmp_path / "none.tar", tmp_path / "new")


@pytest.mark.parametrize("bucket", ["../../evil", "..", ".escaped", "a/b"])
def test_a_catalogue_cannot_name_places_outside(data: Path, tmp_path: Path, bucket: str) -> None:
    store = S3Store(data / "s3", SystemClock())
    store.create_bucket(bucket, *ACCOUNTS[0])
    with store.stage() as staged:
        staged.write(b"x")
        store.put("one-123456789012", "evil", staged)
    with store.catalog._write() as db:
        db.execute("UPDATE objects SET bucket = ? WHERE key = ?", (bucket, b"evil"))
    store.close()
    export_data(data, tmp_path / "saved.tar")
    with pytest.raises(ArchiveDamaged, match="not named as objects are"):
        import_data(tmp_path / "saved.tar", tmp_path / "new")
    assert names(tmp_path / "new") == {"lock", "identity.json"}
    assert names(tmp_path) == {"data", "saved.tar", "new"}


def test_a_newer_data_directory_is_refused_before_it_is_touched(data: Path, tmp_path: Path) -> None:
    store = Store(data / "sagelet.db")
    with store._connection() as db:
        db.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(UnknownSchema, match="schema 99"):
        export_data(data, tmp_path / "saved.tar")
    assert names(tmp_path) == {"data"}
