"""SDK v2's LambdaStep, unchanged: two functions, one inline and one by S3. Prints what its execution did, as JSON."""

import contextlib
import json
import sys
import zipfile
from pathlib import Path

import boto3
from botocore.exceptions import WaiterError
from sagemaker.lambda_helper import Lambda
from sagemaker.workflow.condition_step import ConditionStep
from sagemaker.workflow.conditions import ConditionGreaterThan
from sagemaker.workflow.fail_step import FailStep
from sagemaker.workflow.lambda_step import LambdaOutput, LambdaOutputTypeEnum, LambdaStep
from sagemaker.workflow.parameters import ParameterInteger
from sagemaker.workflow.pipeline import Pipeline
from sagemaker.workflow.pipeline_context import PipelineSession

COUNT = """
import boto3, logging, os
logging.getLogger().setLevel("INFO")

def handler(event, context):
    bucket = boto3.client("s3")
    bucket.put_object(Bucket=event["bucket"], Key="count", Body=str(event["number"]).encode())
    logging.info("counted for %s", os.environ["WHO"])
    caller = boto3.client("sts").get_caller_identity()["Arn"]
    return {"statusCode": 200, "twice": 2 * event["number"], "who": os.environ["WHO"], "good": True, "share": 0.5,
            "caller": caller, "name": context.function_name}
"""
BROKEN = "def handler(event, context):\n    raise ValueError(f\"no {event['what']} here\")\n"

place = Path(sys.argv[1])
role = "arn:aws:iam::123456789012:role/SageMakerRole"
session = PipelineSession(boto_session=boto3.Session(), default_bucket="sdk-tests")
epochs = ParameterInteger(name="Number", default_value=4)

(place / "count.py").write_text(COUNT)
with zipfile.ZipFile(place / "broken.zip", "w") as archive:
    archive.writestr("inner/broken.py", BROKEN)
session.default_bucket()

types = LambdaOutputTypeEnum
count = LambdaStep(
    name="Count",
    lambda_func=Lambda(
        function_name="count",
        execution_role_arn=role,
        script=str(place / "count.py"),
        handler="count.handler",
        runtime="python3.11",
        environment={"Variables": {"WHO": "me"}},
        session=session,
    ),
    inputs={"number": epochs, "bucket": "sdk-tests"},
    outputs=[
        LambdaOutput("twice", types.Integer),
        LambdaOutput("who", types.String),
        LambdaOutput("good", types.Boolean),
        LambdaOutput("share", types.Float),
        LambdaOutput("caller", types.String),
        LambdaOutput("name", types.String),
    ],
)
broken = LambdaStep(
    name="Broken",
    lambda_func=Lambda(
        function_name="broken",
        execution_role_arn=role,
        zipped_code_dir=str(place / "broken.zip"),
        s3_bucket="sdk-tests",
        handler="inner/broken.handler",
        runtime="python3.9",
        session=session,
    ),
    inputs={"what": count.properties.Outputs["who"]},
)
check = ConditionStep(
    name="Enough",
    conditions=[ConditionGreaterThan(left=count.properties.Outputs["twice"], right=7)],
    if_steps=[broken],
    else_steps=[FailStep(name="TooFew")],
)
pipeline = Pipeline(name="functions", parameters=[epochs], steps=[count, check], sagemaker_session=session)
pipeline.upsert(role_arn=role)
# A second upsert updates the functions.
pipeline.upsert(role_arn=role)
execution = pipeline.start()
# The execution fails on purpose, which the SDK's wait raises.
with contextlib.suppress(WaiterError):
    execution.wait(delay=1, max_attempts=120)
logs = boto3.client("logs").filter_log_events(logGroupName="/aws/lambda/count")["events"]
answer = {
    "status": execution.describe()["PipelineExecutionStatus"],
    "steps": execution.list_steps(),
    "log": [one["message"] for one in logs],
    "object": boto3.client("s3").get_object(Bucket="sdk-tests", Key="count")["Body"].read().decode(),
}
invoked = boto3.client("lambda").invoke(FunctionName="broken", Payload=json.dumps({"what": "word"}))
answer["invoked"] = {"error": invoked["FunctionError"], **json.loads(invoked["Payload"].read())}
print(f"ANSWER {json.dumps(answer, default=str)}")
