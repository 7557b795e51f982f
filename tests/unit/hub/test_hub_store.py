"""Repositories on disk: revisions, what may be added, and what is left of them."""

import fcntl
import os
from contextlib import AbstractContextManager
from pathlib import Path, PurePath

import pytest

from sagelet_engine.hub import store
from sagelet_engine.hub.adding import add
from sagelet_engine.hub.canonical import names_of, newest_name
from sagelet_engine.hub.names import Kind, UnfitName, check_path, check_repository_id, check_revision, is_path
from sagelet_engine.hub.records import DamagedRepository, Repository
from sagelet_engine.hub.sources import Folder, UnfitSource, named_by_cache
from sagelet_engine.hub.store import HubStore
from support.hub import add_files, write_files


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_files(tmp_path / "source", {"config.json": "{}", "a/b.bin": b"\0" * 100})


def found(data: Path, name: str = "gpt2") -> Repository:
    repository = HubStore(data).find(Kind.MODEL, name)
    assert repository is not None
    return repository


def content(data: Path, path: str, revision: str = "main") -> bytes:
    commit = found(data).commit(revision)
    assert commit is not None
    with HubStore(data).open(commit.files[path]) as opened:
        return opened.read()


def blobs(data: Path) -> set[str]:
    return set(HubStore(data).blobs())


def test_a_directory_becomes_a_revision(data: Path, source: Path) -> None:
    added = add_files(data, source, "gpt2")
    assert (added.files, added.bytes) == (2, 102)
    assert list(added.commit.files) == ["a/b.bin", "config.json"]
    assert content(data, "config.json") == b"{}"
    # What git calls an empty JSON object.
    assert added.commit.files["config.json"].blob == "9e26dfeeb6e641a33dae4961196235bdb965b21b"


def test_it_is_its_owners_alone(data: Path, source: Path) -> None:
    add_files(data, source, "gpt2")
    modes = {path: path.stat().st_mode & 0o777 for path in [data, *data.rglob("*")]}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} <= {0o400, 0o600}


def test_added_again_it_is_a_new_revision_and_the_former_stays(data: Path, source: Path) -> None:
    former = add_files(data, source, "gpt2", now_ms=1).commit
    write_files(source, {"config.json": '{"n": 2}'})
    newer = add_files(data, source, "gpt2", now_ms=2).commit
    assert newer.id != former.id
    assert content(data, "config.json") == b'{"n": 2}'
    assert content(data, "config.json", former.id) == b"{}"
    # The same files are the same commit.
    assert add_files(data, source, "gpt2", now_ms=3).commit == newer
    assert set(found(data).commits) == {former.id, newer.id}


def test_former_revisions_go_when_that_is_asked(data: Path, source: Path) -> None:
    add_files(data, source, "gpt2", revision="v1")
    write_files(source, {"config.json": "1"})
    middle = add_files(data, source, "gpt2").commit
    write_files(source, {"config.json": "2"})
    add_files(data, source, "gpt2")
    dropped = HubStore(data).forget_former(Kind.MODEL, "gpt2")
    assert dropped is not None
    assert (dropped.files, dropped.bytes) == (1, 1)
    assert middle.id not in found(data).commits
    assert content(data, "config.json", "v1") == b"{}"


def test_a_file_of_two_repositories_stays_with_the_other(data: Path, source: Path) -> None:
    add_files(data, source, "one")
    write_files(source, {"config.json": "2"})
    add_files(data, source, "gpt2")
    store = HubStore(data)
    dropped = store.remove(Kind.MODEL, "one")
    assert dropped is not None
    assert (dropped.files, dropped.bytes) == (1, 2)
    assert content(data, "a/b.bin") == b"\0" * 100
    assert store.remove(Kind.MODEL, "one") is None


def test_whoever_reads_a_file_has_it_to_its_end(data: Path, source: Path) -> None:
    file = add_files(data, source, "gpt2").commit.files["a/b.bin"]
    store = HubStore(data)
    with store.open(file) as opened:
        store.remove(Kind.MODEL, "gpt2")
        assert opened.read() == b"\0" * 100


def test_a_file_that_is_written_to_while_it_is_read_is_not_added(data: Path, source: Path) -> None:
    """As when a training saves it again meanwhile: the size is the same, and half of the content is old."""
    weights = source / "a" / "b.bin"
    os.utime(weights, (1, 1))

    def save(_path: str, _count: int) -> None:
        with weights.open("r+b") as file:
            file.write(b"1")

    with pytest.raises(DamagedRepository, match=r"a/b\.bin changed while it was read"):
        add(HubStore(data), Folder(source), Kind.MODEL, "gpt2", "main", 1000, save)
    assert not HubStore(data).repositories()


