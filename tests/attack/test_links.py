"""Links that a job or an archive made. No link, and no chain of links, is followed to files that are not theirs."""

import copy
import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagelet_engine.base import json_files, nofollow
from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.extraction import LEAST_SIZE, TooLarge
from sagelet_engine.base.tarballs import pack, unpack
from sagelet_engine.compile_cache.store import CacheStore
from sagelet_engine.data import compilation, end_notes
from sagelet_engine.data.layout import HostDirectories
from sagelet_engine.doctor.reading import read_sources
from sagelet_engine.runtimes.file_follower import follow
from sagelet_engine.runtimes.node import host_end, host_files
from sagelet_engine.s3.catalog import Catalog
from sagelet_engine.state import archive
from sagelet_engine.state.archive import ArchiveDamaged
from sagelet_engine.state.exporting import export_data
from sagelet_engine.state.importing import import_data
from sagelet_engine.store.jobs import Store
from sagelet_engine.telemetry.compiler.reading import workers_of
from support.batches import Made, file, link, packed, special

SECRET = "of the server"


def directory(name: str) -> Made:
    return special(name, tarfile.DIRTYPE)


def hard(name: str, target: str) -> Made:
    return special(name, tarfile.LNKTYPE, target)


def unpacked(tmp_path: Path, *members: Made) -> Path:
    (tmp_path / "x.tar").write_bytes(packed(*members))
    target = tmp_path / "in" / "target"
    unpack(tmp_path / "x.tar", target)
    return target


# --- archives: sources of jobs, and whatever else is unpacked -------------------------------------------------------

LEADS_OUT: dict[str, tuple[Made, ...]] = {
    "two links, each within by its letters": (
        directory("a/b"), link("a/b/up", "../.."), link("out", "a/b/up/../secret"),
    ),
    "the same in the other order": (link("out", "a/b/up/../secret"), link("a/b/up", "../.."), directory("a/b")),
    "three": (link("a/b/c", "../.."), link("d", "a/b/c"), link("e", "d/../secret")),
    "through a link to a link's directory": (link("l/m", "../../secret"),),
    "to the directory above": (link("out", ".."),),
    "down and up again": (directory("a"), link("out", "a/../../secret")),
    "through a name that is not there": (link("out", "none/../../secret"),),
    "in circles": (link("a", "b"), link("b", "a")),
    "of itself": (link("a", "a/x"),),
    "a member through a link": (link("l", "."), file("l/f")),
    "a member through a link to outside": (link("l", "../.."), file("l/f")),
    "a member through a link in a link": (link("l", "m"), link("m", "n"), directory("n"), file("l/f")),
    "a link through a link": (link("l", "."), link("l/m", "x")),
    "a hard link to a link": (link("l", "f"), file("f"), hard("h", "l")),
    "a hard link through a link": (link("l", "d"), file("d/f"), hard("h", "l/f")),
    "a hard link out": (hard("h", "../secret"),),
    "a hard link to a directory": (directory("d"), hard("h", "d")),
    "an absolute link": (link("l", "/etc/passwd"),),
    "an empty link": (link("l", ""),),
    "a link in a directory's place": (file("d/f"), link("d", "e")),
}  # fmt: skip

STAYS: dict[str, tuple[tuple[Made, ...], dict[str, str]]] = {
    "below": ((link("l", "d/f"), file("d/f", b"1")), {"l": "1"}),
    "a chain": ((link("l", "m"), link("m", "d"), file("d/f", b"1")), {"l/f": "1"}),
    "by letters it left": (
        (link("s", "a/b/c"), link("l", "s/../../../f"), file("a/b/c/g", b"2"), file("f", b"1")), {"l": "1"},
    ),
    "to itself": ((link("l", "."), file("f", b"1")), {"l/f": "1"}),
    "nowhere": ((link("l", "none"),), {}),
    "replaced by a file": ((link("l", "../.."), file("l", b"1")), {"l": "1"}),
    "replaced by a directory": ((link("l", "../.."), directory("l"), file("l/f", b"1")), {"l/f": "1"}),
    "a hard link": ((file("f", b"1"), hard("h", "f")), {"h": "1"}),
}  # fmt: skip


