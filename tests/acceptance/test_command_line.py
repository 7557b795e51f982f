"""The command line through real processes: a server that outlives its terminal, and a job from its start to its end."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from support.jobs import archive
from support.server import ACCOUNT, NATIVE, ROLE

SAGELET = str(Path(sys.executable).with_name("sagelet"))
SCRIPT = "import time\nprint('it trains', flush=True)\nwhile True: time.sleep(0.1)"


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Names a data directory, whose server is ended afterwards."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "SAGELET_"))}
    made = {**kept, "SAGELET_DATA": str(tmp_path / "data"), "AWS_DEFAULT_REGION": "us-east-1"}
    yield made
    subprocess.run([SAGELET, "down"], env=made, timeout=120, check=True)


def submit(endpoint: str, name: str) -> None:
    keys = {"aws_access_key_id": ACCOUNT, "aws_secret_access_key": "any", "region_name": "us-east-1"}
    s3, sagemaker = (boto3.client(service, endpoint_url=endpoint, **keys) for service in ("s3", "sagemaker"))
    s3.create_bucket(Bucket="tests")
    s3.put_object(Bucket="tests", Key="source.tar.gz", Body=archive({"train.py": SCRIPT}))
    sagemaker.create_training_job(
        TrainingJobName=name,
        AlgorithmSpecification={"TrainingImage": NATIVE, "TrainingInputMode": "File"},
        RoleArn=ROLE,
        OutputDataConfig={"S3OutputPath": "s3://tests/out"},
        ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 1},
        StoppingCondition={"MaxRuntimeInSeconds": 600},
        HyperParameters={
            "sagemaker_program": '"train.py"',
            "sagemaker_submit_directory": '"s3://tests/source.tar.gz"',
        },
    )


def test_a_server_in_the_background_and_a_job(environ: dict[str, str], tmp_path: Path) -> None:
    def sagelet(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([SAGELET, *words], env=environ, capture_output=True, text=True, timeout=120)

    up = sagelet("up", "--detach", "--port", "0", "--runtime", "process", "--json")
    assert up.returncode == 0, up.stderr
    server: dict[str, Any] = json.loads(up.stdout)
    submit(server["endpoint"], "job")
    # The endpoint follows from the data directory.
    follower = subprocess.Popen(
        [SAGELET, "logs", "-f", "job"], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert follower.stdout is not None
    assert any("it trains" in line for line in follower.stdout)
    refused = sagelet("delete", "job", "--yes")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert sagelet("stop", "job").stdout.startswith("job: Stop")
    assert follower.communicate(timeout=120)[1].endswith("job: Stopped\n")
    waited = sagelet("wait", "job")
    assert (waited.returncode, waited.stdout[:13]) == (4, "job: Stopped;"), waited.stderr
    assert sagelet("jobs").stdout.startswith("job\tStopped\t")
    assert sagelet("delete", "job", "--yes").stdout == "job: deleted\n"
    down = sagelet("down")
    assert down.stdout.endswith(f"has ended (process {server['pid']}); no job was under way\n"), down.stderr
    assert "sagelet stopped; no job was running" in (tmp_path / "data" / "server.log").read_text()


PROGRAM = """
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
epochs = parser.parse_args().epochs
print("epochs", epochs, open(os.path.join(os.environ["SM_CHANNEL_TRAIN"], "data.txt")).read(), flush=True)
open(os.path.join(os.environ["SM_MODEL_DIR"], "model.txt"), "w").write(str(epochs))
open(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], "plot.txt"), "w").write("plot")
"""


def test_a_script_becomes_a_job_and_its_model_comes_back(environ: dict[str, str], tmp_path: Path) -> None:
    def sagelet(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([SAGELET, *words], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=240)

    (tmp_path / "data.txt").write_text("of the channel")
    (tmp_path / "train.py").write_text(PROGRAM)
    assert sagelet("up", "--detach", "--port", "0", "--runtime", "process").returncode == 0
    submitted = sagelet("submit", "train.py", "-p", "epochs=7", "--input", "train=data.txt", "--wait")
    assert submitted.returncode == 0, submitted.stderr + sagelet("logs", submitted.stdout.strip()).stdout
    name = submitted.stdout.strip()
    assert f"{name}: Completed; " in submitted.stderr
    assert "epochs 7 of the channel" in sagelet("logs", name).stdout
    assert sagelet("artifacts", "get", name, "--to", "here", "--unpack").returncode == 0
    assert (tmp_path / "here" / "model" / "model.txt").read_text() == "7"
    assert (tmp_path / "here" / "output" / "plot.txt").read_text() == "plot"
    followed = sagelet("submit", "train.py", "-p", "epochs=no", "--input", "train=data.txt", "--follow")
    assert followed.returncode == 3
    assert "invalid int value: 'no'" in followed.stdout


def test_a_detached_server_that_cannot_start_says_why(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "rules.toml").write_text("= no TOML")
    command = [SAGELET, "up", "-d", "--port", "0", "--runtime", "process", "--image-rules", f"{tmp_path}/rules.toml"]
    failed = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
    assert failed.returncode == 1
    assert failed.stderr.startswith(f"Error: The image rules {tmp_path}/rules.toml are not TOML")