def test_two_paths_of_one_content(data: Path, tmp_path: Path) -> None:
    add_files(data, write_files(tmp_path / "s", {"a": "x", "b": "x"}), "gpt2")
    assert content(data, "a") == content(data, "b") == b"x"


def test_a_link_that_leads_out_is_refused(data: Path, source: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("key")
    (source / "weights").symlink_to(tmp_path / "secret")
    with pytest.raises(UnfitSource, match=r"leads out of .* put a copy"):
        add_files(data, source, "gpt2")
    assert HubStore(data).repositories() == []
    assert blobs(data) == set()
    assert os.listdir(data / "hub/drafts") == []


@pytest.mark.parametrize("target", ["../../secret", "inner/../../secret", "loop", "/etc/hostname", "a", "nowhere"])
def test_links_to_what_is_no_file_inside_are_refused(data: Path, source: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "secret").write_text("key")
    (source / "inner").mkdir()
    (source / "loop").symlink_to(target)
    with pytest.raises(UnfitSource):
        add_files(data, source, "gpt2")


def test_a_directory_behind_a_link_is_refused(data: Path, source: Path, tmp_path: Path) -> None:
    write_files(tmp_path / "private", {"key": "1"})
    (source / "inner").symlink_to(tmp_path / "private")
    with pytest.raises(UnfitSource):
        add_files(data, source, "gpt2")


def test_a_pipe_is_refused(data: Path, source: Path) -> None:
    os.mkfifo(source / "pipe")
    with pytest.raises(UnfitSource, match="is not a file"):
        add_files(data, source, "gpt2")


@pytest.mark.parametrize("place", [".", "snapshots/" + "1" * 40])
def test_the_cache_of_huggingface_hub(data: Path, tmp_path: Path, place: str) -> None:
    cache = write_files(
        tmp_path / "models--org--name", {"blobs/abc": "{}", "refs/main": "1" * 40, f"snapshots/{'1' * 40}/x/y": "y"}
    )
    (cache / f"snapshots/{'1' * 40}/config.json").symlink_to("../../blobs/abc")
    assert named_by_cache(cache / place) == (Kind.MODEL, "org/name")
    add_files(data, cache / place, "gpt2")
    assert content(data, "config.json") == b"{}"
    assert content(data, "x/y") == b"y"
    (cache / f"snapshots/{'1' * 40}/config.json").unlink()
    (cache / f"snapshots/{'1' * 40}/config.json").symlink_to("../../../secret")
    (tmp_path / "secret").write_text("key")
    with pytest.raises(UnfitSource, match="leads out"):
        add_files(data, cache / place, "gpt2")


def test_gits_pointers_and_its_own_files(data: Path, source: Path) -> None:
    write_files(source, {".git/config": "", ".cache/huggingface/x": "", "__pycache__/a": ""})
    assert list(add_files(data, source, "gpt2").commit.files) == ["a/b.bin", "config.json"]
    write_files(source, {"w.bin": "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"})
    with pytest.raises(UnfitSource, match="git lfs pull"):
        add_files(data, source, "gpt2")


def test_an_empty_directory_is_no_repository(data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnfitSource, match="no file"):
        add_files(data, tmp_path / "empty", "gpt2")


@pytest.mark.parametrize("name", ["gpt2", "org/name", "a.b-c_d", "o/" + "x" * 90, "1"])
def test_names_of_repositories(name: str) -> None:
    assert check_repository_id(name) == name


@pytest.mark.parametrize(
    "name", ["", "a/b/c", "../a", "a/..", ".a", "a--b", "a..b", "a.git", "~a", "a b", "a/", "/a", "x" * 97, "ä", "a\n"]
)
def test_what_names_no_repository(name: str) -> None:
    with pytest.raises(UnfitName):
        check_repository_id(name)


@pytest.mark.parametrize(
    "path", ["", "/a", "a/", "a//b", "a/../b", "..", ".", "a\0b", "a\\b", "a\nb", "\udcff", "x" * 1025]
)
def test_what_is_no_path(path: str) -> None:
    assert not is_path(path)
    with pytest.raises(UnfitName):
        check_path(path)


@pytest.mark.parametrize("revision", ["", "a..b", "a//b", "-a", "a b", "a/"])
def test_what_names_no_revision(revision: str) -> None:
    with pytest.raises(UnfitName):
        check_revision(revision)


@pytest.mark.parametrize("name", ["api", "datasets", "spaces/a", "org/tree", "org/resolve", "org/refs"])
def test_a_name_that_no_path_would_find_is_refused(data: Path, source: Path, name: str) -> None:
    with pytest.raises(UnfitName, match="nobody would find it"):
        add_files(data, source, name)
    # One of before is found by `sagelet hub remove`.
    assert check_repository_id(name) == name


def test_a_script_that_names_a_commit_of_the_real_hub_finds_it(data: Path, source: Path) -> None:
    commit = "e7da7f221d5bf496a48136c0cd264e630fe9fcc8"
    add_files(data, source, "gpt2", revision=commit)
    assert content(data, "config.json", commit) == b"{}"
    here = found(data).refs[commit]
    (source / "config.json").write_text("[]")
    with pytest.raises(UnfitName, match="already, with other files"):
        add_files(data, source, "gpt2", revision=here)
    assert content(data, "config.json", here) == b"{}"


@pytest.mark.parametrize("above", ["project", "project/data"])
def test_the_data_directory_is_never_added(tmp_path: Path, above: str) -> None:
    """It holds the owner's keys, and each job reads the hub."""
    data = tmp_path / "project" / "data"
    write_files(tmp_path / "project", {"config.json": "{}", "data/credentials": "secret"})
    (tmp_path / "link").symlink_to(tmp_path / above)
    for directory in (tmp_path / above, tmp_path / "link"):
        with pytest.raises(UnfitSource, match="the owner's keys"):
            add_files(data, directory, "gpt2")
    assert not HubStore(data).repositories()


@pytest.mark.parametrize("inner", ["tls", "jobs/account/job/opt-ml/model", "s3/objects"])
@pytest.mark.parametrize("by_link", [False, True])
def test_nothing_in_the_data_directory_is_added(tmp_path: Path, inner: str, by_link: bool) -> None:
    """`sagelet hub add DATA/tls` would show the key of its certificate to every job."""
    data = tmp_path / "project" / "data"
    write_files(data / inner, {"key.pem": "secret"})
    (tmp_path / "link").symlink_to(data / PurePath(inner).parts[0])
    directory = tmp_path / "link" / PurePath(*PurePath(inner).parts[1:]) if by_link else data / inner
    with pytest.raises(UnfitSource, match=r"it is in the data directory .* the owner's keys"):
        add_files(data, directory, "gpt2")
    assert not HubStore(data).repositories()


def test_a_cache_that_holds_the_data_directory_is_not_added(tmp_path: Path) -> None:
    """A link of the cache may lead to everything in the cache."""
    commit = "0" * 40
    cache = tmp_path / "models--a--b"
    write_files(cache / "data", {"credentials": "secret"})
    write_files(cache / "snapshots" / commit, {"config.json": "{}"})
    (cache / "snapshots" / commit / "link").symlink_to("../../data/credentials")
    with pytest.raises(UnfitSource, match="it contains the data directory"):
        add_files(cache / "data", cache / "snapshots" / commit, "a/b")


def test_a_directory_beside_the_data_directory_is_added(tmp_path: Path) -> None:
    write_files(tmp_path / "data", {"credentials": "secret"})
    write_files(tmp_path / "data-of-mine", {"config.json": "{}"})
    add_files(tmp_path / "data", tmp_path / "data-of-mine", "gpt2")
    assert content(tmp_path / "data", "config.json") == b"{}"


def test_directories_as_deep_as_a_path_may_be(data: Path, source: Path) -> None:
    deep = source
    for _ in range(511):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "f").write_text("x")
    add_files(data, source, "gpt2")
    assert content(data, "d/" * 511 + "f") == b"x"
    (deep / "d").mkdir()
    (deep / "d" / "d").mkdir()
    with pytest.raises(UnfitSource, match="cannot be in a repository"):
        add_files(data, source, "gpt2")


