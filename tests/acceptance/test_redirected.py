"""`sagelet run`: an SDK v3 script, and nothing that leaves the machine. (Notebooks: test_notebooks.py.)"""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sagelet_api.services.iam import execution_role
from support.clients import ENVIRONMENT, ENVIRONMENT_V3, RunClients, answer_of
from support.jobs import Jobs
from support.on_runtimes import by_processes
from support.proxy import RecordingProxy
from support.server import ACCOUNT, COMPILED, NATIVE, SageletProcess

HERE = Path(__file__).parent
ROLE = f"arn:aws:iam::{ACCOUNT}:role/service-role/{execution_role.NAME}"
BUCKET = f"sagemaker-us-east-1-{ACCOUNT}"


@pytest.fixture
def clients(server: SageletProcess, tmp_path: Path, proxy: RecordingProxy) -> Callable[[Path], RunClients]:
    return lambda environment: RunClients(server, tmp_path, environment, proxy.environment)


@by_processes
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


@by_processes
@pytest.mark.sdk
def test_a_users_profile_and_an_isolated_python(
    clients: Callable[[Path], RunClients], proxy: RecordingProxy, tmp_path: Path
) -> None:
    """The AWS CLI with a profile that ignores endpoints, and a Python that does not load sagelet's hook."""
    config = tmp_path / "config"
    keys = "aws_access_key_id = AKIAREALREALREALREAL\naws_secret_access_key = real\n"
    config.write_text(f"[default]\n[profile work]\nignore_configured_endpoint_urls = true\n{keys}")
    run = clients(ENVIRONMENT)
    run.also(AWS_CONFIG_FILE=str(config), AWS_PROFILE="work", AWS_BEARER_TOKEN_BEDROCK="real")
    identity = ["sts", "get-caller-identity"]
    assert json.loads(run.run("aws", *identity))["Account"] == ACCOUNT
    assert json.loads(run.run("aws", "--profile", "work", *identity))["Account"] == ACCOUNT
    for given in ("", "profile_name='work'"):
        script = f"import boto3; print(boto3.Session({given}).client('sts').get_caller_identity()['Account'])"
        assert run.run("python", "-I", "-c", script).strip() == ACCOUNT
    assert proxy.seen == []


STRICT = """
import argparse, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.add_argument("--name")
args = parser.parse_args()
import torch
import torch_xla.core.xla_model as xm
rank, world, device = xm.get_ordinal(), xm.xrt_world_size(), xm.xla_device()
# Each line in one write: torchrun's workers share a pipe, and Python runs unbuffered.
sys.stdout.write(f"args {args.epochs} {args.name} rank {os.environ.get('RANK')} of {world}\\n")
torch.manual_seed(7)
model = torch.nn.Linear(3, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = torch.randn(8, 3, generator=torch.Generator().manual_seed(3))[rank::world].to(device)
for epoch in range(args.epochs):
    optimizer.zero_grad()
    model(rows).square().mean().backward()
    xm.optimizer_step(optimizer, barrier=True)
kind, files = next(model.parameters()).device.type, sorted(os.listdir(os.environ["SM_CHANNEL_TRAINING"]))
sys.stdout.write(f"device_type {kind} {files}\\n")
xm.save(model.state_dict(), os.environ["SM_MODEL_DIR"] + "/m.pt")
"""


def one_process_weights(epochs: int) -> Any:
    """What STRICT trains, natively in this process."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(7)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = torch.randn(8, 3, generator=torch.Generator().manual_seed(3))
    for _epoch in range(epochs):
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()
    return model.state_dict()


@pytest.mark.sdk3
@pytest.mark.parametrize(
    ("server", "driver", "image", "compiler", "environment"),
    [
        pytest.param(
            "process", "basic", COMPILED, {"sagemaker_training_compiler_enabled": "true"}, {}, marks=pytest.mark.xla
        ),
        pytest.param(
            "docker", "torchrun", NATIVE, {}, {"SAGEMAKER_TRAINING_COMPILER_ENABLED": "true"}, marks=pytest.mark.docker
        ),
    ],
    indirect=["server"],
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
    ranks = ["0 of 2", "1 of 2"] if driver == "torchrun" else ["None of 1"]
    # Not whole lines: what others of the job print may stand before them.
    log = "\n".join(jobs.log(answer["name"]))
    assert [log.count(f"args 3 x y rank {rank}") for rank in ranks] == [1] * len(ranks), log
    assert log.count("device_type xla ['data.csv']") == len(ranks), log
    assert "Found configuration for Training Compiler" in output
    assert driver == "torchrun" or "args 3 x y rank None of 1" in output
    assert answer["model"] == f"s3://{BUCKET}/v3-{driver}/{answer['name']}/output/model.tar.gz"
    torch = pytest.importorskip("torch")
    saved = jobs.artifact(answer["name"], bucket=BUCKET, prefix=f"v3-{driver}/")["m.pt"]
    torch.testing.assert_close(torch.load(io.BytesIO(saved)), one_process_weights(3), rtol=1e-4, atol=1e-6)
    assert proxy.seen == []
