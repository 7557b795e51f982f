"""A pipeline of SDK v3 that waits for a program outside of it: a Callback step and an SQS queue.

As AWS's "Callback step" has it. Here this program itself plays the team that labels the rows.
"""

import json

from sagemaker.core import image_uris
from sagemaker.core.helper.session_helper import get_execution_role
from sagemaker.core.processing import ScriptProcessor
from sagemaker.core.s3 import S3Downloader
from sagemaker.core.shapes import ProcessingInput, ProcessingOutput, ProcessingS3Input, ProcessingS3Output
from sagemaker.core.workflow.parameters import ParameterString
from sagemaker.core.workflow.pipeline_context import PipelineSession
from sagemaker.mlops.workflow.callback_step import CallbackOutput, CallbackOutputTypeEnum, CallbackStep
from sagemaker.mlops.workflow.pipeline import Pipeline
from sagemaker.mlops.workflow.steps import ProcessingStep

session = PipelineSession()
role = get_execution_role()
raw = session.upload_data("data/abalone.csv", key_prefix="callback/raw")
sqs = session.boto_session.client("sqs")
queue = sqs.create_queue(QueueName="label-these-rows-v3")["QueueUrl"]

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
processor = ScriptProcessor(
    image_uri=image_uris.retrieve("sklearn", session.boto_region_name, version="1.2-1", py_version="py3"),
    command=["python3"],
    instance_type="ml.m5.xlarge",
    instance_count=1,
    role=role,
    sagemaker_session=session,
)
source = ProcessingS3Input(
    s3_uri=label.properties.Outputs["labelled"],
    local_path="/opt/ml/processing/input",
    s3_data_type="S3Prefix",
    s3_input_mode="File",
)
targets = {
    name: ProcessingS3Output(
        s3_uri=f"s3://{session.default_bucket()}/callback/{name}",
        local_path=f"/opt/ml/processing/{name}",
        s3_upload_mode="EndOfJob",
    )
    for name in ("train", "validation", "test")
}
process = ProcessingStep(
    name="Process",
    step_args=processor.run(
        code="scripts/prepare.py",
        inputs=[ProcessingInput(input_name="rows", s3_input=source)],
        outputs=[ProcessingOutput(output_name=name, s3_output=target) for name, target in targets.items()],
    ),
)
pipeline = Pipeline(name="CallbackPipelineV3", parameters=[data], steps=[label, process], sagemaker_session=session)
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