@pytest.mark.parametrize("case", LEADS_OUT)
def test_what_leads_out_is_refused_and_no_link_of_it_is_made(tmp_path: Path, case: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/secret").write_text(SECRET)
    with pytest.raises(tarfile.TarError):
        unpacked(tmp_path, *LEADS_OUT[case])
    assert sorted(os.listdir(tmp_path / "in")) == ["secret", "target"]
    assert (tmp_path / "in/secret").read_text() == SECRET
    assert not [path for path in (tmp_path / "in").rglob("*") if path.is_symlink()]


@pytest.mark.parametrize("case", STAYS)
def test_what_stays_is_unpacked(tmp_path: Path, case: str) -> None:
    members, files = STAYS[case]
    target = unpacked(tmp_path, *members)
    assert {name: (target / name).read_text() for name in files} == files


_NAME = st.sampled_from(["a", "b", "c"])
_PATH = st.lists(_NAME, min_size=1, max_size=3).map("/".join)
_TARGET = st.lists(st.sampled_from(["a", "b", "c", "..", "..", "."]), min_size=1, max_size=5).map("/".join)
_MEMBER = st.one_of(
    st.builds(link, _PATH, _TARGET), st.builds(file, _PATH), st.builds(directory, _PATH), st.builds(hard, _PATH, _PATH)
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_MEMBER, max_size=8), st.lists(_MEMBER, max_size=4))
def test_whatever_members_there_are_nothing_leads_out(
    tmp_path_factory: pytest.TempPathFactory, first: list[Made], then: list[Made]
) -> None:
    """Resolved by the system itself; of two archives, one after another, nothing is written outside."""
    root = tmp_path_factory.mktemp("any")
    (root / "in").mkdir()
    (root / "in/secret").write_text(SECRET)
    for members in (first, then):
        try:
            target = unpacked(root, *members)
        except tarfile.TarError:
            return
        if members is first:
            paths = [path for path in target.rglob("*") if path.is_symlink()]
            assert [path for path in paths if not path.resolve().is_relative_to(target.resolve())] == []
    assert sorted(os.listdir(root)) == ["in", "x.tar"]
    assert sorted(os.listdir(root / "in")) == ["secret", "target"]


def test_directories_that_no_member_names_count(tmp_path: Path) -> None:
    """One name makes 500 of them."""
    (tmp_path / "x.tar").write_bytes(packed(*(file(f"{n}/{'d/' * 500}f") for n in range(20))))
    with pytest.raises(TooLarge):
        unpack(tmp_path / "x.tar", tmp_path / "t", 1000 * LEAST_SIZE)


# --- a data directory that is exported, and one that is imported ----------------------------------------------------

JOB = "jobs/123456789012/us-east-1/x"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / "s3").mkdir(parents=True)
    Store(data / "sagelet.db").close()
    Catalog(data / "s3/.catalog.db").close()
    return data


def exported(data: Path, target: Path, *members: Made) -> Path:
    """As an export of a data directory with these in its trees, whole by its own digest."""
    with target.open("wb") as out, archive.writing(out, {"schemas": {}}, compressed=False) as writer:
        writer.file(archive.DATABASE, data / "sagelet.db")
        writer.file(archive.CATALOG, data / "s3/.catalog.db")
        for info, content in members:
            writer._add(info, io.BytesIO(content) if info.isreg() else None)
    return target


@pytest.mark.parametrize("case", LEADS_OUT)
def test_an_import_of_what_leads_out_is_refused(data: Path, tmp_path: Path, case: str) -> None:
    members = [(copy.copy(info), content) for info, content in LEADS_OUT[case]]
    for info, _ in members:
        info.name = f"jobs/{info.name}"
    saved = exported(data, tmp_path / "saved.tar", *members)
    with pytest.raises(ArchiveDamaged):
        import_data(saved, tmp_path / "new")
    assert {*os.listdir(tmp_path / "new")} <= {"lock", "identity.json"}


def test_an_import_keeps_links_within_a_tree(data: Path, tmp_path: Path) -> None:
    saved = exported(
        data, tmp_path / "saved.tar", file(f"{JOB}/d/f", b"1"), link(f"{JOB}/l", "d"), link(f"{JOB}/m", "l/f")
    )
    import_data(saved, tmp_path / "new")
    assert (tmp_path / "new" / JOB / "m").read_text() == "1"


def test_an_export_leaves_links_out_that_lead_out_by_a_chain(data: Path, tmp_path: Path) -> None:
    """Each is within by its letters. With them no import would take the archive."""
    (data / "credentials").write_text(SECRET)
    tree = data / "warm-pools" / "pool"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/up").symlink_to("../..")
    (tree / "kept").symlink_to("a/b/up/a")
    (tree / "out").symlink_to("a/b/up/../../credentials")
    (tree / "loop").symlink_to("loop")
    done = export_data(data, tmp_path / "saved.tar")
    assert done.left_out == 2
    import_data(tmp_path / "saved.tar", tmp_path / "new")
    assert sorted(os.listdir(tmp_path / "new/warm-pools/pool")) == ["a", "kept"]


