"""What AWS's integration tests of SDK v2's pipelines do, as far as they need no data of an AWS account.

They are in tests/integ/sagemaker/workflow of sagemaker-python-sdk. Prints what each part saw, as JSON.
"""

import json
import sys
import uuid
from datetime import datetime, timedelta
from typing import Any

import boto3
from sagemaker.lambda_helper import Lambda
from sagemaker.pytorch import PyTorch
from sagemaker.workflow.callback_step import CallbackOutput, CallbackOutputTypeEnum, CallbackStep
from sagemaker.workflow.condition_step import ConditionStep
from sagemaker.workflow.conditions import ConditionEquals, ConditionGreaterThan
from sagemaker.workflow.execution_variables import ExecutionVariables
from sagemaker.workflow.fail_step import FailStep
from sagemaker.workflow.functions import Join
from sagemaker.workflow.lambda_step import LambdaOutput, LambdaOutputTypeEnum, LambdaStep
from sagemaker.workflow.parameters import ParameterInteger, ParameterString
from sagemaker.workflow.pipeline import Pipeline
from sagemaker.workflow.pipeline_context import PipelineSession
from sagemaker.workflow.pipeline_experiment_config import PipelineExperimentConfig
from sagemaker.workflow.retry import (
    SageMakerJobExceptionTypeEnum,
    SageMakerJobStepRetryPolicy,
    StepExceptionTypeEnum,
    StepRetryPolicy,
)
from sagemaker.workflow.selective_execution_config import SelectiveExecutionConfig
from sagemaker.workflow.steps import TrainingStep
from sagemaker.workflow.triggers import PipelineSchedule

source = sys.argv[1]
role = "arn:aws:iam::123456789012:role/SageMakerRole"
session = PipelineSession(boto_session=boto3.Session(), default_bucket="sdk-tests")
client = session.sagemaker_client
TWO = ParameterInteger(name="MyInt", default_value=2)
QUEUE = "https://sqs.us-east-2.amazonaws.com/123456789012/MyQueue"


def pipeline(steps: list[Any], parameters: Any = (), **more: Any) -> Pipeline:
    name = f"flow-{uuid.uuid4().hex[:8]}"
    return Pipeline(name=name, steps=steps, parameters=[*parameters], sagemaker_session=session, **more)


def ended(execution: Any) -> dict[str, Any]:
    """Waits for the end. Returns the steps by name, and the execution's status."""
    try:
        execution.wait(delay=1, max_attempts=120)
    except Exception as error:  # botocore's waiter ends with an error if the execution fails
        print(type(error).__name__, error, file=sys.stderr)
    steps = {one["StepName"]: one for one in execution.list_steps()}
    return {"status": execution.describe()["PipelineExecutionStatus"], "steps": steps}