@pytest.mark.parametrize(
    ("former", "hostile"),
    [
        ('"created_ms": 1000', '"created_ms": 1e30'),
        ('"created_ms": 1000', '"created_ms": -1'),
        ('"main"', r'"\u001b[2J"'),
    ],
)
def test_a_record_with_what_nobody_can_show_is_damaged(data: Path, source: Path, former: str, hostile: str) -> None:
    """An archive may have brought it."""
    add_files(data, source, "gpt2")
    (record,) = (HubStore(data).root / "repositories" / "models").iterdir()
    text = record.read_text()
    assert former in text
    record.write_text(text.replace(former, hostile))
    with pytest.raises(DamagedRepository, match="cannot be read"):
        found(data)


def test_a_record_that_cannot_be_read_says_what_helps(data: Path, source: Path) -> None:
    add_files(data, source, "gpt2")
    record = data / "hub/repositories/models/gpt2.json"
    record.write_text("{}")
    with pytest.raises(DamagedRepository, match="Add the model gpt2 again"):
        HubStore(data).find(Kind.MODEL, "gpt2")
    # Nobody knows which files it has.
    assert HubStore(data).collect().files == 0
    add_files(data, source, "gpt2")
    assert content(data, "config.json") == b"{}"


def test_a_record_behind_a_link_is_not_there(data: Path, source: Path, tmp_path: Path) -> None:
    add_files(data, source, "gpt2")
    record = data / "hub/repositories/models/gpt2.json"
    record.rename(tmp_path / "elsewhere")
    record.symlink_to(tmp_path / "elsewhere")
    assert HubStore(data).find(Kind.MODEL, "gpt2") is None


