"""For single GPU training: PyTorch v1.12.0 and later.

AWS's example as printed, but for the lines that are marked `Added` or `Changed`.
"""

import sagemaker
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig

# the original max batch size that can fit into GPU memory without compiler
batch_size_native = 12
learning_rate_native = float("5e-5")

# an updated max batch size that can fit into GPU memory with compiler
batch_size = 64

# update learning rate
learning_rate = learning_rate_native / batch_size_native * batch_size

hyperparameters = {"n_gpus": 1, "batch_size": batch_size, "learning_rate": learning_rate}

# Added: data for the script, made here. The document's fit() has no inputs.
session = sagemaker.Session()
rows = "\n".join(f"{x / 100},{3 * x / 100}" for x in range(640))
data = session.upload_string_as_file_body(rows, session.default_bucket(), "single-gpu/data/data.csv")

pytorch_estimator = PyTorch(
    entry_point="train.py",
    source_dir="scripts",
    instance_count=1,
    instance_type="ml.p3.2xlarge",
    framework_version="1.13.1",
    py_version="py39",  # Changed: no SDK takes the document's 'py3' with 1.13.1.
    hyperparameters=hyperparameters,
    compiler_config=TrainingCompilerConfig(),
    disable_profiler=True,
    debugger_hook_config=False,
    role=sagemaker.get_execution_role(),  # Added: the SDK asks for one.
)

pytorch_estimator.fit(data.rpartition("/")[0] + "/")

# Added: where the result is.
print(pytorch_estimator.model_data)