def executed(made: Pipeline, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    arn = made.create(role)["PipelineArn"]
    execution = made.start(parameters=parameters or {})
    same = execution.describe()["PipelineArn"] == arn
    answer = ended(execution)
    listed = client.list_pipeline_executions(PipelineName=made.name)["PipelineExecutionSummaries"]
    return {**answer, "same": same, "reasons": [one.get("PipelineExecutionFailureReason") for one in listed]}


def condition(*otherwise: Any, **more: Any) -> ConditionStep:
    conditions = [ConditionEquals(left=TWO, right=1)]
    return ConditionStep(name="CondStep", conditions=conditions, if_steps=[], else_steps=[*otherwise], **more)


def train(name: str, **more: Any) -> TrainingStep:
    estimator = PyTorch(
        entry_point="train.py", source_dir=source, role=role, framework_version="1.13.1", py_version="py39",
        instance_type="ml.m5.large", instance_count=1, sagemaker_session=session,
    )  # fmt: skip
    return TrainingStep(name=name, step_args=estimator.fit(), **more)


def fail() -> dict[str, Any]:
    message = ParameterString(name="MyString")
    cond = condition()
    joined = Join(on=": ", values=["Failed due to xxx == yyy returns", cond.properties.Outcome])
    answers = {
        "text": executed(pipeline([condition(FailStep(name="FailStep", error_message="hit"))], [TWO])),
        "parameter": executed(
            pipeline([condition(FailStep(name="FailStep", error_message=message))], [TWO, message]),
            {"MyInt": 3, "MyString": "hit"},
        ),
        "join": executed(pipeline([cond, FailStep(name="FailStep", error_message=joined)], [TWO]), {"MyInt": 3}),
        "none": executed(pipeline([condition(FailStep(name="FailStep"))], [TWO])),
    }
    try:
        pipeline([condition(depends_on=["FailStep"]), FailStep(name="FailStep", error_message="x")], [TWO]).create(role)
    except Exception as error:
        answers["refused"] = str(error)
    return answers


def references(kind: str) -> dict[str, Any]:
    """A step whose output is the input of another is created, and updated."""
    if kind == "callback":
        output = CallbackOutput(output_name="output1", output_type=CallbackOutputTypeEnum.String)
        first = CallbackStep(name="first", sqs_queue_url=QUEUE, inputs={"arg1": "foo"}, outputs=[output])
        second = CallbackStep(name="second", sqs_queue_url=QUEUE, inputs={"arg1": output}, outputs=[])
    else:
        function = Lambda(function_arn="arn:aws:lambda:us-west-2:123456789012:function:some", session=session)
        output = LambdaOutput(output_name="output1", output_type=LambdaOutputTypeEnum.String)
        first = LambdaStep(name="first", lambda_func=function, inputs={"arg1": "foo"}, outputs=[output])
        second = LambdaStep(name="second", lambda_func=function, inputs={"arg1": output}, outputs=[])
    made = pipeline([first, second], [ParameterInteger(name="InstanceCount", default_value=2)])
    created = made.create(role)["PipelineArn"]
    made.parameters = [ParameterInteger(name="InstanceCount", default_value=1)]
    return {"created": created, "updated": made.update(role)["PipelineArn"], "deleted": made.delete()["PipelineArn"]}


def variables() -> list[str]:
    text, number = (
        ParameterString(name="MyString", default_value="1"),
        ParameterInteger(name="MyInteger", default_value=3),
    )
    cond = ConditionStep(
        name="CondStep",
        conditions=[ConditionGreaterThan(left=text, right=number.to_string())],
        if_steps=[],
        else_steps=[],
    )
    message = Join(on=" ", values=["greater:", cond.properties.Outcome.to_string(), "left", text, "right", number])
    made = pipeline([cond, FailStep(name="FailStep", error_message=message)], [text, number])
    made.create(role)
    answers = [ended(made.start()), ended(made.start(parameters={"MyInteger": 0}))]
    return [one["steps"]["FailStep"]["FailureReason"] for one in answers]


def selective() -> dict[str, Any]:
    first = train("First")
    second = train("Second", depends_on=["First"])
    made = pipeline([first, second])
    made.create(role)
    whole = made.start()
    before = ended(whole)
    config = SelectiveExecutionConfig(source_pipeline_execution_arn=whole.arn, selected_steps=["Second"])
    return {"source": whole.arn, "before": before, "after": ended(made.start(selective_execution_config=config))}


def experiment(custom: bool) -> dict[str, Any]:
    config = PipelineExperimentConfig(
        experiment_name=f"experiment-{uuid.uuid4().hex[:8]}",
        trial_name=Join(on="-", values=["my-trial", ExecutionVariables.PIPELINE_EXECUTION_ID]),
    )
    made = pipeline([train("Train")], **({"pipeline_experiment_config": config} if custom else {}))
    made.create(role)
    execution = made.start()
    answer = ended(execution)
    trial = f"{'my-trial-' if custom else ''}{execution.arn.rpartition('/')[2]}"
    return {
        "status": answer["status"],
        "wanted": config.experiment_name if custom else made.name,
        "experiment": client.describe_trial(TrialName=trial)["ExperimentName"],
        "components": len(client.list_trial_components(TrialName=trial)["TrialComponentSummaries"]),
    }


def retry() -> dict[str, Any]:
    policies = [
        StepRetryPolicy(
            exception_types=[StepExceptionTypeEnum.SERVICE_FAULT, StepExceptionTypeEnum.THROTTLING],
            backoff_rate=2.0, interval_seconds=30, expire_after_mins=5,
        ),
        SageMakerJobStepRetryPolicy(exception_types=[SageMakerJobExceptionTypeEnum.CAPACITY_ERROR], max_attempts=10),
    ]  # fmt: skip
    return executed(pipeline([train("Train", retry_policies=policies)]))


def triggers() -> dict[str, Any]:
    made = pipeline([FailStep(name="FailStep", error_message="x")])
    made.create(role)
    schedules = [
        PipelineSchedule(name="datetime-schedule", at=datetime.now() + timedelta(days=1)),
        PipelineSchedule(name="test-rate", rate=(2, "minutes")),
        PipelineSchedule(cron="0/2 * ? * * *"),
    ]
    made_triggers = made.put_triggers(triggers=schedules, role_arn=role)
    described = [made.describe_trigger(trigger_name=one.name) for one in schedules]
    made.delete_triggers(trigger_names=[one.name for one in schedules])
    return {
        "count": len(made_triggers),
        "names": [one.name for one in schedules],
        "expressions": [one["Schedule_Expression"] for one in described],
        "arns": [one["Schedule_Arn"] for one in described],
    }


answer = {
    "fail": fail(),
    "callback": references("callback"),
    "lambda": references("lambda"),
    "variables": variables(),
    "selective": selective(),
    "experiments": [experiment(custom=False), experiment(custom=True)],
    "retry": retry(),
    "triggers": triggers(),
}
print("ANSWER", json.dumps(answer, default=str))
