"""Processors of the SageMaker SDKs, unchanged: v2 in Docker, where scikit-learn is, and v3 as processes."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.clients import ENVIRONMENT_V3, Clients, RunClients, answer_of
from support.server import SageletProcess

HERE = Path(__file__).parent
PREPARE = """
import json, pathlib, sys
name = sys.argv[1]
if name == "scikit-learn":
    import sklearn
rows = [line.split(",") for path in pathlib.Path("/opt/ml/processing/input/raw").iterdir() for line in path.open()]
total = sum(int(cell) for row in rows for cell in row)
pathlib.Path("/opt/ml/processing/output/sum/sum.txt").write_text(str(total))
host = json.load(open("/opt/ml/config/resourceconfig.json"))["current_host"]
pathlib.Path("/opt/ml/output/message").write_text(f"{name} on {host}: {total}")
print("the sum is", total)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    directory = tmp_path / "source"
    directory.mkdir()
    (directory / "prepare.py").write_text(PREPARE)
    return directory


@pytest.mark.docker
@pytest.mark.sdk
def test_processors_of_v2(servers: Callable[[str], SageletProcess], source: Path, tmp_path: Path) -> None:
    server = servers("docker")
    jobs = Clients(server, tmp_path).python(HERE / "clients" / "processors.py", str(source))
    assert [(job["ProcessingJobStatus"], job["ExitMessage"]) for job in jobs] == [
        ("Completed", "PyTorch on algo-1: 10"),
        ("Completed", "scikit-learn on algo-1: 10"),
    ]
    for job in jobs:
        uri = job["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"]
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        assert server.client("s3").get_object(Bucket=bucket, Key=f"{key}/sum.txt")["Body"].read() == b"10"


@pytest.mark.xla
@pytest.mark.sdk3
def test_a_processor_of_v3(servers: Callable[[str], SageletProcess], source: Path, tmp_path: Path) -> None:
    client = RunClients(servers("process"), tmp_path, ENVIRONMENT_V3, {"AWS_DEFAULT_REGION": "us-east-1"})
    answer = answer_of(client.run("python", str(HERE / "clients" / "processors_v3.py"), str(source)))
    assert answer == {"status": "Completed", "message": "v3 on algo-1: 10"}