def test_a_file_of_another_size_is_not_shown(data: Path, source: Path) -> None:
    file = add_files(data, source, "gpt2").commit.files["a/b.bin"]
    blob = data / "hub/blobs" / file.sha256
    blob.chmod(0o600)
    blob.write_bytes(b"short")
    with pytest.raises(DamagedRepository, match="another size"):
        HubStore(data).open(file)
    # Added again it is whole.
    add_files(data, source, "gpt2")
    assert content(data, "a/b.bin") == b"\0" * 100


def test_what_a_killed_command_left_is_collected(data: Path, source: Path) -> None:
    store = HubStore(data)
    with store.draft() as draft:
        with Folder(source).open(next(iter(Folder(source).files()))) as opened:
            draft.put("a", opened, 100)
        # It runs still.
        assert store.collect().files == 0
        os.rename(draft.place, data / "hub/drafts/killed")
    assert store.collect(dry_run=True).files == 1
    dropped = store.collect()
    assert (dropped.files, dropped.bytes) == (1, 100)
    assert os.listdir(data / "hub/drafts") == []


def test_both_names_of_what_has_moved() -> None:
    assert list(names_of(Kind.MODEL, "gpt2")) == ["gpt2", "openai-community/gpt2"]
    assert list(names_of(Kind.MODEL, "openai-community/gpt2")) == ["openai-community/gpt2", "gpt2"]
    assert list(names_of(Kind.MODEL, "other/gpt2")) == ["other/gpt2"]
    assert list(names_of(Kind.DATASET, "gpt2")) == ["gpt2"]
    assert newest_name(Kind.DATASET, "glue") == "nyu-mll/glue"


def test_a_draft_is_locked_before_another_command_can_see_it(
    data: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`gc` of that instant took it for an abandoned one. A file then stood in `drafts`, and each later `gc` failed."""
    original, seen = store._locked, []

    def locked(path: Path, how: int) -> AbstractContextManager[None]:
        if path.parent.name == store.DRAFTS:
            with open(data / store.DIRECTORY / store.LOCK) as lock, pytest.raises(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            seen.append(path.is_dir())
        return original(path, how)

    monkeypatch.setattr(store, "_locked", locked)
    add_files(data, source, "gpt2")
    assert seen == [True]
    assert list((data / store.DIRECTORY / store.DRAFTS).iterdir()) == []


def test_a_draft_that_its_command_drops_meanwhile_is_no_error(
    data: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_files(data, source, "gpt2")
    monkeypatch.setattr(HubStore, "_abandoned", lambda self: [self.root / store.DRAFTS / "gone"])
    assert HubStore(data).collect().files == 0


@pytest.mark.parametrize(
    ("name", "configuration", "header", "labels"),
    [
        ("nyu-mll/glue", "sst2", "sentence,label,idx", ["negative", "positive"]),
        ("glue", "rte", "sentence1,sentence2,label", ["entailment", "not_entailment"]),
        ("glue", "sst2", '"sentence","label"', ["negative", "positive"]),
        ("glue", "stsb", "sentence1,sentence2,label,idx", None),
        ("glue", "sst2", "sentence,label,mine", None),
        ("glue", "sst2", "sentence,target", None),
        ("my/reviews", "sst2", "sentence,label,idx", None),
        ("glue", "sst2", "x" * 100_000, None),
    ],
)
def test_the_card_of_glue_names_its_labels(
    data: Path, tmp_path: Path, name: str, configuration: str, header: str, labels: list[str] | None
) -> None:
    """Its scripts ask for `features["label"].names`, which a CSV does not have."""
    files = {f"{configuration}/{split}.csv": f"{header}\na,1,0\n" for split in ("train", "validation")}
    add_files(data, write_files(tmp_path / "files", files), name, Kind.DATASET)
    repository = HubStore(data).find(Kind.DATASET, name)
    commit = repository.commit("main") if repository else None
    assert commit is not None
    with HubStore(data).open(commit.files["README.md"]) as opened:
        text = opened.read().decode()
    assert ("class_label:" in text) is (labels is not None)
    for number, label in enumerate(labels or ()):
        assert f"          '{number}': {label}\n" in text
    assert f"- config_name: '{configuration}'\n  data_files:" in text
