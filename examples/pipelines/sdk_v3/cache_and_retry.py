"""Steps in SDK v3 that are tried again, and steps whose results are taken from an earlier execution.

As AWS's "Retry policy for pipeline steps" and "Caching pipeline steps" have it. The README makes two attempts fail.
"""

from sagemaker.core import image_uris
from sagemaker.core.helper.session_helper import get_execution_role
from sagemaker.core.processing import ScriptProcessor
from sagemaker.core.shapes import ProcessingInput, ProcessingOutput, ProcessingS3Input, ProcessingS3Output
from sagemaker.core.workflow.parameters import ParameterInteger
from sagemaker.core.workflow.pipeline_context import PipelineSession
from sagemaker.mlops.workflow.pipeline import Pipeline
from sagemaker.mlops.workflow.retry import (
    SageMakerJobExceptionTypeEnum,
    SageMakerJobStepRetryPolicy,
    StepExceptionTypeEnum,
    StepRetryPolicy,
)
from sagemaker.mlops.workflow.steps import CacheConfig, ProcessingStep, TrainingStep
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode

session = PipelineSession()
role = get_execution_role()
region = session.boto_region_name
raw = session.upload_data("data/abalone.csv", key_prefix="cache-and-retry/raw")
epochs = ParameterInteger(name="Epochs", default_value=20)
# A step with the same arguments that ran within 30 days is not run again.
cache = CacheConfig(enable_caching=True, expire_after="P30d")

processor = ScriptProcessor(
    image_uri=image_uris.retrieve("sklearn", region, version="1.2-1", py_version="py3"),
    command=["python3"],
    instance_type="ml.m5.xlarge",
    instance_count=1,
    role=role,
    sagemaker_session=session,
)
source = ProcessingS3Input(
    s3_uri=raw, local_path="/opt/ml/processing/input", s3_data_type="S3Prefix", s3_input_mode="File"
)
targets = {
    name: ProcessingS3Output(
        s3_uri=f"s3://{session.default_bucket()}/cache-and-retry/{name}",
        local_path=f"/opt/ml/processing/{name}",
        s3_upload_mode="EndOfJob",
    )
    for name in ("train", "validation", "test")
}
process = ProcessingStep(
    name="Process",
    step_args=processor.run(
        code="scripts/prepare.py",
        inputs=[ProcessingInput(input_name="raw", s3_input=source)],
        outputs=[ProcessingOutput(output_name=name, s3_output=target) for name, target in targets.items()],
    ),
    cache_config=cache,
)
trainer = ModelTrainer(
    training_image=image_uris.retrieve(
        "pytorch", region, version="2.5", py_version="py311", instance_type="ml.m5.xlarge", image_scope="training"
    ),
    source_code=SourceCode(source_dir="scripts", entry_script="train.py"),
    compute=Compute(instance_type="ml.m5.xlarge", instance_count=1),
    hyperparameters={"epochs": epochs},
    base_job_name="cache-and-retry",
    role=role,
    sagemaker_session=session,
)
outputs = process.properties.ProcessingOutputConfig.Outputs
train = TrainingStep(
    name="Train",
    step_args=trainer.train(
        input_data_config=[
            InputData(channel_name=name, data_source=outputs[name].S3Output.S3Uri) for name in ("train", "validation")
        ]
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
    name="CacheAndRetryPipelineV3", parameters=[epochs], steps=[process, train], sagemaker_session=session
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
