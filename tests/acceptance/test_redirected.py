"""`sagelet run`: an SDK v3 script, and nothing that leaves the machine. (Notebooks: test_notebooks.py.)"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services import execution_role
from support.clients import ENVIRONMENT, ENVIRONMENT_V3, RunClients, answer_of
from support.jobs import Jobs
from support.proxy import RecordingProxy
from support.server import ACCOUNT, COMPILED, NATIVE, SageletProcess

HERE = Path(__file__).parent
ROLE = f"arn:aws:iam::{ACCOUNT}:role/service-role/{execution_role.NAME}"
BUCKET = f"sagemaker-us-east-1-{ACCOUNT}"


@pytest.fixture
def clients(server: SageletProcess, tmp_path: Path, proxy: RecordingProxy) -> Callable[[Path], RunClients]:
    return lambda environment: RunClients(server, tmp_path, environment, proxy.environment)


@pytest.mark.sdk
def test_programs_whose_requests_would_leave_are_seen_to(
    clients: Callable[[Path], RunClients], proxy: RecordingProxy
) -> None:
    """The control of the other tests: the proxy sees what is not AWS's, and the AWS CLI does not need it."""
    script = "import requests; print(requests.get('http://example.invalid/x').status_code)"
    assert clients(ENVIRONMENT).run("python", "-c", script).strip() == "502"
    assert proxy.seen == ["GET http://example.invalid/x HTTP/1.1"]
    assert json.loads(clients(ENVIRONMENT).run("aws", "sts", "get-caller-identity"))["Account"] == ACCOUNT
    assert len(proxy.seen) == 1


STRICT = """
import argparse, os
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--name")
args = parser.parse_args()
import torch
import torch_xla
print("args", args.epochs, args.name, "rank", os.environ.get("RANK"))
model = torch.nn.Linear(3, 1).to(torch_xla.device())
model(torch.ones(1, 3, device=torch_xla.device())).sum().backward()
torch_xla.sync()
print("device_type", next(model.parameters()).device.type, sorted(os.listdir(os.environ["SM_CHANNEL_TRAINING"])))
torch.save({name: value.cpu() for name, value in model.state_dict().items()}, os.environ["SM_MODEL_DIR"] + "/m.pt")
"""


@pytest.mark.sdk3
@pytest.mark.parametrize(
    ("driver", "image", "compiler", "environment"),
    [
        ("basic", COMPILED, {"sagemaker_training_compiler_enabled": "true"}, {}),
        ("torchrun", NATIVE, {}, {"SAGEMAKER_TRAINING_COMPILER_ENABLED": "true"}),
    ],
)
def test_a_compiled_job_of_sdk_v3(
    clients: Callable[[Path], RunClients],
    jobs: Jobs,
    proxy: RecordingProxy,
    tmp_path: Path,
    driver: str,
    image: str,
    compiler: dict[str, str],
    environment: dict[str, str],
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.py").write_text(STRICT)
    (source / "requirements.txt").write_text("# nothing\n")
    hyperparameters = {"epochs": 3, "name": "x y", **compiler}
    arguments = [str(source), image, json.dumps(hyperparameters), json.dumps(environment), driver]
    output = clients(ENVIRONMENT_V3).run("python", str(HERE / "clients" / "trainer_v3.py"), *arguments)
    answer: dict[str, Any] = answer_of(output)
    assert answer["status"] == "Completed"
    assert answer["role"] == answer["job_role"] == ROLE
    assert answer["hyperparameters"] == {"epochs": "3", "name": "x y", **compiler}
    rank = "0" if driver == "torchrun" else "None"
    printed = [line.strip() for line in output.splitlines()]
    assert f"args 3 x y rank {rank}" in printed
    assert "device_type xla ['data.csv']" in printed
    assert any("Found configuration for Training Compiler" in line for line in printed)
    assert answer["model"] == f"s3://{BUCKET}/v3-{driver}/{answer['name']}/output/model.tar.gz"
    key = answer["model"].removeprefix(f"s3://{BUCKET}/")
    assert jobs.s3.head_object(Bucket=BUCKET, Key=key)["ContentLength"] > 0
    assert proxy.seen == []
