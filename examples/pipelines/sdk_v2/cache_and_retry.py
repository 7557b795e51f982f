"""Steps that are tried again, and steps whose results are taken from an earlier execution.

As AWS's "Retry policy for pipeline steps" and "Caching pipeline steps" have it. The README makes two attempts fail.
"""

import sagemaker
from sagemaker.inputs import TrainingInput
from sagemaker.processing import ProcessingInput, ProcessingOutput
from sagemaker.pytorch import PyTorch
from sagemaker.sklearn.processing import SKLearnProcessor
from sagemaker.workflow.parameters import ParameterInteger
from sagemaker.workflow.pipeline import Pipeline
from sagemaker.workflow.pipeline_context import PipelineSession
from sagemaker.workflow.retry import (
    SageMakerJobExceptionTypeEnum,
    SageMakerJobStepRetryPolicy,
    StepExceptionTypeEnum,
    StepRetryPolicy,
)
from sagemaker.workflow.steps import CacheConfig, ProcessingStep, TrainingStep

session = PipelineSession()
role = sagemaker.get_execution_role()
raw = session.upload_data("data/abalone.csv", key_prefix="cache-and-retry/raw")
epochs = ParameterInteger(name="Epochs", default_value=20)
# A step with the same arguments that ran within 30 days is not run again.
cache = CacheConfig(enable_caching=True, expire_after="P30d")

processor = SKLearnProcessor(
    framework_version="1.2-1",
    instance_type="ml.m5.xlarge",
    instance_count=1,
    role=role,
    sagemaker_session=session,
)
process = ProcessingStep(
    name="Process",
    step_args=processor.run(
        code="scripts/prepare.py",
        inputs=[ProcessingInput(source=raw, destination="/opt/ml/processing/input")],
        outputs=[
            ProcessingOutput(output_name=name, source=f"/opt/ml/processing/{name}")
            for name in ("train", "validation", "test")
        ],
    ),
    cache_config=cache,
)
estimator = PyTorch(
    entry_point="train.py",
    source_dir="scripts",
    framework_version="2.5",
    py_version="py311",
    instance_type="ml.m5.xlarge",
    instance_count=1,
    hyperparameters={"epochs": epochs},
    role=role,
    sagemaker_session=session,
)
outputs = process.properties.ProcessingOutputConfig.Outputs
train = TrainingStep(
    name="Train",
    step_args=estimator.fit(
        {name: TrainingInput(outputs[name].S3Output.S3Uri) for name in ("train", "validation")},
    ),
    cache_config=cache,
    retry_policies=[
        StepRetryPolicy(
            exception_types=[StepExceptionTypeEnum.SERVICE_FAULT, StepExceptionTypeEnum.THROTTLING],
            interval_seconds=1,
            backoff_rate=1.5,
            max_attempts=5,
        ),
        SageMakerJobStepRetryPolicy(
            failure_reason_types=[
                SageMakerJobExceptionTypeEnum.INTERNAL_ERROR,
                SageMakerJobExceptionTypeEnum.CAPACITY_ERROR,
            ],
            interval_seconds=1,
            max_attempts=3,
        ),
    ],
)
pipeline = Pipeline(
    name="CacheAndRetryPipeline", parameters=[epochs], steps=[process, train], sagemaker_session=session
)
pipeline.upsert(role_arn=role)


def run(**parameters: int) -> None:
    execution = pipeline.start(parameters=parameters)
    print("started", execution.arn, parameters)
    try:
        execution.wait(delay=1, max_attempts=600)
    finally:
        for step in reversed(execution.list_steps()):
            source = step.get("CacheHitResult", {}).get("SourcePipelineExecutionArn")
            how = f"cached from {source}" if source else f"after {step['AttemptCount']} attempts"
            print(step["StepName"], step["StepStatus"], how, step.get("FailureReason", ""))


run(Epochs=20)
run(Epochs=20)  # both steps have run
run(Epochs=40)  # the training is another one
