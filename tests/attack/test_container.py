"""The attacker is a job in a container: it wants more of the machine than its own, and to be somebody."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container

from sagelet_engine.base.keys import FILE as KEY_FILE
from sagelet_engine.images.variants import training_image
from sagelet_engine.runtimes.node.confinement import NOBODY
from support.server import SageletProcess, until
from support.shell_jobs import ShellJobs
from support.tiny_image import ensure

pytestmark = [pytest.mark.docker, pytest.mark.programs("busybox")]

WAITS = "until [ -e /opt/ml/go ]; do $B usleep 50000; done"
#: Of `--log-size`, in lines of `seq`: each takes some 85 bytes in Docker's log.
LOG_SIZE = "2M"
FITS, TOO_MANY = 20_000, 500_000


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    options = ("--runtime", "docker", "--stop-grace", "2", "--log-size", LOG_SIZE, "--max-jobs", "2")
    server = SageletProcess(tmp_path_factory.mktemp("attack") / "data", *options).start()
    yield server
    server.stop()


@pytest.fixture
def jobs(server: SageletProcess, engine: docker.DockerClient) -> ShellJobs:
    return ShellJobs(server, ensure(engine))


@pytest.fixture(scope="module")
def clean_image_jobs(server: SageletProcess) -> ShellJobs:
    """Of the training image."""
    return ShellJobs(server, training_image())


def container(engine: docker.DockerClient, name: str) -> Container:
    """The job's, while it runs."""
    filters = {"label": f"org.sagelet.job-name={name}"}
    found: Container = until(lambda: next(iter(engine.containers.list(ignore_removed=True, filters=filters)), None))
    return found


def let_go(jobs: ShellJobs) -> None:
    for opt_ml in jobs.server.data.glob("jobs/*/*/*/algo-*/opt-ml"):
        (opt_ml / "go").touch()


def completed(jobs: ShellJobs, name: str) -> list[str]:
    """What the job said."""
    job = jobs.ended(name)
    lines = jobs.written(name)
    assert job["TrainingJobStatus"] == "Completed", (job, lines[-20:])
    return lines


def test_nothing_but_opt_ml_and_scratch_can_be_written(jobs: ShellJobs, engine: docker.DockerClient) -> None:
    places = "/ /bin /etc /usr /opt /run /proc /sys /dev"
    name = jobs.start(
        f"for place in {places}; do touch $place/evil 2>/dev/null && echo wrote $place; done;"
        " for place in /opt/ml /tmp /var/tmp /root /dev/shm; do touch $place/fine && echo $place; done;"
        f" $B dd if=/dev/zero of=/fill bs=1M count=64; echo end; {WAITS}"
    )
    jobs.wait_for_line(name, "end")
    running = container(engine, name)
    # Docker's own view: its directory for the container has mount points and nothing else.
    assert {one["Path"].split("/")[1] for one in running.diff() or ()} <= {"opt", "root", "tmp", "var", "etc"}
    size = engine.api.inspect_container(running.id)
    assert size["HostConfig"]["ReadonlyRootfs"] is True
    (listed,) = engine.api.containers(size=True, filters={"id": running.id})
    assert listed.get("SizeRw", 0) < 1024**2
    let_go(jobs)
    said = completed(jobs, name)
    assert [line for line in said if line.startswith(("/", "wrote"))] == [
        "/opt/ml", "/tmp", "/var/tmp", "/root", "/dev/shm",
    ]  # fmt: skip


def test_the_training_image_has_no_other_writable_directory(clean_image_jobs: ShellJobs) -> None:
    own = "/proc /sys /dev /opt/ml /tmp /var/tmp /root"
    prune = " ".join(f"-path {place} -prune -o" for place in own.split())
    name = clean_image_jobs.start(f"id -u; whoami; find / {prune} -writable ! -type l -print 2>/dev/null; echo end")
    said = completed(clean_image_jobs, name)
    assert [line for line in said if line.startswith("/")] == []
    assert said[-1] == "end"


