"""For distributed training: PyTorch v1.12.

AWS's example as printed, but for the lines that are marked `Added` or `Changed`.
"""

import sagemaker
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig

# choose an instance type, specify the number of instances you want to use,
# and set the num_gpus variable the number of GPUs per instance.
instance_count = 1
instance_type = "ml.p3.8xlarge"
num_gpus = 4

# the original max batch size that can fit to GPU memory without compiler
batch_size_native = 16
learning_rate_native = float("5e-5")

# an updated max batch size that can fit to GPU memory with compiler
batch_size = 26

# update learning rate
learning_rate = learning_rate_native / batch_size_native * batch_size * num_gpus * instance_count

hyperparameters = {"n_gpus": num_gpus, "batch_size": batch_size, "learning_rate": learning_rate}

# Added: how much data the script makes, and how often it reads the loss.
hyperparameters.update({"rows": 4160, "log_every": 10})

pytorch_estimator = PyTorch(
    entry_point="train.py",
    source_dir="scripts",
    instance_count=instance_count,
    instance_type=instance_type,
    framework_version="1.13.1",
    py_version="py39",  # Changed: no SDK takes the document's 'py3' with 1.13.1.
    hyperparameters=hyperparameters,
    compiler_config=TrainingCompilerConfig(),
    distribution={"pytorchxla": {"enabled": True}},
    disable_profiler=True,
    debugger_hook_config=False,
    role=sagemaker.get_execution_role(),  # Added: the SDK asks for one.
)

pytorch_estimator.fit()

# Added: where the result is.
print(pytorch_estimator.model_data)
