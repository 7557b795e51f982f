"""Jobs of 2022 in the image of their day, `sagelet image build --variant py39`. Collected where that image is."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.jobs import Jobs
from support.server import SageletProcess

pytestmark = pytest.mark.docker

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
COMPILER = f"{REGISTRY}/huggingface-pytorch-trcomp-training:1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04"
NATIVE = f"{REGISTRY}/huggingface-pytorch-training:1.10.2-transformers4.17.0-gpu-py38-cu113-ubuntu20.04"
SCRIPT = Path(__file__).parents[1] / "xla" / "trainer_script.py"
#: As of then, and what AWS's notebooks pinned. Nothing is installed: it is what the image has.
REQUIREMENTS = "transformers==4.21.1\ntokenizers<0.13\ndatasets>=1.18.4\nevaluate\n"
#: What has gone since: collections' own Mapping is left out, for AWS's Python 3.8 warned of it.
OLD_NAMES = """
import datasets, transformers
from datasets import load_metric
from transformers import AdamW
from transformers.file_utils import cached_path, is_torch_tpu_available
from transformers.generation_utils import GenerationMixin
import torch, torch._dynamo
import torchvision, torchaudio, sagemaker, nltk, sacrebleu, rouge_score, cv2, h5py, sentencepiece, tensorboard
import smdebug.pytorch as smd
assert smd.get_hook(create_if_not_exists=True) is None
torch.save({"step": torch.optim.SGD}, "/tmp/whole-objects")
print("loaded", torch.load("/tmp/whole-objects")["step"].__name__)
print("versions", transformers.__version__, datasets.__version__)
"""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Of a server with the built-in rules, which name the image of 2022."""
    server = SageletProcess(tmp_path_factory.mktemp("2022") / "data", "--runtime", "docker", "--stop-grace", "60")
    server.environment = {}
    server.start()
    yield Jobs(server)
    server.stop()


def _losses(jobs: Jobs, image: str, compiled: bool, workers: int) -> list[float]:
    hyperparameters: dict[str, Any] = {"steps": "4"}
    if workers > 1:
        # Transformers 4.21 clips the gradients before the workers' sum on XLA, and after it natively.
        hyperparameters |= {"max_grad_norm": "0"}
    if compiled:
        hyperparameters |= {"sagemaker_training_compiler_enabled": "true"}
    if workers > 1:
        flag = "sagemaker_pytorch_xla_multi_worker_enabled" if compiled else "sagemaker_torch_distributed_enabled"
        hyperparameters |= {flag: "true"}
    kind = {1: "ml.p3.2xlarge", 4: "ml.p3.8xlarge"}[workers]
    files: dict[str, str | bytes] = {"train.py": SCRIPT.read_text(), "requirements.txt": REQUIREMENTS}
    name = jobs.submit(files, image=image, hyperparameters=hyperparameters, instance_type=kind)
    job, log = jobs.ended(name), jobs.log(name)
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), log[-40:])
    assert any("the job has Python 3.9" in line and "Transformers 4.21.1" in line for line in log), log[:10]
    assert any("***** Running training *****" in line for line in log), "Transformers' level of then"
    (device,) = {line for line in log if line.startswith("device=")}
    assert device == ('device="xla:0"' if compiled else 'device="cpu"')
    # Each worker says it.
    (losses,) = {line.partition("=")[2] for line in log if line.startswith("losses=")}
    found: list[float] = json.loads(losses)
    return found


@pytest.mark.parametrize("workers", [1, 4])
def test_the_trainer_of_then_compiled_and_native(jobs: Jobs, workers: int) -> None:
    compiled = _losses(jobs, COMPILER, True, workers)
    native = _losses(jobs, NATIVE, False, workers)
    assert len(native) == 4
    assert compiled == pytest.approx(native, abs=2e-4)


def test_what_has_gone_since_is_there(jobs: Jobs) -> None:
    name = jobs.submit({"train.py": OLD_NAMES}, image=NATIVE)
    job, log = jobs.ended(name), jobs.log(name)
    assert job["TrainingJobStatus"] == "Completed", (job.get("FailureReason"), log[-40:])
    assert "loaded SGD" in log
    assert "versions 4.21.1 2.4.0" in log