def test_what_a_job_left_in_its_scratch_directories_goes_with_it(jobs: ShellJobs) -> None:
    name = jobs.start("mkdir -p /tmp/a/b; echo x >/tmp/a/b/c; $B chmod 0 /tmp/a/b /tmp/a; echo x >/root/x")
    completed(jobs, name)
    assert not list(jobs.server.data.glob("jobs/*/*/*/algo-*/run/scratch"))


def test_it_is_nobody_and_becomes_nobody_else(jobs: ShellJobs) -> None:
    name = jobs.start(
        "id -u; id -g; $B cp /bin/busybox /tmp; $B chmod 6755 /tmp/busybox; /tmp/busybox id -u;"
        " $B chown 0 /tmp/busybox 2>/dev/null && echo chowned; $B mount -t tmpfs x /tmp 2>/dev/null && echo mounted;"
        " $B mknod /tmp/sda b 8 0 2>/dev/null && echo device; $B chroot /tmp true 2>/dev/null && echo chroot;"
        " $B unshare -U true 2>/dev/null && echo unshared; $B hostname evil 2>/dev/null && echo named;"
        " echo 1 2>/dev/null >/proc/sys/kernel/panic && echo sysctl; echo end"
    )
    user = str(os.getuid() or NOBODY)
    group = str(os.getgid() if os.getuid() else NOBODY)
    assert completed(jobs, name) == [user, group, user, "end"]


def test_it_sees_no_control_group_but_its_own(jobs: ShellJobs, engine: docker.DockerClient) -> None:
    name = jobs.start(f"cat /proc/self/cgroup; echo end; {WAITS}")
    jobs.wait_for_line(name, "end")
    attributes: dict[str, Any] = container(engine, name).attrs
    assert attributes["HostConfig"]["CgroupnsMode"] == "private"
    let_go(jobs)
    *groups, _ = completed(jobs, name)
    assert groups
    assert {line.rpartition(":")[2] for line in groups} == {"/"}


