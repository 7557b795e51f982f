"""AWS's abalone pipeline in SDK v3: process, train, evaluate, and register the model if its error is small.

As the SageMaker examples have it. The training script fits a line with numpy, and PyTorch's image runs it, because
XGBoost's is AWS's own. `abalone.py [LARGEST ERROR]`.
"""

import sys

from sagemaker.core import image_uris
from sagemaker.core.helper.session_helper import get_execution_role
from sagemaker.core.processing import ScriptProcessor
from sagemaker.core.shapes import ProcessingInput, ProcessingOutput, ProcessingS3Input, ProcessingS3Output
from sagemaker.core.workflow.conditions import ConditionLessThanOrEqualTo
from sagemaker.core.workflow.functions import Join, JsonGet
from sagemaker.core.workflow.parameters import ParameterFloat, ParameterInteger, ParameterString
from sagemaker.core.workflow.pipeline_context import PipelineSession
from sagemaker.core.workflow.properties import PropertyFile
from sagemaker.mlops.workflow.condition_step import ConditionStep
from sagemaker.mlops.workflow.fail_step import FailStep
from sagemaker.mlops.workflow.model_step import ModelStep
from sagemaker.mlops.workflow.pipeline import Pipeline
from sagemaker.mlops.workflow.steps import ProcessingStep, TrainingStep
from sagemaker.serve.model_builder import ModelBuilder
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, InputData, SourceCode

largest_error = float(sys.argv[1]) if len(sys.argv) > 1 else 6.0

# Its calls make no job: they return what a step is made of.
session = PipelineSession()
role = get_execution_role()
raw = session.upload_data("data/abalone.csv", key_prefix="abalone/raw")
image = image_uris.retrieve(
    "pytorch",
    session.boto_region_name,
    version="2.5",
    py_version="py311",
    instance_type="ml.m5.xlarge",
    image_scope="training",
)

epochs = ParameterInteger(name="Epochs", default_value=200)
approval = ParameterString(name="ModelApprovalStatus", default_value="PendingManualApproval")
threshold = ParameterFloat(name="MseThreshold", default_value=6.0)
data = ParameterString(name="InputData", default_value=raw)


def given(name: str, uri, path: str) -> ProcessingInput:
    source = ProcessingS3Input(s3_uri=uri, local_path=path, s3_data_type="S3Prefix", s3_input_mode="File")
    return ProcessingInput(input_name=name, s3_input=source)


def result(name: str) -> ProcessingOutput:
    target = ProcessingS3Output(
        s3_uri=f"s3://{session.default_bucket()}/abalone/{name}",
        local_path=f"/opt/ml/processing/{name}",
        s3_upload_mode="EndOfJob",
    )
    return ProcessingOutput(output_name=name, s3_output=target)


# 1. Process: rows become numbers, in three parts.
sklearn = ScriptProcessor(
    image_uri=image_uris.retrieve("sklearn", session.boto_region_name, version="1.2-1", py_version="py3"),
    command=["python3"],
    instance_type="ml.m5.xlarge",
    instance_count=1,
    base_job_name="abalone-process",
    role=role,
    sagemaker_session=session,
)
process = ProcessingStep(
    name="AbaloneProcess",
    step_args=sklearn.run(
        code="scripts/prepare.py",
        inputs=[given("raw", data, "/opt/ml/processing/input")],
        outputs=[result("train"), result("validation"), result("test")],
    ),
)


def output_of_process(name: str):
    return process.properties.ProcessingOutputConfig.Outputs[name].S3Output.S3Uri


# 2. Train on the first part.
trainer = ModelTrainer(
    training_image=image,
    source_code=SourceCode(source_dir="scripts", entry_script="train.py"),
    compute=Compute(instance_type="ml.m5.xlarge", instance_count=1),
    hyperparameters={"epochs": epochs, "learning_rate": 0.1},
    base_job_name="abalone-train",
    role=role,
    sagemaker_session=session,
)
train = TrainingStep(
    name="AbaloneTrain",
    step_args=trainer.train(
        input_data_config=[
            InputData(channel_name="train", data_source=output_of_process("train")),
            InputData(channel_name="validation", data_source=output_of_process("validation")),
        ]
    ),
)

# 3. Evaluate on the last part. The condition below reads the file that this step writes.
evaluation = PropertyFile(name="EvaluationReport", output_name="evaluation", path="evaluation.json")
evaluator = ScriptProcessor(
    image_uri=image,
    command=["python3"],
    instance_type="ml.m5.xlarge",
    instance_count=1,
    base_job_name="abalone-evaluate",
    role=role,
    sagemaker_session=session,
)
evaluate = ProcessingStep(
    name="AbaloneEval",
    step_args=evaluator.run(
        code="scripts/evaluate.py",
        inputs=[
            given("model", train.properties.ModelArtifacts.S3ModelArtifacts, "/opt/ml/processing/model"),
            given("test", output_of_process("test"), "/opt/ml/processing/test"),
        ],
        outputs=[result("evaluation")],
    ),
    property_files=[evaluation],
)

# 4. Register a good model, or fail with a reason.
builder = ModelBuilder(
    image_uri=image,
    s3_model_data_url=train.properties.ModelArtifacts.S3ModelArtifacts,
    role_arn=role,
    sagemaker_session=session,
)
register = ModelStep(
    name="Abalone",
    step_args=builder.register(
        content_types=["text/csv"],
        response_types=["text/csv"],
        inference_instances=["ml.t2.medium"],
        transform_instances=["ml.m5.large"],
        model_package_group_name="AbaloneModelsV3",
        approval_status=approval,
    ),
)
fail = FailStep(
    name="AbaloneMSEFail",
    error_message=Join(on=" ", values=["Execution failed due to MSE >", threshold]),
)
condition = ConditionStep(
    name="AbaloneMSECond",
    conditions=[
        ConditionLessThanOrEqualTo(
            left=JsonGet(step_name=evaluate.name, property_file=evaluation, json_path="regression_metrics.mse.value"),
            right=threshold,
        )
    ],
    if_steps=[register],
    else_steps=[fail],
)

pipeline = Pipeline(
    name="AbalonePipelineV3",
    parameters=[epochs, approval, threshold, data],
    steps=[process, train, evaluate, condition],
    sagemaker_session=session,
)
pipeline.upsert(role_arn=role)
execution = pipeline.start(parameters={"MseThreshold": largest_error})
print("started", execution.arn)
try:
    # The SDK would ask every 30 seconds.
    execution.wait(delay=1, max_attempts=600)
finally:
    for step in reversed(execution.list_steps()):
        print(step["StepName"], step["StepStatus"], step.get("FailureReason", ""))
