"""For distributed training: Transformers v4.17 with PyTorch v1.10.2 and before.

AWS's example as printed, but for the lines that are marked `Added` or `Changed`.
"""

import sagemaker
from sagemaker.huggingface import HuggingFace, TrainingCompilerConfig

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

training_script = "train.py"  # Changed: the document's is your_training_script.py.

hyperparameters = {
    "n_gpus": num_gpus,
    "batch_size": batch_size,
    "learning_rate": learning_rate,
    "training_script": training_script,  # Specify the file name of your training script.
}

# Added: how much data the script makes, and how often it reads the loss.
hyperparameters.update({"rows": 4160, "log_every": 10})

pytorch_huggingface_estimator = HuggingFace(
    entry_point="distributed_training_launcher.py",  # Specify the distributed training launcher script.
    source_dir="scripts",  # Added: the launcher is not beside this file.
    dependencies=["../distributed/scripts/train.py"],  # Added: a copy goes beside the launcher.
    instance_count=instance_count,
    instance_type=instance_type,
    transformers_version="4.17.0",
    pytorch_version="1.10.2",
    py_version="py38",  # Added: the SDK asks for one.
    hyperparameters=hyperparameters,
    compiler_config=TrainingCompilerConfig(),
    disable_profiler=True,
    debugger_hook_config=False,
    role=sagemaker.get_execution_role(),  # Added: the SDK asks for one.
)

pytorch_huggingface_estimator.fit()

# Added: where the result is.
print(pytorch_huggingface_estimator.model_data)
