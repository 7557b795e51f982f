"""`sagelet reset`, `export` and `import` beside and without a running server."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.jobs import Jobs
from support.server import ACCOUNT, SageletProcess

OTHER = "210987654321"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SageletProcess]:
    process = SageletProcess(tmp_path / "data", "--runtime", "process").start()
    yield process
    process.stop()


def sagelet(*arguments: str, code: int = 0) -> str:
    command = [str(Path(sys.executable).with_name("sagelet")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, input="n\n")
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def buckets(server: SageletProcess, account: str) -> list[str]:
    found = server.client("s3", aws_access_key_id=account).list_buckets()["Buckets"]
    return [bucket["Name"] for bucket in found]


def test_a_data_directory_as_a_whole(server: SageletProcess, tmp_path: Path) -> None:
    data, saved = str(tmp_path / "data"), str(tmp_path / "saved.tar.gz")
    for account in (ACCOUNT, OTHER):
        s3 = server.client("s3", aws_access_key_id=account)
        s3.create_bucket(Bucket=f"b-{account}")
        s3.put_object(Bucket=f"b-{account}", Key="k", Body=account.encode(), Metadata={"m": "v"})
    server.client("iam").create_role(RoleName="mine", AssumeRolePolicyDocument="{}")
    assert "0 jobs and 2 objects" in sagelet("export", saved, "--data", data)
    assert "another sagelet" in sagelet("import", saved, "--data", data, "--replace", code=1)
    # Neither without a yes nor by whoever does not have the directory.
    sagelet("reset", "--data", data, "--endpoint", server.endpoint, code=1)
    other = SageletProcess(tmp_path / "other", "--runtime", "process").start()
    try:
        answer = sagelet("reset", "--yes", "--data", data, "--endpoint", other.endpoint, code=1)
        assert f"{other.endpoint} does not serve {data}" in answer
    finally:
        other.stop()
    assert buckets(server, ACCOUNT) == [f"b-{ACCOUNT}"]
    assert "Deleted all jobs" in sagelet("reset", "--yes", "--data", data, "--endpoint", server.endpoint)
    # At the same address, with nothing of before: neither in the directory nor in memory.
    assert (buckets(server, ACCOUNT), buckets(server, OTHER)) == ([], [])
    assert "mine" not in {role["RoleName"] for role in server.client("iam").list_roles()["Roles"]}
    server.client("s3").create_bucket(Bucket="after")
    server.stop()
    assert "--replace" in sagelet("import", saved, "--data", data, code=1)
    assert "0 jobs and 2 objects" in sagelet("import", saved, "--data", data, "--replace")
    server.start()
    for account in (ACCOUNT, OTHER):
        assert buckets(server, account) == [f"b-{account}"]
        found = server.client("s3", aws_access_key_id=account).get_object(Bucket=f"b-{account}", Key="k")
        assert (found["Body"].read(), found["Metadata"]) == (account.encode(), {"m": "v"})


def abandon_upload(server: SageletProcess) -> None:
    s3 = server.client("s3")
    s3.create_bucket(Bucket="uploads")
    upload = s3.create_multipart_upload(Bucket="uploads", Key="k")["UploadId"]
    s3.upload_part(Bucket="uploads", Key="k", UploadId=upload, PartNumber=1, Body=b"x" * 1000)


def test_space_is_freed_beside_a_server_and_without_one(server: SageletProcess, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    jobs = Jobs(server)
    everything = ("gc", "--data", data, "--keep-uploads", "0s")
    for turn in ("beside", "without"):
        if turn == "beside":
            abandon_upload(server)
        jobs.submit("", name=f"job-{turn}", entrypoint=["sh", "-c", "echo 1 > /opt/ml/model/w"])
        assert jobs.ended(f"job-{turn}")["TrainingJobStatus"] == "Completed"
        if turn == "without":
            server.stop()
        said = json.loads(sagelet(*everything, "--dry-run", "--json"))
        assert (said["directories"], said["uploads"], said["jobs"]) == (1, int(turn == "beside"), 0)
        assert "files of 1 ended jobs gone" in sagelet(*everything)
        assert "files of 0 ended jobs gone" in sagelet(*everything)
    assert not list((tmp_path / "data" / "jobs").glob("*/*/*/algo-1"))
    server.start()
    assert "Uploads" not in server.client("s3").list_multipart_uploads(Bucket="uploads")
    assert jobs.ended("job-beside")["ModelArtifacts"]["S3ModelArtifacts"].endswith("model.tar.gz")
    # Jobs go when that is said, and confirmed.
    sagelet("gc", "--data", data, "--keep-jobs", "0s", code=1)
    assert "2 jobs gone, with their logs" in sagelet("gc", "--data", data, "--keep-jobs", "0s", "--yes")
    assert jobs.sagemaker.list_training_jobs()["TrainingJobSummaries"] == []
    other = SageletProcess(tmp_path / "other", "--runtime", "process").start()
    try:
        refusal = sagelet("gc", "--data", data, "--endpoint", other.endpoint, code=1)
        assert f"{other.endpoint} does not serve {data}" in refusal
    finally:
        other.stop()
