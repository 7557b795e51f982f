"""Files that replace sagelet's while these are in use are never written to. Lost hosts are reported."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sagelet_engine.base.clock import SystemClock
from sagelet_engine.base.database import StoreUnavailable
from sagelet_engine.data.channels import feeder
from sagelet_engine.machine.checks import check_hosts
from sagelet_engine.runtimes import lost_hosts
from sagelet_engine.runtimes.process.runtime import ProcessRuntime, StandIn
from sagelet_engine.s3.store import S3Store
from sagelet_engine.store.jobs import Store
from support.data_directory import fill
from support.fakes import FakeClock, FakeRuntime
from support.server import until


def test_a_database_that_is_replaced_is_not_written_to(tmp_path: Path) -> None:
    fill(tmp_path / "mine")
    fill(tmp_path / "other", "two")
    store = Store(tmp_path / "mine" / "sagelet.db")
    store._close_idle()
    (tmp_path / "mine").rename(tmp_path / "away")
    (tmp_path / "other").rename(tmp_path / "mine")
    with pytest.raises(StoreUnavailable, match="removed or replaced"):
        store.counts()
    store.close()


def test_a_database_with_two_names_is_refused(tmp_path: Path) -> None:
    """SQLite keeps its log by the name: two programs under two names would each have one."""
    fill(tmp_path / "data")
    os.link(tmp_path / "data" / "sagelet.db", tmp_path / "second.db")
    with pytest.raises(StoreUnavailable, match="second name"):
        Store(tmp_path / "data" / "sagelet.db")


def test_a_directory_in_the_place_of_a_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "sagelet.db").mkdir()
    with pytest.raises(StoreUnavailable, match="is not a file: move away"):
        Store(tmp_path / "sagelet.db")


def test_objects_are_not_written_to_a_directory_that_took_the_place(tmp_path: Path) -> None:
    fill(tmp_path / "mine")
    store = S3Store(tmp_path / "mine" / "s3", SystemClock())
    with store.stage() as staged:
        staged.write(b"x")
        (tmp_path / "mine").rename(tmp_path / "away")
        (tmp_path / "mine" / "s3").mkdir(parents=True)
        with pytest.raises(StoreUnavailable, match="moved or replaced"):
            store.put("one-123456789012", "k", staged)
    store.close()
    assert os.listdir(tmp_path / "mine" / "s3") == []


def test_a_process_of_a_deleted_directory_is_found_and_ended(tmp_path: Path) -> None:
    """And none of a directory that was moved."""
    program = ["-c", "import time\nprint(flush=True)\ntime.sleep(600)", Path(feeder.__file__).name]
    started = []
    for name in ("moved", "deleted"):
        (tmp_path / name).mkdir()
        process = subprocess.Popen([sys.executable, *program], cwd=tmp_path / name, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        started.append(process)
    moved, deleted = started
    (tmp_path / "moved").rename(tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "deleted")

    def ours() -> list[lost_hosts.LostProcess]:
        return [lost for lost in lost_hosts.lost_processes() if str(tmp_path) in lost.directory]

    try:
        runtime = ProcessRuntime(tmp_path / "state", StandIn((sys.executable,)), SystemClock())
        assert [lost.pid for lost in ours()] == [deleted.pid]
        check = check_hosts(tmp_path, [runtime])
        assert (check.good, check.needed, check.remedy) == (False, False, "`sagelet gc` ends them")
        lost_hosts.end_process(ours()[0])
        until(lambda: deleted.poll() is not None)
        assert ours() == []
        assert moved.poll() is None
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def test_a_machine_without_lost_hosts(tmp_path: Path) -> None:
    assert check_hosts(tmp_path, [FakeRuntime(FakeClock())]).good
