"""Jobs of several workers as the documents' estimators of the SDK v2 ask for them. Prints their names as JSON.

`workers.py SCRIPTS_DIRECTORY`; the scripts are tests/acceptance/workers.
"""

import json
import sys

import boto3
import sagemaker
from sagemaker.huggingface import HuggingFace
from sagemaker.huggingface import TrainingCompilerConfig as HuggingFaceCompiler
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig

XLA = {"pytorchxla": {"enabled": True}}
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
            hyperparameters={"batch_size": 4, "n_gpus": 2, "training_script": "train_xla.py"},
            **common,
        ),
        "trainer": HuggingFace(
            entry_point="train_trainer.py",
            transformers_version="4.21.1",
            pytorch_version="1.11.0",
            py_version="py38",
            compiler_config=HuggingFaceCompiler(),
            distribution=XLA,
            hyperparameters={"batch_size": 4},
            **ONE_EACH,
            **common,
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
            entry_point="train_xla.py",
            framework_version="1.13.1",
            py_version="py39",
            compiler_config=TrainingCompilerConfig(),
            distribution=XLA,
            hyperparameters={"batch_size": 4, "die_at": 2},
            **ONE_EACH,
            **common,
        ),
    }
    names = {}
    for name, estimator in estimators.items():
        estimator.fit(wait=False, job_name=f"workers-{name}-{sys.argv[2]}")
        names[name] = estimator.latest_training_job.name
    print("ANSWER " + json.dumps(names))


if __name__ == "__main__":
    main()
