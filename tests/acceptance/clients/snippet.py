"""The single-GPU PyTorch snippet of AWS's "Enable PyTorch", and what its user does next. Prints one JSON object.

Runs in the virtual environment of the SageMaker SDK v2: `snippet.py SCRIPTS_DIRECTORY`. The snippet's own
py_version='py3' is refused by every SDK that has framework 1.13.1; it demands 'py39'.
"""

import io
import json
import sys
from contextlib import redirect_stdout

import boto3
import sagemaker
from sagemaker.analytics import TrainingJobAnalytics
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig


def main() -> None:
    source_dir = sys.argv[1]
    session = sagemaker.Session(boto3.Session(), default_bucket="sdk-tests")
    session.default_bucket()
    inputs = session.upload_string_as_file_body(
        "\n".join(f"{x / 100},{3 * x / 100}" for x in range(640)), "sdk-tests", "snippet/in/data.csv"
    )

    batch_size_native = 12
    learning_rate_native = float("5e-5")
    batch_size = 64
    learning_rate = learning_rate_native / batch_size_native * batch_size
    hyperparameters = {"n_gpus": 1, "batch_size": batch_size, "learning_rate": learning_rate}
    estimator = PyTorch(
        entry_point="train.py",
        source_dir=source_dir,
        instance_count=1,
        instance_type="ml.p3.2xlarge",
        framework_version="1.13.1",
        py_version="py39",
        hyperparameters=hyperparameters,
        compiler_config=TrainingCompilerConfig(),
        disable_profiler=True,
        debugger_hook_config=False,
        role="arn:aws:iam::123456789012:role/SageMakerRole",
        sagemaker_session=session,
        metric_definitions=[{"Name": "loss", "Regex": "loss=([0-9.]+)"}],
    )
    estimator.fit(inputs.rsplit("/", 1)[0] + "/", logs=False)

    name = estimator.latest_training_job.name
    attached = PyTorch.attach(name, sagemaker_session=session)
    log = io.StringIO()
    with redirect_stdout(log):
        attached.logs()
    session.download_data(".", "sdk-tests", f"{name}/output/model.tar.gz")
    answer = {
        "name": name,
        "model_data": estimator.model_data,
        "attached_model_data": attached.model_data,
        "attached_hyperparameters": attached.hyperparameters(),
        "log": log.getvalue(),
        "losses": TrainingJobAnalytics(name, sagemaker_session=session).dataframe()["metric_name"].tolist(),
        "description": attached.latest_training_job.describe(),
    }
    print("ANSWER " + json.dumps(answer, default=str))


if __name__ == "__main__":
    main()