# --- what a job left, read by the server ----------------------------------------------------------------------------

REPORT = '{"compiled": true, "platform": "of the server", "reason": "of the server"}'


def followed(host: HostDirectories) -> str:
    lines = follow(host.run / host_files.OUTPUT, None, lambda: True, SystemClock())
    return "".join(line.text for batch in lines for line in batch)


def packed_model(host: HostDirectories) -> str:
    pack([host.model], host.root / "model.tar.gz")
    with tarfile.open(host.root / "model.tar.gz") as made:
        return "".join(found.read().decode() for one in made if one.isreg() and (found := made.extractfile(one)))


def published(host: HostDirectories) -> str:
    path = host.opt_ml / "sagelet/compile-cache" / ("0" * 64)
    return SECRET if CacheStore(host.root / "cache", 2**30).publish("1", "i", path, 0, within=3) else ""


#: By the file that it reads.
READERS: dict[str, Callable[[HostDirectories], object]] = {
    "opt-ml/output/failure": lambda host: end_notes.failure_text(host.failure_file),
    "opt-ml/output/sagelet/workers/failure.json": lambda host: end_notes.worker_died_ms(host.opt_ml / "output"),
    "opt-ml/output/sagelet/compilation.json": compilation.read,
    "opt-ml/output/sagelet/worker-0.json": lambda host: workers_of(host.opt_ml, "algo-1"),
    "opt-ml/code/train.py": lambda host: [one.text for one in read_sources(host.opt_ml, ("code",))],
    "opt-ml/model/w": packed_model,
    f"opt-ml/sagelet/compile-cache/{'0' * 64}": published,
    "run/exit.json": lambda host: host_end.ended(host.run),
    "run/output.log": followed,
}
CONTENT = {
    "opt-ml/output/sagelet/workers/failure.json": '{"time_ms": 5, "killed": false}',
    "opt-ml/output/sagelet/compilation.json": REPORT,
    "opt-ml/output/sagelet/worker-0.json": "{}",
    "run/exit.json": '{"exit_code": 0, "error": "of the server", "finished_ms": 5}',
}


def _places(name: str) -> Iterator[tuple[str, str]]:
    """Yields each part of a file's path that its job can turn into a link, and the rest of the path below it."""
    parts = name.split("/")
    first = 1 if parts[0] == "opt-ml" else len(parts) - 1
    for end in range(first + 1, len(parts) + 1):
        yield "/".join(parts[:end]), "/".join(parts[end:])


#: Its uploader refuses a model that is a link itself.
TURNED = [(name, place) for name in READERS for place, _ in _places(name) if place != "opt-ml/model"]


@pytest.mark.parametrize(("name", "turned"), TURNED)
def test_no_reader_follows_a_link_of_a_jobs(tmp_path: Path, name: str, turned: str) -> None:
    host = HostDirectories(tmp_path / "host")
    below = dict(_places(name))[turned]
    elsewhere = tmp_path / "elsewhere"
    real = elsewhere / below if below else elsewhere
    real.parent.mkdir(parents=True, exist_ok=True)
    real.write_text(CONTENT.get(name, SECRET))
    place = host.root / turned
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(elsewhere)
    try:
        found = READERS[name](host)
    except nofollow.NoFile:
        return
    assert not found


def test_what_is_not_there_is_no_file(tmp_path: Path) -> None:
    """The same holds for everything below a missing directory of sagelet's."""
    assert nofollow.read(tmp_path / "gone", "a", 1) is None
    assert json_files.read_json(tmp_path / "gone/a") is None
    for name in ("../a", "/a", "a//../b", "."):
        assert nofollow.read(tmp_path, name, 1) is None


def test_a_last_word_that_is_none_is_an_end(tmp_path: Path) -> None:
    """The host may have written it, on a file system that nodes share."""
    for text in ("", "[]", "{}", '{"exit_code": "0"}', "[" * 100_000, '{"exit_code": 1, "finished_ms": 1e400}'):
        (tmp_path / host_files.EXIT).write_text(text)
        found = host_end.ended(tmp_path)
        assert found is not None, text
        assert found[0].refused, text
        assert "exit.json" in str(found[0].error), text
