"""Tunes the learning rate and the batch size of a compiled Trainer script. `submit.py [STRATEGY [TRAINING JOBS]]`.

As AWS's "Example: Hyperparameter Tuning Job" and the SageMaker SDK's documents of HyperparameterTuner have it.
"""

import sys

import sagemaker
from sagemaker.huggingface import HuggingFace, TrainingCompilerConfig
from sagemaker.tuner import (
    ContinuousParameter,
    HyperbandStrategyConfig,
    HyperparameterTuner,
    IntegerParameter,
    StrategyConfig,
)

strategy = sys.argv[1] if len(sys.argv) > 1 else "Random"
max_jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 6
# The script prints the objective four times, which is what Hyperband counts.
hyperband = StrategyConfig(HyperbandStrategyConfig(max_resource=4, min_resource=1))

estimator = HuggingFace(
    entry_point="train.py",
    source_dir="scripts",
    instance_count=1,
    instance_type="ml.p3.2xlarge",
    transformers_version="4.21.1",
    pytorch_version="1.11.0",
    py_version="py38",
    hyperparameters={"max_steps": 8},
    compiler_config=TrainingCompilerConfig(),
    disable_profiler=True,
    debugger_hook_config=False,
    role=sagemaker.get_execution_role(),
)
tuner = HyperparameterTuner(
    estimator,
    objective_metric_name="eval_loss",
    objective_type="Minimize",
    metric_definitions=[{"Name": "eval_loss", "Regex": r"eval_loss=([0-9.]+)"}],
    hyperparameter_ranges={
        "learning_rate": ContinuousParameter(1e-4, 1e-1, scaling_type="Logarithmic"),
        "per_device_train_batch_size": IntegerParameter(4, 32, scaling_type="Logarithmic"),
    },
    strategy=strategy,
    strategy_config=hyperband if strategy == "Hyperband" else None,
    random_seed=1,
    max_jobs=max_jobs,
    max_parallel_jobs=min(2, max_jobs),
    base_tuning_job_name="tune-gpt2",
)
tuner.fit(wait=False)
name = tuner.latest_tuning_job.name
print(f"{name}: `sagelet open {name}` shows it")
tuner.wait()

results = tuner.analytics().dataframe().sort_values("FinalObjectiveValue")
print(results[["TrainingJobName", "FinalObjectiveValue", "learning_rate", "per_device_train_batch_size"]].to_string())
print("best:", tuner.best_training_job())
print(tuner.best_estimator().model_data)
