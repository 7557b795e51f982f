"""Jobs of two hosts and channels from file systems, for real on both runtimes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.conftest import RUNTIMES
from support.channels import channel
from support.jobs import Jobs
from support.server import SageletProcess

JOIN = """
    import json, os, pathlib
    import torch
    import torch.distributed as dist

    hosts, me = json.loads(os.environ["SM_HOSTS"]), os.environ["SM_CURRENT_HOST"]
    rank = hosts.index(me)
    shard = sorted(os.listdir("/opt/ml/input/data/training"))
    print(me, "of", hosts, "has", shard)
    dist.init_process_group("gloo", rank=rank, world_size=len(hosts))
    total = torch.tensor([float(len(shard)), rank + 1.0])
    dist.all_reduce(total)
    print("all have", total.tolist())
    for directory in (os.environ["SM_MODEL_DIR"], os.environ["SM_OUTPUT_DATA_DIR"]):
        pathlib.Path(directory, f"rank-{rank}").write_text(me)
        pathlib.Path(directory, "same").write_text(me)
    dist.destroy_process_group()
"""


def test_two_hosts_train_together(jobs: Jobs) -> None:
    jobs.s3.create_bucket(Bucket="tests")
    for name in "abc":
        jobs.s3.put_object(Bucket="tests", Key=f"shards/{name}", Body=b"x")
    name = jobs.submit(
        JOIN,
        hosts=2,
        InputDataConfig=[channel("s3://tests/shards/", S3DataDistributionType="ShardedByS3Key")],
    )
    job = jobs.ended(name)
    logs = {host: jobs.log(name, host) for host in ("algo-1", "algo-2")}
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), logs)
    assert "algo-1 of ['algo-1', 'algo-2'] has ['a', 'c']" in logs["algo-1"]
    assert "algo-2 of ['algo-1', 'algo-2'] has ['b']" in logs["algo-2"]
    assert all("all have [3.0, 3.0]" in log for log in logs.values())
    merged = {"rank-0": b"algo-1", "rank-1": b"algo-2", "same": b"algo-2"}
    assert jobs.artifact(name) == jobs.artifact(name, "output") == merged


HANG = """
    import os, time
    from pathlib import Path

    me = os.environ["SM_CURRENT_HOST"]
    print("up", me)
    go = Path("/opt/ml/input/data/shared/go")
    while not (me == "algo-2" and go.exists()):
        time.sleep(0.1)
    raise RuntimeError(f"{me} gives up")
"""


@pytest.fixture(params=RUNTIMES)
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[SageletProcess, Path]]:
    """A server that may be killed, and the directory that is a file system to it."""
    directory = tmp_path / "file system"
    (directory / "jobs").mkdir(parents=True)
    # Of a server that is root containers are nobody's.
    (directory / "jobs").chmod(0o777)
    options = ("--runtime", request.param, "--file-system", f"fs-0123456789abcdef0={directory}")
    process = SageletProcess(tmp_path / "data", *options).start()
    yield process, directory / "jobs"
    process.stop()


def from_file_system(name: str, access: str) -> dict[str, object]:
    source = {
        "FileSystemId": "fs-0123456789abcdef0",
        "FileSystemType": "EFS",
        "DirectoryPath": "/jobs",
        "FileSystemAccessMode": access,
    }
    return {"ChannelName": name, "DataSource": {"FileSystemDataSource": source}}


def test_a_host_that_fails_ends_the_other_even_after_kill_9(shared: tuple[SageletProcess, Path]) -> None:
    server, directory = shared
    jobs = Jobs(server)
    name = jobs.submit(HANG, hosts=2, InputDataConfig=[from_file_system("shared", "ro")])
    for host in ("algo-1", "algo-2"):
        jobs.wait_for_line(name, f"up {host}", host=host)
    server.kill()
    (directory / "go").touch()
    server.start()
    job = jobs.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert "algo-2 gives up" in job["FailureReason"]
    assert "ExitCode 1" in job["FailureReason"]
    assert [line for line in jobs.log(name, "algo-1") if line.startswith("up")] == ["up algo-1"]


READ_AND_WRITE = """
    from pathlib import Path

    fixed, free = Path("/opt/ml/input/data/fixed"), Path("/opt/ml/input/data/free")
    print("read", (fixed / "a").read_text())
    try:
        (fixed / "new").touch()
        print("fixed is writable")
    except OSError as error:
        print("fixed is read-only:", error.strerror)
    (free / "b").write_text("by the job")
"""


def test_a_directory_of_this_machine_is_a_channel(shared: tuple[SageletProcess, Path]) -> None:
    server, directory = shared
    (directory / "a").write_text("of the user")
    jobs = Jobs(server)
    channels = [from_file_system("fixed", "ro"), from_file_system("free", "rw")]
    name = jobs.submit(READ_AND_WRITE, InputDataConfig=channels)
    job = jobs.ended(name)
    log = jobs.log(name)
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), log)
    assert "read of the user" in log
    assert next(line for line in log if line.startswith("fixed is ")).startswith("fixed is read-only: ")
    assert (directory / "b").read_text() == "by the job"
    assert sorted(os.listdir(directory)) == ["a", "b"]
    assert job["InputDataConfig"][0]["DataSource"] == channels[0]["DataSource"]
