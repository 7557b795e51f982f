"""Scripts with the names of the Transformers of the Training Compiler's images, in sagelet's jobs."""

import json
import math
import re
from pathlib import Path

import pytest

from support.training_host import TrainingHost
from support.xla_workers import TINY

pytestmark = pytest.mark.xla

REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
TRCOMP = f"{REGISTRY}/huggingface-pytorch-trcomp-training:1.11.0-transformers4.21.1-gpu-py38-cu113-ubuntu20.04"
PYTORCH = f"{REGISTRY}/pytorch-training:1.11.0-gpu-py38"
SCRIPT = Path(__file__).with_name("old_names_script.py")


def test_a_compiled_job_of_run_clm_s_shape(host: TrainingHost) -> None:
    host.environment |= {"SAGELET_TRAINING_IMAGE": TRCOMP, **TINY}
    host.script(SCRIPT.read_text())
    given = {
        "config_overrides": '"n_layer=1,n_embd=16,n_head=2,n_positions=16,vocab_size=50"',
        "output_dir": json.dumps(str(host.base / "model")),
        "evaluation_strategy": '"steps"',
        "eval_steps": "100",
        "sharded_ddp": '"simple"',
        "optim": '"adamw_hf"',
        "logging_strategy": '"epoch"',
        "save_strategy": '"no"',
        "report_to": '"none"',
        "num_train_epochs": "1",
        "per_gpu_train_batch_size": "4",
        "gradient_accumulation_steps": "2",
    }
    ended = host.run({"sagemaker_training_compiler_enabled": "true", **given})
    assert ended.code == 0, ended.log
    found = dict(re.findall(r"^(seen|losses)=(.+)$", ended.log, re.MULTILINE))
    assert json.loads(found["seen"]) == ["steps", 1, True, "xla"]
    # Of 50 words, all as likely. Were the mean not divided by the accumulated steps, it would be twice as much.
    assert json.loads(found["losses"])[0] == pytest.approx(math.log(50), abs=0.3)
    assert ended.log.count("sharded_ddp of TrainingArguments was removed") == 1


def test_a_native_job_has_the_names_too(host: TrainingHost) -> None:
    host.environment |= {"SAGELET_TRAINING_IMAGE": PYTORCH}
    host.script(
        """
        import sys
        assert "transformers" not in sys.modules
        from transformers import is_torch_tpu_available
        from transformers.utils import send_example_telemetry
        print(f"tpu={is_torch_tpu_available()}")
        """
    )
    ended = host.run()
    assert ended.code == 0, ended.log
    assert "tpu=False" in ended.log
