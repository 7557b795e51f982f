"""Jobs, most of several workers, as the documents' estimators of the SDK v2 ask for them. Prints their names as JSON.

`workers.py SCRIPTS_DIRECTORY SUFFIX NAME...`. SUFFIX ends the jobs' names. Scripts that are not examples are in
tests/acceptance/workers.
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
#: No type that the SDK takes has two GPUs.
FOUR_EACH = {"instance_type": "ml.p3.8xlarge", "instance_count": 2}
#: Half the time to compile, which is most of such a job's.
QUICK = {"XLA_FLAGS": "--xla_backend_optimization_level=0"}


def scripts_of(example: str, common: dict[str, Any]) -> dict[str, Any]:
    return {**common, "source_dir": str(EXAMPLES / example / "scripts")}


def hugging_face(common: dict[str, Any]) -> dict[str, Any]:
    return {
        # Up to PyTorch 1.10.2 a script of the user's starts the workers: two on each of two hosts.
        "launcher": HuggingFace(
            entry_point="distributed_training_launcher.py",
            transformers_version="4.17.0",
            pytorch_version="1.10.2",
            py_version="py38",
            compiler_config=HuggingFaceCompiler(),
            environment={"GPU_NUM_DEVICES": "2", **QUICK},
            hyperparameters={"batch_size": 4, "n_gpus": 2, "training_script": "train.py"},
            dependencies=[str(XLA_SCRIPT)],
            **FOUR_EACH,
            **scripts_of("launcher", common),
        ),
        "trainer": HuggingFace(
            entry_point="train.py",
            transformers_version="4.21.1",
            pytorch_version="1.11.0",
            py_version="py38",
            compiler_config=HuggingFaceCompiler(),
            distribution=XLA,
            hyperparameters={"batch_size": 4},
            environment=QUICK,
            **ONE_EACH,
            **scripts_of("hugging_face", common),
        ),
        # The PyTorch estimator of this SDK asks for smdistributed when `distribution` is pytorchddp.
        "ddp": HuggingFace(
            entry_point="train_native.py",
            transformers_version="4.17.0",
            pytorch_version="1.10.2",
            py_version="py38",
            distribution={"pytorchddp": {"enabled": True}},
            hyperparameters={"batch_size": 2},
            **FOUR_EACH,
            **common,
        ),
    }


def compiled(common: dict[str, Any]) -> dict[str, Any]:
    return {
        # AWS's launcher on one host; in debug mode, since its files are each worker's own.
        "mp_fn": PyTorch(
            entry_point="train_mp_fn.py",
            compiler_config=TrainingCompilerConfig(debug=True),
            distribution=XLA,
            instance_type="ml.p3.8xlarge",
            instance_count=1,
            hyperparameters={"batch_size": 4},
            environment=QUICK,
            **common,
        ),
        "killed": PyTorch(
            entry_point="train.py",
            compiler_config=TrainingCompilerConfig(),
            distribution=XLA,
            hyperparameters={"batch_size": 4, "die_at": 2},
            environment=QUICK,
            **ONE_EACH,
            **scripts_of("distributed", common),
        ),
    }


def native(common: dict[str, Any]) -> dict[str, Any]:
    return {
        "smddp": PyTorch(
            entry_point="train_smddp.py",
            distribution={"smdistributed": {"dataparallel": {"enabled": True}}},
            hyperparameters={"batch_size": 8},
            **ONE_EACH,
            **common,
        ),
        "torchrun": PyTorch(
            entry_point="train_native.py",
            distribution={"torch_distributed": {"enabled": True}},
            hyperparameters={"batch_size": 8},
            **ONE_EACH,
            **common,
        ),
        "disabled": PyTorch(
            entry_point="train_native.py",
            compiler_config=TrainingCompilerConfig(enabled=False),
            instance_type="ml.p3.2xlarge",
            instance_count=1,
            hyperparameters={"batch_size": 16},
            **common,
        ),
    }


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
    pytorch = {"framework_version": "1.13.1", "py_version": "py39", **common}
    names = {}
    estimators = hugging_face(common) | compiled(pytorch) | native(pytorch)
    for name in sys.argv[3:]:
        estimator = estimators[name]
        estimator.fit(wait=False, job_name=f"workers-{name.replace('_', '-')}-{sys.argv[2]}")
        names[name] = estimator.latest_training_job.name
    print("ANSWER " + json.dumps(names))


if __name__ == "__main__":
    main()
