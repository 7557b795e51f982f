"""SDK v2's pipeline, unchanged: train, compare a metric, register or fail. Prints what its execution did, as JSON."""

import json
import sys
import uuid

import boto3
import sagemaker
from sagemaker.model import Model
from sagemaker.pytorch import PyTorch
from sagemaker.workflow.condition_step import ConditionStep
from sagemaker.workflow.conditions import ConditionLessThanOrEqualTo
from sagemaker.workflow.fail_step import FailStep
from sagemaker.workflow.functions import Join
from sagemaker.workflow.model_step import ModelStep
from sagemaker.workflow.parameters import ParameterFloat, ParameterInteger
from sagemaker.workflow.pipeline import Pipeline
from sagemaker.workflow.pipeline_context import PipelineSession
from sagemaker.workflow.steps import CacheConfig, TrainingStep

source, instance_type, threshold = sys.argv[1:4]
role = "arn:aws:iam::123456789012:role/SageMakerRole"
session = PipelineSession(boto_session=boto3.Session(), default_bucket="sdk-tests")
epochs = ParameterInteger(name="Epochs", default_value=1)
limit = ParameterFloat(name="Limit", default_value=1.0)

estimator = PyTorch(
    entry_point="train.py",
    source_dir=source,
    role=role,
    framework_version="1.13.1",
    py_version="py39",
    instance_type=instance_type,
    instance_count=1,
    hyperparameters={"epochs": epochs, "lr": 0.25, "bs": 8, "optimizer": "sgd"},
    metric_definitions=[{"Name": "loss", "Regex": r"loss=(\S+)"}],
    sagemaker_session=session,
)
train = TrainingStep(
    name="Train", step_args=estimator.fit(), cache_config=CacheConfig(enable_caching=True, expire_after="P1D")
)
model = Model(
    image_uri="763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:1.13.1-cpu-py39",
    model_data=train.properties.ModelArtifacts.S3ModelArtifacts,
    role=role,
    sagemaker_session=session,
)
register = ModelStep(
    name="Register",
    step_args=model.register(
        content_types=["text/csv"],
        response_types=["text/csv"],
        model_package_group_name=f"group-{uuid.uuid4().hex[:8]}",
        approval_status="Approved",
    ),
)
bad = FailStep(name="TooBad", error_message=Join(on=" ", values=["loss is above", limit]))
check = ConditionStep(
    name="GoodEnough",
    conditions=[
        ConditionLessThanOrEqualTo(left=train.properties.FinalMetricDataList["loss"].Value, right=limit),
    ],
    if_steps=[register],
    else_steps=[bad],
)
pipeline = Pipeline(
    name=f"sdk-{uuid.uuid4().hex[:8]}", parameters=[epochs, limit], steps=[train, check], sagemaker_session=session
)
pipeline.upsert(role_arn=role)
pipeline.upsert(role_arn=role)
execution = pipeline.start(parameters={"Epochs": 2, "Limit": float(threshold)})
try:
    execution.wait(delay=1, max_attempts=120)
except sagemaker.exceptions.UnexpectedStatusException as error:
    print(error, file=sys.stderr)
except Exception as error:  # botocore's waiter ends with an error if the execution fails
    print(type(error).__name__, error, file=sys.stderr)
again = pipeline.start(parameters={"Epochs": 2, "Limit": float(threshold)})
try:
    again.wait(delay=1, max_attempts=120)
except Exception as error:
    print(type(error).__name__, error, file=sys.stderr)
answer = {
    "status": execution.describe()["PipelineExecutionStatus"],
    "reason": execution.describe().get("FailureReason"),
    "steps": execution.list_steps(),
    "again": again.list_steps(),
    "versions": [one["PipelineVersionId"] for one in pipeline.list_pipeline_versions()["PipelineVersionSummaries"]],
}
print("ANSWER", json.dumps(answer, default=str))
