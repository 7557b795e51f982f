"""A pipeline that waits for a program outside of it: a Callback step and an SQS queue.

As AWS's "Callback step" has it. Here this program itself plays the team that labels the rows.
"""

import json

import sagemaker
from sagemaker.processing import ProcessingInput, ProcessingOutput
from sagemaker.s3 import S3Downloader
from sagemaker.sklearn.processing import SKLearnProcessor
from sagemaker.workflow.callback_step import CallbackOutput, CallbackOutputTypeEnum, CallbackStep
from sagemaker.workflow.parameters import ParameterString
from sagemaker.workflow.pipeline import Pipeline
from sagemaker.workflow.pipeline_context import PipelineSession
from sagemaker.workflow.steps import ProcessingStep

session = PipelineSession()
role = sagemaker.get_execution_role()
raw = session.upload_data("data/abalone.csv", key_prefix="callback/raw")
sqs = session.boto_session.client("sqs")
queue = sqs.create_queue(QueueName="label-these-rows")["QueueUrl"]

data = ParameterString(name="InputData", default_value=raw)
label = CallbackStep(
    name="Label",
    sqs_queue_url=queue,
    inputs={"rows": data},
    outputs=[
        CallbackOutput(output_name="labelled", output_type=CallbackOutputTypeEnum.String),
        CallbackOutput(output_name="count", output_type=CallbackOutputTypeEnum.Integer),
    ],
)
processor = SKLearnProcessor(
    framework_version="1.2-1", instance_type="ml.m5.xlarge", instance_count=1, role=role, sagemaker_session=session
)
process = ProcessingStep(
    name="Process",
    step_args=processor.run(
        code="scripts/prepare.py",
        inputs=[ProcessingInput(source=label.properties.Outputs["labelled"], destination="/opt/ml/processing/input")],
        outputs=[
            ProcessingOutput(output_name=name, source=f"/opt/ml/processing/{name}")
            for name in ("train", "validation", "test")
        ],
    ),
)
pipeline = Pipeline(name="CallbackPipeline", parameters=[data], steps=[label, process], sagemaker_session=session)
pipeline.upsert(role_arn=role)
execution = pipeline.start()
print("started", execution.arn)

# What the team does: it reads the message, works, and answers with the token of the message.
messages = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=20)["Messages"]
message = json.loads(messages[0]["Body"])
sqs.delete_message(QueueUrl=queue, ReceiptHandle=messages[0]["ReceiptHandle"])
print("asked to label", message["arguments"]["rows"])
rows = S3Downloader.read_file(message["arguments"]["rows"], sagemaker_session=session)
labelled = session.upload_string_as_file_body(rows, session.default_bucket(), "callback/labelled/abalone.csv")
session.sagemaker_client.send_pipeline_execution_step_success(
    CallbackToken=message["token"],
    OutputParameters=[
        {"Name": "labelled", "Value": labelled},
        {"Name": "count", "Value": str(len(rows.splitlines()) - 1)},
    ],
)

try:
    execution.wait(delay=1, max_attempts=600)
finally:
    for step in reversed(execution.list_steps()):
        print(step["StepName"], step["StepStatus"], step.get("FailureReason", ""))
        if "Callback" in step["Metadata"]:
            print(step["Metadata"]["Callback"]["OutputParameters"])
