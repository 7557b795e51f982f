"""Attackers of a data directory: another user of the machine, an archive to import, a copied database."""

import io
import os
import shutil
import sqlite3
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sagelet_engine.base.database import DatabaseDamaged
from sagelet_engine.base.errors import SettingsError
from sagelet_engine.s3.catalog import Catalog
from sagelet_engine.state import archive
from sagelet_engine.state.archive import ArchiveDamaged, read_archive
from sagelet_engine.state.exporting import export_data
from sagelet_engine.state.importing import import_data
from sagelet_engine.state.owner import lock_directory
from sagelet_engine.store.jobs import Store
from support.data_directory import fill
from support.server import SageletProcess

NOBODY = 65534
#: Opens whatever it can below a directory, and holds what locks it gets; says how many of each.
INTRUDER = """
import fcntl, os, sys
opened = locked = 0
paths = [sys.argv[1], *(os.path.join(place, name) for place, _, names in os.walk(sys.argv[1]) for name in names)]
for path in paths:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        continue
    opened += 1
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        locked += 1
    except OSError:
        pass
print(opened, locked)
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that everybody can go through."""
    directory = Path(tempfile.mkdtemp(prefix="sagelet-public-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


def intrude(data: Path) -> str:
    """Runs as another user, for whom sys.executable may be out of reach."""
    become = (lambda: os.setuid(NOBODY)) if os.geteuid() == 0 else None
    done = subprocess.run(
        ["/usr/bin/env", "python3", "-c", INTRUDER, str(data)], capture_output=True, text=True, check=True,
        cwd="/", preexec_fn=become, env={"PATH": "/usr/bin:/bin"}, timeout=60,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_directory_that_was_open_to_all_is_closed(public: Path) -> None:
    """It was made by hand, or by a tool, before the first start."""
    data = public / "data"
    data.mkdir(mode=0o755)
    data.chmod(0o755)
    server = SageletProcess(data, "--runtime", "process").start()
    try:
        s3 = server.client("s3")
        s3.create_bucket(Bucket="secrets")
        s3.put_object(Bucket="secrets", Key="k", Body=b"secret")
        assert stat.S_IMODE(data.stat().st_mode) == 0o700
        assert stat.S_IMODE((data / "lock").stat().st_mode) == 0o600
        if os.geteuid() == 0:
            assert intrude(data) == "0 0"
    finally:
        server.stop()
    data.chmod(0o755)
    lock_directory(data).close()
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_somebodys_open_directory_for_something_else_is_left_alone(public: Path) -> None:
    (public / "theirs.txt").write_text("theirs")
    with pytest.raises(SettingsError, match="chmod 700"):
        lock_directory(public)
    assert stat.S_IMODE(public.stat().st_mode) == 0o755
    assert os.listdir(public) == ["theirs.txt"]


def test_the_lock_is_no_link_that_leads_out(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "data").mkdir(mode=0o700)
    (tmp_path / "data" / "lock").symlink_to(victim)
    with pytest.raises(SettingsError):
        lock_directory(tmp_path / "data")
    assert victim.read_text() == "precious"


# --- databases of others' ---------------------------------------------------------------------------------------------

SCHEMAS = {
    "trigger": "CREATE TRIGGER evil AFTER UPDATE ON jobs BEGIN DELETE FROM jobs; END",
    "view": "CREATE VIEW evil AS SELECT load_extension('evil.so')",
    "virtual table": "CREATE VIRTUAL TABLE evil USING fts5(a)",
    "table": "CREATE TABLE evil (a)",
    "index": "CREATE INDEX evil ON jobs (abs(created_ms))",
    "a trigger by our name": (
        "DROP TRIGGER note_status; CREATE TRIGGER note_status AFTER UPDATE ON jobs BEGIN DELETE FROM jobs; END"
    ),
    "a table that is a view": (
        "PRAGMA foreign_keys = OFF; DROP TABLE throttled_calls; CREATE VIEW throttled_calls AS"
        " SELECT 1 AS job_id, 2 AS calls"
    ),
    "a row of a text that is not JSON": "UPDATE jobs SET record = '[]'",
    "an id that leads out": "UPDATE jobs SET record = json_set(record, '$.id', '../../../../evil')",
    "a region that leads out": "UPDATE jobs SET record = json_set(record, '$.key.region', '..')",
}


def changed_archive(tmp_path: Path, change: Callable[[Path], None]) -> Path:
    """An export whose database of jobs was changed, with a digest that is right again."""
    fill(tmp_path / "data")
    export_data(tmp_path / "data", tmp_path / "good.tar")
    with (tmp_path / "good.tar").open("rb") as packed:
        members = [(one.info, b"".join(one.chunks())) for one in read_archive(packed)]
    with (tmp_path / "bad.tar").open("wb") as out, tarfile.open(fileobj=out, mode="w|") as tar:
        digest = archive._Digest()
        for info, content in members:
            if info.name == archive.DATABASE:
                (tmp_path / "changed.db").write_bytes(content)
                change(tmp_path / "changed.db")
                content = (tmp_path / "changed.db").read_bytes()
                info.size = len(content)
            digest.begin(info)
            digest.update(content)
            tar.addfile(info, io.BytesIO(content))
        end = tarfile.TarInfo(archive.END)
        text = f'{{"members": {digest.members}, "sha256": "{digest.value()}"}}'.encode()
        end.size = len(text)
        tar.addfile(end, io.BytesIO(text))
    return tmp_path / "bad.tar"


@pytest.mark.parametrize("kind", SCHEMAS)
def test_an_import_carries_nothing_but_rows(tmp_path: Path, kind: str) -> None:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as db:
            db.executescript(SCHEMAS[kind])

    bad = changed_archive(tmp_path, change)
    with pytest.raises(ArchiveDamaged, match=r"sagelet\.db"):
        import_data(bad, tmp_path / "new")
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"lock", "identity.json"}


def test_the_same_archive_unchanged_is_taken(tmp_path: Path) -> None:
    imported = import_data(changed_archive(tmp_path, lambda _: None), tmp_path / "new")
    assert imported.jobs == 2


@pytest.mark.parametrize(("name", "opening"), [("sagelet.db", Store), ("s3/.catalog.db", Catalog)])
def test_a_database_of_somebody_elses_is_not_opened(
    tmp_path: Path, name: str, opening: Callable[[Path], object]
) -> None:
    fill(tmp_path / "data")
    with closing(sqlite3.connect(tmp_path / "data" / name)) as db, db:
        table = "jobs" if name == "sagelet.db" else "objects"
        db.execute(f"CREATE TRIGGER evil AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END")
    server = SageletProcess(tmp_path / "data", "--runtime", "process")
    assert not server.begin()
    (line,) = server.output
    assert "trigger 'evil'" in line
    assert "`sagelet check --repair`" in line
    with pytest.raises(DatabaseDamaged):
        opening(tmp_path / "data" / name)


def test_the_intruder_gets_in_where_it_can(public: Path) -> None:
    """What the test above relies on: the intruder does get in where it can."""
    (public / "open").mkdir(mode=0o755)
    (public / "open" / "a").write_text("x")
    assert intrude(public) == "2 2"
