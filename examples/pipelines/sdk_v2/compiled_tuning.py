"""Tunes a compiled script, makes a model of the best training job, and registers it if its loss is small.

As AWS's "Tuning step" of a pipeline and `get_top_model_s3_uri` have it, with the Training Compiler.
`compiled_tuning.py [TRAINING JOBS]`.
"""

import sys

import sagemaker
from sagemaker.model import Model
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig
from sagemaker.tuner import ContinuousParameter, HyperparameterTuner
from sagemaker.workflow.condition_step import ConditionStep
from sagemaker.workflow.conditions import ConditionLessThan
from sagemaker.workflow.fail_step import FailStep
from sagemaker.workflow.model_step import ModelStep
from sagemaker.workflow.parameters import ParameterFloat
from sagemaker.workflow.pipeline import Pipeline
from sagemaker.workflow.pipeline_context import PipelineSession
from sagemaker.workflow.steps import TuningStep

jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 4
session = PipelineSession()
role = sagemaker.get_execution_role()
largest_loss = ParameterFloat(name="LargestLoss", default_value=2.0)

estimator = PyTorch(
    entry_point="search.py",
    source_dir="scripts",
    framework_version="1.13.1",
    py_version="py39",
    instance_type="ml.p3.2xlarge",
    instance_count=1,
    compiler_config=TrainingCompilerConfig(),
    disable_profiler=True,
    debugger_hook_config=False,
    role=role,
    sagemaker_session=session,
)
tuner = HyperparameterTuner(
    estimator,
    objective_metric_name="loss",
    objective_type="Minimize",
    metric_definitions=[{"Name": "loss", "Regex": r"loss=([0-9.]+)"}],
    hyperparameter_ranges={"learning_rate": ContinuousParameter(1e-3, 1e-1, scaling_type="Logarithmic")},
    strategy="Random",
    random_seed=1,
    max_jobs=jobs,
    max_parallel_jobs=2,
)
tune = TuningStep(name="Tune", step_args=tuner.fit())

# Of the training job with the best objective; 1 would be the second best.
best = Model(
    image_uri=estimator.training_image_uri(),
    model_data=tune.get_top_model_s3_uri(top_k=0, s3_bucket=session.default_bucket()),
    role=role,
    sagemaker_session=session,
)
create = ModelStep(name="BestModel", step_args=best.create(instance_type="ml.m5.large"))
register = ModelStep(
    name="BestPackage",
    step_args=best.register(
        content_types=["application/json"],
        response_types=["application/json"],
        model_package_group_name="TunedModels",
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
    name="CompiledTuningPipeline",
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
package = client.list_model_packages(ModelPackageGroupName="TunedModels", SortBy="CreationTime", SortOrder="Descending")
arn = package["ModelPackageSummaryList"][0]["ModelPackageArn"]
container = client.describe_model_package(ModelPackageName=arn)["InferenceSpecification"]["Containers"][0]
print("registered", container["ModelDataUrl"])
