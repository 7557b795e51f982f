"""A data directory is known by its id: copied, moved and deleted ones, and one whose lock is removed."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from sagelet_engine.runtimes.lost_hosts import lost_processes
from support.directories import (
    check_trained,
    copy,
    ended_with,
    go,
    paused,
    remove,
    server_on,
    start_waiting,
)
from support.programs import asks
from support.server import SageletProcess, until
from support.shell_jobs import IMAGES, ShellJobs

RUNTIMES = [pytest.param("process", marks=pytest.mark.xla), pytest.param("docker", marks=pytest.mark.docker)]


@pytest.fixture(params=RUNTIMES)
def runtime(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
@asks("busybox")
def image(runtime: str) -> str:
    if runtime in IMAGES:
        return IMAGES[runtime]
    import docker

    from support.tiny_image import ensure

    client = docker.from_env()
    try:
        return ensure(client)
    finally:
        client.close()


@pytest.fixture
def original(tmp_path: Path, runtime: str) -> Iterator[SageletProcess]:
    server = server_on(tmp_path / "data", runtime).start()
    yield server
    server.stop()


def sagelet(*arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("sagelet")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    return done.stdout + done.stderr


@pytest.mark.parametrize("how", ["-R", "-l"], ids=["copies", "hard links"])
def test_a_copy_leaves_its_originals_hosts_alone(
    original: SageletProcess, runtime: str, image: str, tmp_path: Path, how: str
) -> None:
    if how == "-l":
        original.stop()
        original.start()
    name = start_waiting(original, image)
    with paused(original):
        copy(original.data, tmp_path / "copy", how)
    if how == "-l":
        # The copy's lock and databases are the original's, and an error says so.
        second = server_on(tmp_path / "copy", runtime)
        assert not second.begin()
        assert "another sagelet" in "".join(second.output) or "second name" in "".join(second.output)
    else:
        second = server_on(tmp_path / "copy", runtime).start()
        assert "is a copy of" in "".join(second.output)
        jobs = ShellJobs(second, image)
        assert jobs.ended(name)["TrainingJobStatus"] == "Failed"
        # Everything that a directory can do to hosts.
        second.stop()
        sagelet("gc", "--data", str(second.data), "--yes", "--keep-jobs", "0s")
        sagelet("reset", "--data", str(second.data), "--yes")
    original.kill()
    if how == "-l":
        remove(tmp_path / "copy")
    original.start()
    go(original.data)
    check_trained(original, image, name)


def test_a_moved_directory_keeps_its_hosts(original: SageletProcess, image: str, tmp_path: Path) -> None:
    name = start_waiting(original, image)
    original.kill()
    original.data = original.data.rename(tmp_path / "moved")
    original.start()
    go(original.data)
    check_trained(original, image, name)


def test_hosts_of_a_deleted_directory_are_ended(
    original: SageletProcess, runtime: str, image: str, tmp_path: Path
) -> None:
    name = start_waiting(original, image)
    original.kill()
    remove(original.data)
    mine = str(original.data) if runtime == "process" else name

    def lost(*options: str) -> list[str]:
        said = sagelet("gc", "--data", str(tmp_path / "other"), *options)
        return [line for line in said.splitlines() if mine in line]

    with_server = server_on(tmp_path / "other", runtime)
    with_server.start()
    # The server has looked at its start.
    until(lambda: lost("--dry-run", "--endpoint", with_server.endpoint) == [])
    if runtime == "process":
        assert [one for one in lost_processes() if mine in one.directory] == []
    with_server.stop()


def test_hosts_that_no_job_knows_are_ended(original: SageletProcess, runtime: str, image: str) -> None:
    start_waiting(original, image)
    original.kill()
    outlived = programs(original.data)
    assert {name for name, _ in outlived} == ({"host_shim.py", "feeder.py"} if runtime == "process" else {"feeder.py"})
    for path in original.data.glob("sagelet.db*"):
        path.unlink()
    said = sagelet("check", "--repair", "--data", str(original.data))
    assert "sagelet.db" in said
    assert programs(original.data) == outlived, "their files were moved aside, and they go on"
    original.start()
    until(lambda: any("ended: hosts of" in line for line in original.output))
    until(lambda: programs(original.data) == set())


def programs(data: Path) -> set[tuple[str, int]]:
    """Shims and feeders that work in a data directory, wherever in it: file name and process id."""
    found = set()
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            names = {Path(word).name for word in process.cmdline()[1:5]} & {"host_shim.py", "feeder.py"}
            if names and Path(process.cwd()).is_relative_to(data):
                found.add((*names, process.pid))
    return found


def test_a_second_server_does_not_start_beside_one_whose_lock_was_removed(
    original: SageletProcess, runtime: str
) -> None:
    with paused(original):
        (original.data / "lock").unlink()
        second = server_on(original.data, runtime)
        assert not second.begin()
        assert "another sagelet" in "".join(second.output)
        assert len(second.output) == 1
    # The second has made another lock file, which is not the first one's.
    assert "lock was removed" in ended_with(original)
    assert original.ended == 1
    original.start()


def test_a_server_ends_whose_directory_is_replaced(original: SageletProcess, tmp_path: Path) -> None:
    with paused(original):
        original.data.rename(tmp_path / "away")
        original.data.mkdir()
    assert "was moved, removed or replaced" in ended_with(original)
    assert os.listdir(original.data) == []
    original.data.rmdir()
    (tmp_path / "away").rename(original.data)
    original.start()


@pytest.mark.xla
def test_a_server_that_fails_once_it_has_started_ends(tmp_path: Path) -> None:
    """What it started before it failed does not hold the process."""
    server = server_on(tmp_path / "data", "process")
    (server.data / "server.json" / "in the way").mkdir(parents=True)
    server.data.chmod(0o700)
    assert not server.begin()
    assert server.output == [f"Error: {server.data / 'server.json'} cannot be written: Is a directory\n"]


def test_a_server_ends_though_nobody_reads_what_it_says(tmp_path: Path) -> None:
    """The terminal, or the program that started it, is gone. Its words about the lost directory have no reader."""
    program = str(Path(sys.executable).with_name("sagelet"))
    command = [program, "up", "--data", str(tmp_path / "data"), "--port", "0", "--runtime", "process"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            assert server.stdout is not None
            assert "ready" in server.stdout.readline()
            server.stdout.close()
            (tmp_path / "data").rename(tmp_path / "moved")
            assert server.wait(30) == 1
        finally:
            server.kill()
