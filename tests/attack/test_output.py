"""A job attacks its own log: it opens it, passes it on, floods it, and prints while nothing reads."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.programs import asks
from support.server import NATIVE, SageletProcess, servers_by_runtime, until
from support.shell_jobs import ShellJobs

RUNTIMES = [pytest.param("process", marks=pytest.mark.xla), pytest.param("docker", marks=pytest.mark.docker)]
NOBODY = 65534


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], SageletProcess]]:
    with servers_by_runtime(tmp_path_factory.mktemp, "--max-jobs", "3", "--stop-grace", "2") as by_runtime:
        yield by_runtime


@pytest.fixture(params=RUNTIMES)
@asks("busybox")
def jobs(request: pytest.FixtureRequest, servers: Callable[[str], SageletProcess]) -> ShellJobs:
    """Of each runtime in turn."""
    if request.param == "process":
        return ShellJobs(servers("process"), NATIVE)
    import docker

    from support.tiny_image import ensure

    client = docker.from_env()
    try:
        return ShellJobs(servers("docker"), ensure(client))
    finally:
        client.close()


@pytest.fixture
def process_jobs(servers: Callable[[str], SageletProcess]) -> ShellJobs:
    return ShellJobs(servers("process"), NATIVE)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/stderr", "/proc/self/fd/1", "/proc/self/fd/2"])
def test_a_script_that_opens_its_output_by_name_truncates_nothing(jobs: ShellJobs, name: str) -> None:
    """105 lines: `>` truncates a file."""
    script = (
        f"i=0; while [ $i -lt 21 ]; do for j in 1 2 3 4; do echo $i-$j; done; echo $i-named > {name}; i=$((i+1)); done"
    )
    job_name = jobs.start(script)
    assert jobs.ended(job_name)["TrainingJobStatus"] == "Completed"
    kinds = ("1", "2", "3", "4", "named")
    expected = [f"{number}-{kind}" for number in range(21) for kind in kinds]
    found = jobs.log(job_name)
    # Docker has two streams, and keeps the order within each.
    assert sorted(found) == sorted(expected)
    if "stderr" not in name and "fd/2" not in name:
        assert found == expected


@pytest.mark.xla
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_job_can_open_it(process_jobs: ShellJobs) -> None:
    script = (
        f"import os; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); print('kept', flush=True); "
        "open('/dev/stdout', 'w').write('opened\\n'); open('/dev/stderr', 'w').write('too\\n')"
    )
    name = process_jobs.start(f'python3 -c "{script}"')
    job = process_jobs.ended(name)
    assert (job["TrainingJobStatus"], process_jobs.written(name)) == ("Completed", ["kept", "opened", "too"])


@pytest.mark.xla
def test_stdout_and_stderr_keep_their_order(process_jobs: ShellJobs) -> None:
    name = process_jobs.start("i=0; while [ $i -lt 500 ]; do echo $i; echo $i >&2; i=$((i+1)); done")
    assert process_jobs.ended(name)["TrainingJobStatus"] == "Completed"
    assert process_jobs.written(name) == [str(number) for number in range(500) for _ in range(2)]


@pytest.mark.xla
@pytest.mark.programs("busybox")
def test_daemons_that_keep_the_output_open_end_with_the_job(process_jobs: ShellJobs) -> None:
    name = process_jobs.start(
        "for i in 1 2 3; do $B setsid /bin/sh -c 'while true; do echo more; done' & done; echo end"
    )
    assert process_jobs.ended(name)["TrainingJobStatus"] == "Completed"
    assert "end" in process_jobs.log(name)


@pytest.mark.xla
@pytest.mark.programs("busybox")
def test_a_stranger_that_keeps_the_output_open_does_not_hold_the_end(process_jobs: ShellJobs) -> None:
    """A job may have passed it on to a process that is not its own, and so is not killed."""
    name = process_jobs.start("echo pid $$; until [ -e /opt/ml/model/go ]; do $B usleep 20000; done; echo last")
    process_jobs.wait_for_line(name, "pid ")
    pid = process_jobs.log(name)[0].split()[1]
    model = Path(f"/proc/{pid}/root/opt/ml/model")
    with open(f"/proc/{pid}/fd/1", "wb", buffering=0) as stranger:
        (model / "go").touch()
        assert process_jobs.ended(name)["TrainingJobStatus"] == "Completed"
        assert process_jobs.written(name)[-1] == "last"
        with pytest.raises(BrokenPipeError):
            stranger.write(b"late\n")


@pytest.mark.xla
@pytest.mark.programs("busybox")
def test_what_is_printed_while_the_server_is_dead_is_in_the_log(tmp_path: Path) -> None:
    """Far more than a pipe holds, so somebody has to read it."""
    server = SageletProcess(tmp_path / "data", "--runtime", "process", "--max-jobs", "1").start()
    try:
        jobs = ShellJobs(server, NATIVE)
        go = tmp_path / "go"
        script = (
            f"echo first; until [ -e {go} ]; do $B usleep 20000; done; $B seq 1 200000; echo done > {go}.done; exit 7"
        )
        name = jobs.start(script)
        jobs.wait_for_line(name, "first")
        server.kill()
        go.touch()
        until(lambda: Path(f"{go}.done").exists())
        server.start()
        job = jobs.ended(name)
        assert job["FailureReason"].endswith("exit code: 7")
        said = jobs.log(name)
        assert said[:200_001] == ["first", *map(str, range(1, 200_001))]
        assert "error script-exit: The script ended with exit code 7" in said[200_002]
    finally:
        server.stop()