def test_memory_beyond_the_instance_types_is_not_had(jobs: ShellJobs, engine: docker.DockerClient) -> None:
    """An ml.t3.medium has 4 GiB; the machine of the test has more."""
    total = int(engine.info()["MemTotal"])
    small = {"InstanceType": "ml.t3.medium", "InstanceCount": 1, "VolumeSizeInGB": 1}
    name = jobs.start(f"{WAITS}; x=0123456789abcdef; while :; do x=$x$x; done", resources=small)
    host = container(engine, name).attrs["HostConfig"]
    limit = min(4 * 1024**3, total - min(2 * 1024**3, total // 8))
    assert (host["Memory"], host["MemorySwap"], host["OomScoreAdj"]) == (limit, limit, 500)
    let_go(jobs)
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert "OutOfMemory" in job["FailureReason"]


def test_a_type_larger_than_the_machine_runs_with_what_there_is(jobs: ShellJobs, engine: docker.DockerClient) -> None:
    total, cpus = (int(engine.info()[name]) for name in ("MemTotal", "NCPU"))
    large = {"InstanceType": "ml.p3.8xlarge", "InstanceCount": 1, "VolumeSizeInGB": 1}
    name = jobs.start(f"{WAITS}; echo ran", resources=large)
    host = container(engine, name).attrs["HostConfig"]
    assert host["Memory"] == min(244 * 1024**3, total - min(2 * 1024**3, total // 8))
    assert host["NanoCpus"] == (32_000_000_000 if cpus > 32 else 0)
    let_go(jobs)
    assert completed(jobs, name)[-1] == "ran"


def test_a_fork_bomb_meets_its_end(jobs: ShellJobs) -> None:
    neighbour = jobs.start(f"echo here; {WAITS}; echo still here")
    jobs.wait_for_line(neighbour, "here")
    # Each process opens a pipe that nobody writes to: it costs a fork, and no start of a program.
    bomb = "$B mkfifo /tmp/never; while :; do read x </tmp/never & done"
    name = jobs.start(f"cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max; {bomb}")
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert "16384" in jobs.log(name)
    let_go(jobs)
    assert completed(jobs, neighbour)[-1] == "still here"


def test_the_servers_files_are_out_of_reach(jobs: ShellJobs) -> None:
    key = jobs.server.data / KEY_FILE
    secret = key.read_text()
    name = jobs.start(
        f'for root in "" /proc/1/root /proc/1/cwd /opt/ml/.. /opt/ml/input/../../../..; do'
        f" cat $root{key} $root/var/run/docker.sock $root/root/.ssh/id_rsa 2>/dev/null; done;"
        f" $B ln -s {key} /opt/ml/model/key; $B ln -s {key} /tmp/key; cat /tmp/key 2>/dev/null; echo end"
    )
    said = completed(jobs, name)
    assert said == ["end"]
    assert not any(line and line in secret for line in said[:-1])


def test_an_object_that_a_channel_links_to_stays_as_it_is(jobs: ShellJobs) -> None:
    jobs.s3.put_object(Bucket="tests", Key="train/a.txt", Body=b"untouched")
    source = {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": "s3://tests/train/"}}
    channel = {"ChannelName": "train", "DataSource": source, "InputMode": "FastFile"}
    name = jobs.start(
        "cd /opt/ml/input/data; cat train/a.txt; echo; $B chmod 777 train/a.txt; echo evil >train/a.txt;"
        " $B rm -f train/a.txt; $B mv train other; $B ln train/a.txt /opt/ml/model/a; exit 0",
        InputDataConfig=[channel],
    )
    said = completed(jobs, name)
    assert "untouched" in said
    assert sum("Read-only file system" in line for line in said) == 3, said
    assert jobs.s3.get_object(Bucket="tests", Key="train/a.txt")["Body"].read() == b"untouched"
    (path,) = jobs.server.data.glob("s3/tests/train/a.txt")
    assert path.stat().st_uid == os.getuid()


def numbers(said: list[str]) -> list[int]:
    return [int(line) for line in said if line.isdecimal()]


def log_files(running: Container) -> list[Path]:
    """Returns the log files of this machine's Docker Engine. Empty if they cannot be read."""
    path = Path(running.attrs["LogPath"])
    return [*path.parent.glob(f"{path.name}*")] if os.access(path.parent, os.R_OK | os.X_OK) else []


def test_a_log_that_fits_comes_whole_although_nobody_read_it(jobs: ShellJobs) -> None:
    name = jobs.start(f"echo ready; {WAITS}; seq {FITS}; touch /opt/ml/done; echo end")
    jobs.wait_for_line(name, "ready")
    jobs.server.kill()
    let_go(jobs)
    until(lambda: list(jobs.server.data.glob("jobs/*/*/*/algo-*/opt-ml/done")))
    jobs.server.start()
    jobs = ShellJobs(jobs.server, training_image())
    said = completed(jobs, name)
    assert numbers(said) == list(range(1, FITS + 1))
    assert said[-1] == "end"


def test_a_flood_while_the_server_is_down_ends_its_job_and_fills_no_disk(
    jobs: ShellJobs, engine: docker.DockerClient
) -> None:
    name = jobs.start(f"echo ready; {WAITS}; seq {TOO_MANY}; touch /opt/ml/flooded; exec sleep 600")
    jobs.wait_for_line(name, "ready")
    running = container(engine, name)
    jobs.server.kill()
    let_go(jobs)
    until(lambda: list(jobs.server.data.glob("jobs/*/*/*/algo-*/opt-ml/flooded")))
    assert sum(file.stat().st_size for file in log_files(running)) < 2.5 * 2 * 1024**2
    jobs.server.start()
    jobs = ShellJobs(jobs.server, training_image())
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert "algo-1 has printed more than 2 MiB" in job["FailureReason"]
    assert "--log-size" in job["FailureReason"]


def test_a_flood_ends_its_job_without_a_gap_before(jobs: ShellJobs) -> None:
    name = jobs.start(f"seq {TOO_MANY}; while :; do seq 1000000 1001000; done")
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert "has printed more than" in job["FailureReason"]
    said = numbers(jobs.log(name))
    assert said[:FITS] == list(range(1, FITS + 1))
