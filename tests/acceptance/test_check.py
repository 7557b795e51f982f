"""Damage of a data directory, as people meet it: at a start, in a job, in an export, in health and doctor."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError

import pytest

from support.jobs import Jobs
from support.server import SageletProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SageletProcess]:
    process = SageletProcess(tmp_path / "data", "--runtime", "process").start()
    yield process
    process.stop()


def sagelet(*arguments: str, code: int = 0) -> str:
    command = [str(Path(sys.executable).with_name("sagelet")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def put(server: SageletProcess, *keys: str) -> None:
    s3 = server.client("s3")
    s3.create_bucket(Bucket="tests")
    for key in keys:
        s3.put_object(Bucket="tests", Key=key, Body=b"good bytes " * 1000)


def rot(path: Path) -> None:
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.seek(5000)
        file.write(b"\x01")


def refused_start(server: SageletProcess) -> str:
    """What a server says that does not start: one line."""
    assert not server.begin()
    assert server.ended == 1
    (line,) = server.output
    return line


@pytest.mark.parametrize("mode", ["File", "FastFile", "Pipe"])
@pytest.mark.parametrize("how", ["one piece", "parts"])
def test_a_job_does_not_train_on_a_rotten_byte(server: SageletProcess, mode: str, how: str) -> None:
    put(server, "in/a", "in/b")
    if how == "parts":
        s3 = server.client("s3")
        upload = s3.create_multipart_upload(Bucket="tests", Key="in/b")["UploadId"]
        named = {"Bucket": "tests", "Key": "in/b", "UploadId": upload}
        part = s3.upload_part(**named, PartNumber=1, Body=b"x" * 6_000)
        s3.complete_multipart_upload(**named, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    rot(server.data / "s3" / "tests" / "in" / "b")
    jobs = Jobs(server)
    source = {"S3DataType": "S3Prefix", "S3Uri": "s3://tests/in/", "S3DataDistributionType": "FullyReplicated"}
    channel = {"ChannelName": "train", "InputMode": mode, "DataSource": {"S3DataSource": source}}
    name = jobs.submit("", entrypoint=["sh", "-c", "true"], InputDataConfig=[channel])
    ended = jobs.ended(name)
    assert ended["TrainingJobStatus"] == "Failed"
    reason = ended["FailureReason"]
    assert reason.startswith("ClientError: Data download failed:s3://tests/in/b: its bytes on the disk are not those")
    assert "`sagelet check`" in reason


def test_rotten_source_and_checkpoints_are_refused_too(server: SageletProcess) -> None:
    jobs = Jobs(server)
    put(server, "checkpoints/c")
    rot(server.data / "s3" / "tests" / "checkpoints" / "c")
    name = jobs.submit(
        "", entrypoint=["sh", "-c", "true"], CheckpointConfig={"S3Uri": "s3://tests/checkpoints"}
    )  # fmt: skip
    assert "s3://tests/checkpoints/c: its bytes" in jobs.ended(name)["FailureReason"]


def test_an_export_of_a_rotten_byte_is_refused(server: SageletProcess, tmp_path: Path) -> None:
    put(server, "a", "b")
    rot(server.data / "s3" / "tests" / "b")
    said = sagelet("export", str(tmp_path / "saved.tar"), "--data", str(server.data), code=1)
    assert "s3://tests/b: its bytes" in said
    assert not list(tmp_path.glob("*saved*"))


def test_check_tells_and_mends(server: SageletProcess) -> None:
    put(server, "a", "b")
    data = str(server.data)
    assert "A directory is checked when no server runs on it" in sagelet("check", "--data", data, code=1)
    server.stop()
    assert "All is sound" in sagelet("check", "--data", data)
    rot(server.data / "s3" / "tests" / "b")
    said = json.loads(sagelet("check", "--data", data, "--json", code=1))
    assert (said["sound"], said["objects"], [one["kind"] for one in said["findings"]]) == (False, 2, ["object"])
    assert "mended: s3://tests/b" in sagelet("check", "--data", data, "--repair")
    assert "All is sound" in sagelet("check", "--data", data)
    server.start()
    assert [one["Key"] for one in server.client("s3").list_objects_v2(Bucket="tests")["Contents"]] == ["a"]


@pytest.mark.parametrize("name", ["sagelet.db", "s3/.catalog.db"])
def test_a_damaged_database_ends_the_start_with_one_line(server: SageletProcess, name: str) -> None:
    put(server, "a")
    server.stop()
    (server.data / name).write_bytes(b"this is no database " * 1000)
    line = refused_start(server)
    assert str(server.data / name) in line
    assert "`sagelet check --repair`" in line
    sagelet("check", "--repair", "--data", str(server.data))
    server.start()
    # A lost catalogue is made anew of the files.
    assert server.client("s3").get_object(Bucket="tests", Key="a")["ContentLength"] == 11_000


def test_a_record_that_cannot_be_read_ends_the_start_with_one_line(server: SageletProcess) -> None:
    jobs = Jobs(server)
    name = jobs.submit("", entrypoint=["sh", "-c", "sleep 600"])
    jobs.sagemaker.stop_training_job(TrainingJobName=name)
    jobs.ended(name)
    server.stop()
    with closing(sqlite3.connect(server.data / "sagelet.db")) as db, db:
        db.execute("UPDATE jobs SET terminal = 0, record = '{}'")
    line = refused_start(server)
    assert "the record of job" in line
    assert "`sagelet check --repair`" in line
    sagelet("check", "--repair", "--data", str(server.data))
    server.start()


@pytest.mark.parametrize("name", ["sagelet.db", "s3/.catalog.db"])
def test_a_missing_database_is_not_replaced(server: SageletProcess, tmp_path: Path, name: str) -> None:
    put(server, "a")
    jobs = Jobs(server)
    jobs.ended(jobs.submit("", entrypoint=["sh", "-c", "true"]))
    server.stop()
    for path in (server.data / name).parent.glob(f"{Path(name).name}*"):
        path.unlink()
    line = refused_start(server)
    assert str(server.data / name) in line
    assert "`sagelet check --repair`" in line
    assert not (server.data / name).exists()
    # Nor is half of it exported, collected or added to.
    for command in (("export", str(tmp_path / "saved.tar")), ("gc",)):
        assert "`sagelet check --repair`" in sagelet(*command, "--data", str(server.data), code=1)
    refused = sagelet("s3", "import", str(tmp_path), "s3://tests", "--data", str(server.data), code=1)
    assert f"No server runs on {server.data}" in refused
    sagelet("check", "--repair", "--data", str(server.data))
    server.start()
    assert server.client("s3").get_object(Bucket="tests", Key="a")["ContentLength"] == 11_000


@pytest.mark.parametrize("name", ["sagelet.db", "s3/.catalog.db"])
def test_health_and_doctor_see_a_damaged_database(server: SageletProcess, name: str) -> None:
    assert server.health()["databases"] == {"sagelet.db": "ok", "s3/.catalog.db": "ok"}
    data = server.data
    (data / name).write_bytes(b"this is no database " * 1000)

    with pytest.raises(HTTPError) as refused:
        server.health()
    found = json.load(refused.value)
    assert refused.value.code == 503
    assert found["databases"][name].startswith("damaged: ")
    assert "`sagelet check --repair`" in found["message"]
    checks = json.loads(sagelet("doctor", "--data", str(data), "--json", code=1))
    (seen,) = [check for check in checks if check["name"] == "databases"]
    assert not seen["good"]
    assert name in seen["found"]
    assert "`sagelet check --repair`" in seen["remedy"]
