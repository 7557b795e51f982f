"""Jobs of several workers as the documents' estimators of the SDK v2 ask for them. Prints their names as JSON.

`workers.py SCRIPTS_DIRECTORY SUFFIX`: tests/acceptance/workers, for what is no example, and the end of the names.
"""

import json
import sys
from pathlib import Path
from typing import Any

import boto3
import sagemaker
from sagemaker.huggingface import HuggingFace
from sagemaker.huggingface import TrainingCompilerConfig as HuggingFaceCompiler
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig

XLA = {"pytorchxla": {"enabled": True}}
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
XLA_SCRIPT = EXAMPLES / "distributed" / "scripts" / "train.py"
ONE_EACH = {"instance_type": "ml.p3.2xlarge", "instance_count": 2}


def main() -> None:
    session = sagemaker.Session(boto3.Session(), default_bucket="sdk-workers")
    session.default_bucket()
    common = {
        "source_dir": sys.argv[1],
        "role": "arn:aws:iam::123456789012:role/SageMakerRole",
        "sagemaker_session": session,
        "disable_profiler": True,
        "debugger_hook_config": False,
        "metric_definitions": [{"Name": "loss", "Regex": "loss=([0-9.]+);"}],
    }

    def scripts_of(example: str) -> dict[str, Any]:
        return {**common, "source_dir": str(EXAMPLES / example / "scripts")}

    estimators = {
        # Up to PyTorch 1.10.2 a script of the user's starts the workers: two on each of two hosts.
        "launcher": HuggingFace(
            entry_point="distributed_training_launcher.py",
            transformers_version="4.17.0",
            pytorch_version="1.10.2",
            py_version="py38",
            compiler_config=HuggingFaceCompiler(),
            instance_type="ml.p3.8xlarge",
            instance_count=2,
            environment={"GPU_NUM_DEVICES": "2"},
            hyperparameters={"batch_size": 4, "n_gpus": 2, "training_script": "train.py"},
            dependencies=[str(XLA_SCRIPT)],
            **scripts_of("launcher"),
        ),
        "trainer": HuggingFace(
            entry_point="train.py",
            transformers_version="4.21.1",
            pytorch_version="1.11.0",
            py_version="py38",
            compiler_config=HuggingFaceCompiler(),
            distribution=XLA,
            hyperparameters={"batch_size": 4},
            **ONE_EACH,
            **scripts_of("hugging_face"),
        ),
        "smddp": PyTorch(
            entry_point="train_smddp.py",
            framework_version="1.13.1",
            py_version="py39",
            distribution={"smdistributed": {"dataparallel": {"enabled": True}}},
            hyperparameters={"batch_size": 8},
            **ONE_EACH,
            **common,
        ),
        "killed": PyTorch(
            entry_point="train.py",
            framework_version="1.13.1",
            py_version="py39",
            compiler_config=TrainingCompilerConfig(),
            distribution=XLA,
            hyperparameters={"batch_size": 4, "die_at": 2},
            **ONE_EACH,
            **scripts_of("distributed"),
        ),
    }
    names = {}
    for name, estimator in estimators.items():
        estimator.fit(wait=False, job_name=f"workers-{name}-{sys.argv[2]}")
        names[name] = estimator.latest_training_job.name
    print("ANSWER " + json.dumps(names))


if __name__ == "__main__":
    main()
