"""Very many files, archives that are bombs, files that change while they are read: each ends in time, and bounded.

SAGELET_TEST_FILES=N is the number of files of a job.
"""

import gzip
import io
import os
import tarfile

import pytest

from support.shell_jobs import Neighbour, ShellJobs

FILES = int(os.environ.get("SAGELET_TEST_FILES", "1000"))
#: Seconds.
PATIENCE = max(300, FILES // 20)
#: What is staged and uploaded is the same code for each runtime.
pytestmark = pytest.mark.parametrize("shell_jobs", [pytest.param("process", marks=pytest.mark.xla)], indirect=True)
MAKES = f"i=0; while [ $i -lt {FILES} ]; do echo $i > f$i; i=$((i+1)); done"
CHECKPOINTS = {"CheckpointConfig": {"S3Uri": "s3://tests/many", "LocalPath": "/opt/ml/checkpoints"}}


def keys(jobs: ShellJobs, prefix: str) -> int:
    pages = jobs.s3.get_paginator("list_objects_v2").paginate(Bucket="tests", Prefix=prefix)
    return sum(len(page.get("Contents", [])) for page in pages)


def test_very_many_files(shell_jobs: ShellJobs, neighbour: Neighbour) -> None:
    """Checkpoints one by one and back again, a model in one archive, output without one."""
    job = shell_jobs.ended(shell_jobs.start(f"cd /opt/ml/checkpoints; {MAKES}", **CHECKPOINTS), PATIENCE)
    assert job["TrainingJobStatus"] == "Completed", job
    assert keys(shell_jobs, "many/") == FILES
    name = shell_jobs.start(f"$B ls /opt/ml/checkpoints | $B wc -l; cd /opt/ml/model; {MAKES}", **CHECKPOINTS)
    job = shell_jobs.ended(name, PATIENCE)
    assert job["TrainingJobStatus"] == "Completed", job
    assert shell_jobs.written(name) == [str(FILES)]
    body = shell_jobs.s3.get_object(Bucket="tests", Key=f"out/{name}/output/model.tar.gz")["Body"].read()
    with tarfile.open(fileobj=io.BytesIO(body)) as model:
        assert len(model.getnames()) == FILES
    assert neighbour.grown_mib() < 100


def bomb(size: int, name: str = "zeros") -> bytes:
    """Some bytes of .tar.gz that claim a file of `size`."""
    info = tarfile.TarInfo(name)
    info.size = size
    return gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(10_000))


@pytest.mark.parametrize("isolated", [False, True])
def test_a_source_archive_that_is_a_bomb(shell_jobs: ShellJobs, neighbour: Neighbour, isolated: bool) -> None:
    """VolumeSizeInGB is 1."""
    shell_jobs.s3.put_object(Bucket="tests", Key="bomb.tar.gz", Body=bomb(2 * 1024**3))
    name = shell_jobs.start(
        "true",
        HyperParameters={"sagemaker_submit_directory": '"s3://tests/bomb.tar.gz"'},
        EnableNetworkIsolation=isolated,
    )
    job = shell_jobs.ended(name)
    assert job["TrainingJobStatus"] == "Failed"
    assert job["FailureReason"].startswith("ClientError: Data download failed:source archive s3://tests/bomb.tar.gz")
    assert "unpacks to more than 1073741824 bytes" in job["FailureReason"]
    assert neighbour.grown_mib() < 100


def test_files_that_change_while_they_are_read(shell_jobs: ShellJobs, neighbour: Neighbour) -> None:
    """A checkpoint that grows for ever, one that comes and goes, one that is now a file, now a link or directory."""
    name = shell_jobs.start(
        "cd /opt/ml/checkpoints; while true; do echo x >> grows; done & i=0; while [ $i -lt 400 ]; do"
        " echo $i > comes; $B usleep 10000;"
        " $B rm -rf comes turns; case $((i%3)) in 0) echo x > turns;; 1) $B ln -s /etc/passwd turns;;"
        " 2) $B mkdir -p turns/deep; echo y > turns/deep/file;; esac; i=$((i+1)); done; kill $!; wait; $B rm -f grows;"
        " echo last > last",
        CheckpointConfig={"S3Uri": "s3://tests/changing", "LocalPath": "/opt/ml/checkpoints"},
    )
    job = shell_jobs.ended(name)
    assert job["TrainingJobStatus"] == "Completed", job
    pages = shell_jobs.s3.get_paginator("list_objects_v2").paginate(Bucket="tests", Prefix="changing/")
    found = {one["Key"].removeprefix("changing/") for page in pages for one in page.get("Contents", [])}
    assert found == {"last", "turns"}
    assert shell_jobs.s3.get_object(Bucket="tests", Key="changing/turns")["Body"].read() == b"x\n"
