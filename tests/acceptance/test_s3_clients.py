"""Other people's S3 clients, as they were released: boto3 1.26, s3cmd, s3fs, pandas and pyarrow."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from support.clients import ENVIRONMENT_S3, RunClients, answer_of, run_client
from support.server import ACCOUNT, SageletProcess

pytestmark = pytest.mark.s3clients
CLIENTS = Path(__file__).parent / "clients"
PYTHON = str(ENVIRONMENT_S3 / "bin" / "python")
OLD_BOTO3 = str(ENVIRONMENT_S3 / "boto3-1.26")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SageletProcess]:
    process = SageletProcess(tmp_path_factory.mktemp("data"), "--runtime", "process").start()
    yield process
    process.stop()


def variables(**more: str) -> dict[str, str]:
    cleared = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PYTHON"))}
    return {
        **cleared, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": ACCOUNT, "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_EC2_METADATA_DISABLED": "true", **more,
    }  # fmt: skip


def answer(server: SageletProcess, directory: Path, script: str, environment: Mapping[str, str], *more: str) -> Any:
    return answer_of(run_client([PYTHON, str(CLIENTS / script), *more], directory, environment))


def check_old_boto3(found: Mapping[str, Any]) -> None:
    assert found["version"].startswith("1.26.")
    assert {name: found[name] for name in found if name != "version"} == {
        "same": True, "presigned": "z", "keys": ["copy", "k", "ü/ x+y"], "metadata": {"a": "b"}, "buckets": 0,
    }  # fmt: skip


def test_boto3_from_before_there_were_checksums(server: SageletProcess, tmp_path: Path) -> None:
    check_old_boto3(answer(server, tmp_path, "s3_old_boto3.py", variables(), OLD_BOTO3, server.endpoint))


def test_the_same_under_sagelet_run(server: SageletProcess, tmp_path: Path) -> None:
    clients = RunClients(server, tmp_path, ENVIRONMENT_S3, {})
    check_old_boto3(answer_of(clients.run("python", str(CLIENTS / "s3_old_boto3.py"), OLD_BOTO3)))


def test_pandas_s3fs_and_pyarrow(server: SageletProcess, tmp_path: Path) -> None:
    environment = variables(AWS_ENDPOINT_URL=server.endpoint, FSSPEC_S3_ENDPOINT_URL=server.endpoint)
    assert answer(server, tmp_path, "s3_pandas.py", environment) == {
        "same": [True, True, True], "middle": 7, "left": ["tables/big", "tables/d/moved"], "arrow": [1, 2, 3],
        "buckets": [],
    }  # fmt: skip


def test_s3cmd(server: SageletProcess, tmp_path: Path) -> None:
    address = server.endpoint.removeprefix("http://")
    (tmp_path / "s3cfg").write_text(
        f"[default]\naccess_key = {ACCOUNT}\nsecret_key = any\nuse_https = False\n"
        f"host_base = {address}\nhost_bucket = {address}\n"
    )

    def s3cmd(*arguments: str) -> str:
        command = [str(ENVIRONMENT_S3 / "bin" / "s3cmd"), "-c", str(tmp_path / "s3cfg"), "--no-progress", *arguments]
        return run_client(command, tmp_path, variables(LC_ALL="C.UTF-8"))

    (tmp_path / "up/sub").mkdir(parents=True)
    (tmp_path / "up/a b.txt").write_text("a")
    (tmp_path / "up/sub/ü.txt").write_text("u")
    (tmp_path / "up/big").write_bytes(os.urandom(11 << 20))
    s3cmd("mb", "s3://command")
    s3cmd("sync", "--multipart-chunk-size-mb=5", f"{tmp_path}/up/", "s3://command/p/")
    assert s3cmd("sync", f"{tmp_path}/up/", "s3://command/p/") == ""
    s3cmd("sync", "s3://command/p/", f"{tmp_path}/down/")
    subprocess.run(["diff", "-r", tmp_path / "up", tmp_path / "down"], check=True)
    assert "FULL_CONTROL" in s3cmd("info", "s3://command/p/big")
    s3cmd("cp", "s3://command/p/a b.txt", "s3://command/copy")
    s3cmd("mv", "s3://command/copy", "s3://command/moved")
    listed = s3cmd("ls", "--recursive", "s3://command")
    assert [line.split("s3://command/")[1] for line in listed.splitlines()] == [
        "moved", "p/a b.txt", "p/big", "p/sub/ü.txt",
    ]  # fmt: skip
    s3cmd("del", "--recursive", "--force", "s3://command")
    s3cmd("rb", "s3://command")
    assert "s3://command" not in s3cmd("ls")
