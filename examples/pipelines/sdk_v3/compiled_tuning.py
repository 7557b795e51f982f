"""Tunes a compiled script in SDK v3, makes a model of the best training job, and registers it if its loss is small.

As AWS's "Tuning step" of a pipeline and `get_top_model_s3_uri` have it, with the Training Compiler.
`compiled_tuning.py [TRAINING JOBS]`.
"""

import sys

from sagemaker.core.helper.session_helper import get_execution_role
from sagemaker.core.parameter import ContinuousParameter
from sagemaker.core.workflow.conditions import ConditionLessThan
from sagemaker.core.workflow.parameters import ParameterFloat
from sagemaker.core.workflow.pipeline_context import PipelineSession
from sagemaker.mlops.workflow.condition_step import ConditionStep
from sagemaker.mlops.workflow.fail_step import FailStep
from sagemaker.mlops.workflow.model_step import ModelStep
from sagemaker.mlops.workflow.pipeline import Pipeline
from sagemaker.mlops.workflow.steps import TuningStep
from sagemaker.serve.model_builder import ModelBuilder
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode
from sagemaker.train.tuner import HyperparameterTuner

jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 4
session = PipelineSession()
role = get_execution_role()
registry = f"763104351884.dkr.ecr.{session.boto_region_name}.amazonaws.com"
image = f"{registry}/pytorch-trcomp-training:1.13.1-gpu-py39"
largest_loss = ParameterFloat(name="LargestLoss", default_value=2.0)

trainer = ModelTrainer(
    training_image=image,
    source_code=SourceCode(source_dir="scripts", entry_script="search.py"),
    compute=Compute(instance_type="ml.p3.2xlarge", instance_count=1),
    # What TrainingCompilerConfig of SDK v2 sets.
    hyperparameters={"steps": 40, "sagemaker_training_compiler_enabled": "true"},
    base_job_name="search",
    role=role,
    sagemaker_session=session,
)
tuner = HyperparameterTuner(
    trainer,
    objective_metric_name="loss",
    objective_type="Minimize",
    metric_definitions=[{"Name": "loss", "Regex": r"loss=([0-9.]+)"}],
    hyperparameter_ranges={"learning_rate": ContinuousParameter(1e-3, 1e-1, scaling_type="Logarithmic")},
    strategy="Random",
    random_seed=1,
    max_jobs=jobs,
    max_parallel_jobs=2,
)
tune = TuningStep(name="Tune", step_args=tuner.tune())

# Of the training job with the best objective; 1 would be the second best.
best = ModelBuilder(
    image_uri=image,
    s3_model_data_url=tune.get_top_model_s3_uri(top_k=0, s3_bucket=session.default_bucket(), prefix="search"),
    role_arn=role,
    sagemaker_session=session,
)
create = ModelStep(name="BestModel", step_args=best.build())
register = ModelStep(
    name="BestPackage",
    step_args=best.register(
        content_types=["application/json"],
        response_types=["application/json"],
        inference_instances=["ml.m5.large"],
        model_package_group_name="TunedModelsV3",
        approval_status="Approved",
    ),
)
objective = tune.properties.BestTrainingJob.FinalHyperParameterTuningJobObjectiveMetric.Value
condition = ConditionStep(
    name="LossIsSmall",
    conditions=[ConditionLessThan(left=objective, right=largest_loss)],
    if_steps=[create, register],
    else_steps=[FailStep(name="LossIsLarge", error_message="The best training job has too large a loss")],
)
pipeline = Pipeline(
    name="CompiledTuningPipelineV3",
    parameters=[largest_loss],
    steps=[tune, condition],
    sagemaker_session=session,
)
pipeline.upsert(role_arn=role)
execution = pipeline.start()
print("started", execution.arn)
try:
    execution.wait(delay=1, max_attempts=900)
finally:
    for step in reversed(execution.list_steps()):
        print(step["StepName"], step["StepStatus"], step.get("FailureReason", ""))
client = session.sagemaker_client
packages = client.list_model_packages(
    ModelPackageGroupName="TunedModelsV3", SortBy="CreationTime", SortOrder="Descending"
)
arn = packages["ModelPackageSummaryList"][0]["ModelPackageArn"]
container = client.describe_model_package(ModelPackageName=arn)["InferenceSpecification"]["Containers"][0]
print("registered", container["ModelDataUrl"])
