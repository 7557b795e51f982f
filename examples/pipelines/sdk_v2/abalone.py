"""AWS's abalone pipeline: process, train, evaluate, and register the model if its error is small.

As the SageMaker examples have it ("Orchestrate jobs to train and evaluate models"). Two steps differ: the training
script fits a line with numpy, and PyTorch's image runs it, because XGBoost's is AWS's own.
`abalone.py [LARGEST ERROR]`.
"""

import sys

import sagemaker
from sagemaker.inputs import TrainingInput
from sagemaker.model import Model
from sagemaker.model_metrics import MetricsSource, ModelMetrics
from sagemaker.processing import ProcessingInput, ProcessingOutput, ScriptProcessor
from sagemaker.pytorch import PyTorch
from sagemaker.sklearn.processing import SKLearnProcessor
from sagemaker.workflow.condition_step import ConditionStep
from sagemaker.workflow.conditions import ConditionLessThanOrEqualTo
from sagemaker.workflow.fail_step import FailStep
from sagemaker.workflow.functions import Join, JsonGet
from sagemaker.workflow.model_step import ModelStep
from sagemaker.workflow.parameters import ParameterFloat, ParameterInteger, ParameterString
from sagemaker.workflow.pipeline import Pipeline
from sagemaker.workflow.pipeline_context import PipelineSession
from sagemaker.workflow.properties import PropertyFile
from sagemaker.workflow.steps import ProcessingStep, TrainingStep

largest_error = float(sys.argv[1]) if len(sys.argv) > 1 else 6.0

# Its calls make no job: they return what a step is made of.
session = PipelineSession()
role = sagemaker.get_execution_role()
raw = session.upload_data("data/abalone.csv", key_prefix="abalone/raw")

instance_type = ParameterString(name="TrainingInstanceType", default_value="ml.m5.xlarge")
approval = ParameterString(name="ModelApprovalStatus", default_value="PendingManualApproval")
epochs = ParameterInteger(name="Epochs", default_value=200)
threshold = ParameterFloat(name="MseThreshold", default_value=6.0)
data = ParameterString(name="InputData", default_value=raw)

# 1. Process: rows become numbers, in three parts.
sklearn = SKLearnProcessor(
    framework_version="1.2-1",
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
        inputs=[ProcessingInput(source=data, destination="/opt/ml/processing/input")],
        outputs=[
            ProcessingOutput(output_name="train", source="/opt/ml/processing/train"),
            ProcessingOutput(output_name="validation", source="/opt/ml/processing/validation"),
            ProcessingOutput(output_name="test", source="/opt/ml/processing/test"),
        ],
    ),
)


def output_of_process(name: str):
    return process.properties.ProcessingOutputConfig.Outputs[name].S3Output.S3Uri


# 2. Train on the first part.
estimator = PyTorch(
    entry_point="train.py",
    source_dir="scripts",
    framework_version="2.5",
    py_version="py311",
    instance_type=instance_type,
    instance_count=1,
    base_job_name="abalone-train",
    hyperparameters={"epochs": epochs, "learning_rate": 0.1},
    metric_definitions=[{"Name": "validation:rmse", "Regex": r"validation:rmse=([0-9.]+)"}],
    role=role,
    sagemaker_session=session,
)
train = TrainingStep(
    name="AbaloneTrain",
    step_args=estimator.fit(
        {
            "train": TrainingInput(output_of_process("train"), content_type="text/csv"),
            "validation": TrainingInput(output_of_process("validation"), content_type="text/csv"),
        }
    ),
)

# 3. Evaluate on the last part. The condition below reads the file that this step writes.
evaluation = PropertyFile(name="EvaluationReport", output_name="evaluation", path="evaluation.json")
evaluator = ScriptProcessor(
    image_uri=estimator.training_image_uri(),
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
            ProcessingInput(
                source=train.properties.ModelArtifacts.S3ModelArtifacts, destination="/opt/ml/processing/model"
            ),
            ProcessingInput(source=output_of_process("test"), destination="/opt/ml/processing/test"),
        ],
        outputs=[ProcessingOutput(output_name="evaluation", source="/opt/ml/processing/evaluation")],
    ),
    property_files=[evaluation],
)

# 4. Register a good model, or fail with a reason.
model = Model(
    image_uri=estimator.training_image_uri(),
    model_data=train.properties.ModelArtifacts.S3ModelArtifacts,
    role=role,
    sagemaker_session=session,
)
report = Join(
    on="/",
    values=[
        evaluate.arguments["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"],
        "evaluation.json",
    ],
)
register = ModelStep(
    name="Abalone",
    step_args=model.register(
        content_types=["text/csv"],
        response_types=["text/csv"],
        inference_instances=["ml.t2.medium"],
        transform_instances=["ml.m5.large"],
        model_package_group_name="AbaloneModels",
        approval_status=approval,
        model_metrics=ModelMetrics(model_statistics=MetricsSource(s3_uri=report, content_type="application/json")),
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
    name="AbalonePipeline",
    parameters=[instance_type, approval, epochs, threshold, data],
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
