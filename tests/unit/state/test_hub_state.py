"""The hub as part of a data directory: export, import, check, gc and reset."""

import tarfile
from pathlib import Path

import pytest

from sagelet_engine.hub.names import Kind
from sagelet_engine.hub.records import DamagedRepository
from sagelet_engine.hub.store import HubStore
from sagelet_engine.state.archive import ArchiveDamaged
from sagelet_engine.state.checking.check import check_data
from sagelet_engine.state.checking.report import Report
from sagelet_engine.state.exporting import export_data
from sagelet_engine.state.importing import import_data
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.state.resetting import reset_data
from support.data_directory import fill
from support.hub import add_files, write_files

WEIGHTS = b"w" * 1000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    fill(tmp_path / "data")
    source = write_files(tmp_path / "s", {"config.json": "{}", "a/model.bin": WEIGHTS})
    add_files(tmp_path / "data", source, "org/m", revision="v1", now_ms=1)
    write_files(source, {"config.json": "[]"})
    add_files(tmp_path / "data", source, "org/m", now_ms=2)
    add_files(tmp_path / "data", source, "d", Kind.DATASET, now_ms=3)
    return tmp_path / "data"


def held(data: Path) -> dict[tuple[str, str, str, str], bytes]:
    """All files of all revisions."""
    store, found = HubStore(data), {}
    for one in store.readable():
        for name, number in one.refs.items():
            for path, file in one.commits[number].files.items():
                with store.open(file) as opened:
                    found[one.kind.value, one.id, name, path] = opened.read()
    return found


def check(data: Path, *, repair: bool = False) -> Report:
    return check_data(data, "999999999999", "eu-north-1", repair=repair)


def blob_of(data: Path, path: str) -> Path:
    found = HubStore(data).find(Kind.MODEL, "org/m")
    assert found is not None
    return data / "hub/blobs" / found.newest.files[path].sha256


@pytest.mark.parametrize("ending", [".tar", ".tar.gz"])
def test_an_export_has_it_all(data: Path, tmp_path: Path, ending: str) -> None:
    before = held(data)
    assert len(before) == 6
    assert export_data(data, tmp_path / f"saved{ending}").repositories == 2
    assert import_data(tmp_path / f"saved{ending}", tmp_path / "new").repositories == 2
    assert held(tmp_path / "new") == before
    # Added again there, nothing is written twice.
    assert set(HubStore(tmp_path / "new").blobs()) == set(HubStore(data).blobs())


def test_a_changed_file_ends_the_export(data: Path, tmp_path: Path) -> None:
    blob = blob_of(data, "a/model.bin")
    blob.chmod(0o600)
    blob.write_bytes(b"x" * len(WEIGHTS))
    with pytest.raises(DamagedRepository, match="nothing was exported"):
        export_data(data, tmp_path / "saved.tar")
    assert not (tmp_path / "saved.tar").exists()
    blob.unlink()
    with pytest.raises(DamagedRepository, match="is gone"):
        export_data(data, tmp_path / "saved.tar")


def test_an_import_replaces_it(data: Path, tmp_path: Path) -> None:
    fill(tmp_path / "other")
    export_data(tmp_path / "other", tmp_path / "saved.tar")
    import_data(tmp_path / "saved.tar", data, replace=True)
    assert held(data) == {}


def test_an_archive_that_lacks_a_file_of_a_repository(data: Path, tmp_path: Path) -> None:
    export_data(data, tmp_path / "saved.tar")
    blob = f"hub/blobs/{blob_of(data, 'a/model.bin').name}"
    with tarfile.open(tmp_path / "saved.tar") as old, tarfile.open(tmp_path / "cut.tar", "w") as new:
        for member in old:
            if member.name != blob:
                new.addfile(member, old.extractfile(member) if member.isreg() else None)
    with pytest.raises(ArchiveDamaged):
        import_data(tmp_path / "cut.tar", tmp_path / "new")


def test_a_sound_hub(data: Path) -> None:
    report = check(data)
    assert (report.sound, report.repositories) == (True, 2)


@pytest.mark.parametrize("content", [b"x" * len(WEIGHTS), b"short", None])
def test_a_damaged_file_is_named_and_makes_room(data: Path, tmp_path: Path, content: bytes | None) -> None:
    blob = blob_of(data, "a/model.bin")
    blob.chmod(0o600)
    if content is None:
        blob.unlink()
    else:
        blob.write_bytes(content)
    found = check(data).findings
    assert [one.what.split(":")[0] for one in found] == ["model org/m", "dataset d"]
    assert all("a/model.bin" in one.what and "sagelet hub add" in one.remedy for one in found)
    assert not check(data, repair=True).sound
    assert not blob.exists()
    add_files(data, tmp_path / "s", "org/m")
    assert check(data).sound


def test_a_record_that_cannot_be_read_is_moved_aside(data: Path) -> None:
    (data / "hub/repositories/datasets/d.json").write_text("{")
    assert not check(data).sound
    assert check(data, repair=True).sound
    assert [one.id for one in HubStore(data).readable()] == ["org/m"]


def test_a_reset_of_the_hub_alone(data: Path) -> None:
    reset_data(data, "jobs", [])
    assert held(data)
    reset_data(data, "hub", [])
    assert held(data) == {}
    assert not (data / "hub").exists()
    assert (data / "s3").is_dir()


def test_a_reset_of_everything(data: Path) -> None:
    reset_data(data, "all", [])
    assert not (data / "hub").exists()


def test_a_hub_alone_makes_a_data_directory(tmp_path: Path) -> None:
    """`sagelet hub add` before the first `sagelet up`."""
    add_files(tmp_path / "data", write_files(tmp_path / "s", {"a": "1"}), "m")
    lock_directory(tmp_path / "data").close()
    assert check(tmp_path / "data").sound
