"""For single GPU training: Hugging Face Transformers with PyTorch v1.11.0 and before.

AWS's example as printed, but for the lines that are marked `Added`.
"""

import sagemaker
from sagemaker.huggingface import HuggingFace, TrainingCompilerConfig

# the original max batch size that can fit into GPU memory without compiler
batch_size_native = 12
learning_rate_native = float("5e-5")

# an updated max batch size that can fit into GPU memory with compiler
batch_size = 64

# update learning rate
learning_rate = learning_rate_native / batch_size_native * batch_size

hyperparameters = {"n_gpus": 1, "batch_size": batch_size, "learning_rate": learning_rate}

pytorch_huggingface_estimator = HuggingFace(
    entry_point="train.py",
    source_dir="scripts",  # Added: the script is not beside this file.
    instance_count=1,
    instance_type="ml.p3.2xlarge",
    transformers_version="4.21.1",
    pytorch_version="1.11.0",
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
