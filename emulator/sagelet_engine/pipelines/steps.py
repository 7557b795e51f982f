"""What each type of step makes: a job, a model, a message. Every call may be repeated after a crash."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.acting import of_execution
from sagelet_engine.model.arns import arn
from sagelet_engine.model.aws_texts import failed_to_invoke
from sagelet_engine.model.functions import FunctionRefused, Invoker, invocation_id
from sagelet_engine.model.job import JobKind
from sagelet_engine.model.orchestration import OrchestrationKind
from sagelet_engine.model.pipeline import PipelineExecution, StepRun, StepState, StepStatus, suffix
from sagelet_engine.model.principal import NotAuthorized
from sagelet_engine.model.service_calls import CallRefused, ServiceCalls
from sagelet_engine.model.tuning import TuningSpec
from sagelet_engine.pipelines import outputs, retrying
from sagelet_engine.pipelines.definition import parse
from sagelet_engine.pipelines.expressions import Unresolved, text_of

#: How long a Callback step waits for its answer, ms: AWS gives it seven days.
CALLBACK_MS = 7 * 86_400_000
CALLBACK_EXPIRED = "The callback was not answered within 7 days."
#: Seconds that a function of a Lambda step may take, whatever its own timeout (developer guide, "Lambda step").
LAMBDA_SECONDS = 600
#: Length of a callback token (botocore shape CallbackToken).
TOKEN_LENGTH = 10
#: Letters of a step's name in the name of what it makes.
_SUFFIX = 10
#: The same in the id of an invocation.
_INVOCATION = 20
#: The same in a ClientToken, which has at most 36 letters.
_CLIENT_TOKEN = 32


@dataclass(frozen=True)
class Look:
    """How what a step made is now."""

    status: StepStatus
    properties: JsonObject
    reason: str | None = None
    #: The kind of the failure in RetryPolicies. Empty: it cannot be retried.
    failure: str = ""
    #: True if a function's time was over.
    timed_out: bool = False


class StepKind(Protocol):
    def start(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun, /) -> str:
        """Makes what the step makes, unless it exists. Returns its name, ARN or token. Raises CallRefused."""
        ...

    def find(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun, /) -> str | None:
        """Returns what `start` would, if that has been made already: the server may have been killed after it."""
        ...

    def look(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun, /) -> Look | None:
        """Returns how it is, or None if only somebody else can tell. Raises CallRefused."""
        ...

    def stop(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun, /) -> None:
        """Asks it to stop. Raises CallRefused."""
        ...


def expires_ms(kind: str, run: StepRun) -> int | None:
    """Returns when a step of this type gives up what it waits for. None if it does not."""
    return run.start_ms + CALLBACK_MS if kind == "Callback" and run.state is StepState.RUNNING else None


def failure_of_call(error: CallRefused) -> str:
    """Returns the kind of a refused call in RetryPolicies, or an empty string."""
    if error.code in ("ThrottlingException", "Throttling"):
        return retrying.THROTTLING
    if error.code in ("InternalFailure", "ServiceUnavailable"):
        return retrying.SERVICE_FAULT
    return retrying.RESOURCE_LIMIT if error.code == "ResourceLimitExceeded" else ""


def is_passing(error: CallRefused) -> bool:
    """True if the same call may be answered later: the refusal says nothing about what the call names."""
    return failure_of_call(error) in (retrying.THROTTLING, retrying.SERVICE_FAULT)


def job_name(execution: PipelineExecution, run: StepRun, given: str | None, longest: int) -> str:
    """Returns `pipelines-EXECUTION-STEP-SUFFIX`, as AWS names jobs, or PREFIX-SUFFIX for a name in the arguments.

    Raises Unresolved if that name is not a text.
    """
    if given is not None and not isinstance(given, str):
        raise Unresolved(f"The name of the job of step {run.name} must be a text, not {text_of(given)[:200]}")
    end = suffix(execution, run, _SUFFIX)
    front = given or f"pipelines-{execution.execution_id}-{run.name}"
    if longest < 63 and not given:
        front = f"{execution.execution_id}-{run.name}"
    clean = front.replace("_", "-")[: longest - _SUFFIX - 1].rstrip("-")
    return f"{clean}-{end}"


@dataclass(frozen=True)
class JobStep:
    """A step that makes a job: `noun` is `TrainingJob`, `ProcessingJob`, ..., and `resource` its word in ARNs."""

    noun: str
    resource: str
    #: Longest name of such a job.
    longest: int = 63

    def find(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> str | None:
        name = self._name(execution, run)
        try:
            _call(calls, execution, run, f"Describe{self.noun}", {f"{self.noun}Name": name})
        except CallRefused as error:
            if is_passing(error):
                raise
            return None
        return name

    def start(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> str:
        name = self._name(execution, run)
        _call(
            calls,
            execution,
            run,
            f"Create{self.noun}",
            {**run.arguments, f"{self.noun}Name": name},
            exists=("ResourceInUse",),
        )
        return name

    def look(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> Look | None:
        answer = _call(calls, execution, run, f"Describe{self.noun}", {f"{self.noun}Name": run.made})
        status = answer[f"{self.noun}Status"]
        if status == "Completed":
            return Look(StepStatus.SUCCEEDED, {**answer, **self.more(calls, execution, run, answer)})
        if status == "Stopped":
            return Look(StepStatus.STOPPED, answer, f"{self.noun} {run.made} was stopped")
        if status == "Failed":
            reason = answer.get("FailureReason", f"{self.noun} {run.made} failed")
            return Look(StepStatus.FAILED, answer, reason, _failure_of_job(reason))
        return Look(StepStatus.STOPPING if status == "Stopping" else StepStatus.EXECUTING, answer)

    def stop(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> None:
        _call(calls, execution, run, f"Stop{self.noun}", {f"{self.noun}Name": run.made})

    def arn(self, execution: PipelineExecution, run: StepRun) -> str:
        """Returns the ARN of the job that the step has made."""
        key = execution.key
        return arn("sagemaker", key.region, key.account, f"{self.resource}/{str(run.made).lower()}")

    def _name(self, execution: PipelineExecution, run: StepRun) -> str:
        return job_name(execution, run, run.arguments.get(f"{self.noun}Name"), self.longest)

    def more(
        self, _calls: ServiceCalls, _execution: PipelineExecution, _run: StepRun, _answer: JsonObject
    ) -> JsonObject:
        """Returns properties that the Describe call does not have."""
        return {}


@dataclass(frozen=True)
class TuningStep(JobStep):
    """Its properties have TrainingJobSummaries, too: up to 50 trials, the best first (SDK v2's TuningStep)."""

    noun: str = "HyperParameterTuningJob"
    resource: str = OrchestrationKind.TUNING.value
    longest: int = 32

    def more(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun, answer: JsonObject) -> JsonObject:
        # All definitions have the same Type. The answer has the members of the request that a spec is read from.
        maximize = TuningSpec.of(answer).definitions[0].objective.maximize
        asked = {
            "HyperParameterTuningJobName": run.made,
            "SortBy": "FinalObjectiveMetricValue",
            "SortOrder": "Descending" if maximize else "Ascending",
            "MaxResults": 50,
        }
        listed = _call(calls, execution, run, "ListTrainingJobsForHyperParameterTuningJob", asked)
        return {"TrainingJobSummaries": listed["TrainingJobSummaries"]}


class ModelStep:
    """CreateModel."""

    def find(self, _calls: ServiceCalls, _execution: PipelineExecution, _run: StepRun) -> str | None:
        """Nothing goes on that would have to be stopped."""
        return None

    def start(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> str:
        name = job_name(execution, run, run.arguments.get("ModelName"), 63)
        _call(
            calls, execution, run, "CreateModel", {**run.arguments, "ModelName": name}, exists=("ValidationException",)
        )
        return name

    def look(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> Look | None:
        return Look(StepStatus.SUCCEEDED, _call(calls, execution, run, "DescribeModel", {"ModelName": run.made}))

    def stop(self, _calls: ServiceCalls, _execution: PipelineExecution, _run: StepRun) -> None:
        """A model exists at once."""


class RegisterModelStep:
    """CreateModelPackage. As on AWS, the group is made if it does not exist, and gets the tags (SDK v2, register)."""

    def find(self, _calls: ServiceCalls, _execution: PipelineExecution, _run: StepRun) -> str | None:
        """Nothing goes on that would have to be stopped."""
        return None

    def start(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> str:
        # A repeat after a crash returns the package that is there.
        asked = {**run.arguments, "ClientToken": suffix(execution, run, _CLIENT_TOKEN)}
        group = run.arguments.get("ModelPackageGroupName")
        if group is not None:
            tags = asked.pop("Tags", None)
            if not text_of(group).startswith("arn:"):
                grouped = {"ModelPackageGroupName": group, **({"Tags": tags} if tags else {})}
                _call(calls, execution, run, "CreateModelPackageGroup", grouped, exists=("ValidationException",))
        return str(_call(calls, execution, run, "CreateModelPackage", asked)["ModelPackageArn"])

    def look(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> Look | None:
        asked = {"ModelPackageName": str(run.made)}
        return Look(StepStatus.SUCCEEDED, _call(calls, execution, run, "DescribeModelPackage", asked))

    def stop(self, _calls: ServiceCalls, _execution: PipelineExecution, _run: StepRun) -> None:
        """A model package exists at once."""


class CallbackStep:
    """Sends a message to an SQS queue. The step ends by SendPipelineExecutionStepSuccess or -Failure."""

    def find(self, _calls: ServiceCalls, _execution: PipelineExecution, _run: StepRun) -> str | None:
        """Nothing goes on that would have to be stopped."""
        return None

    def start(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> str:
        token = suffix(execution, run, TOKEN_LENGTH)
        self._send(calls, execution, run, token, "Executing")
        return token

    def look(self, _calls: ServiceCalls, _execution: PipelineExecution, _run: StepRun) -> Look | None:
        return None

    def stop(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> None:
        self._send(calls, execution, run, str(run.made), "Stopping")

    def _send(self, calls: ServiceCalls, execution: PipelineExecution, run: StepRun, token: str, status: str) -> None:
        # Members as in the developer guide, "Callback step".
        body = {
            "token": token,
            "pipelineExecutionArn": execution.key.arn,
            "status": status,
            "arguments": run.arguments["Arguments"],
        }
        message = {"QueueUrl": run.arguments["SqsQueueUrl"], "MessageBody": json.dumps(body)}
        calls(of_execution(execution, run.name), execution.key.region, "sqs", "SendMessage", message)


class LambdaStep:
    """Runs a Lambda function as a process of its own. As on AWS, a function that runs cannot be stopped."""

    def __init__(self, invoker: Invoker) -> None:
        self._invoker = invoker

    def find(self, _calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> str | None:
        invocation = _invocation(execution, run)
        return invocation if self._invoker.has(invocation) else None

    def start(self, _calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> str:
        invocation, principal = _invocation(execution, run), of_execution(execution, run.name)
        arn, event = text_of(run.arguments["FunctionArn"]), json.dumps(run.arguments["Arguments"])
        try:
            self._invoker.begin(invocation, principal, execution.key.region, arn, event, LAMBDA_SECONDS)
        except NotAuthorized as error:
            raise CallRefused("ClientError", failed_to_invoke("lambda:InvokeFunction", str(error))) from error
        except FunctionRefused as error:
            raise CallRefused("ClientError", str(error)) from error
        return invocation

    def look(self, _calls: ServiceCalls, execution: PipelineExecution, run: StepRun) -> Look | None:
        try:
            outcome = self._invoker.look(str(run.made))
        except FunctionRefused as error:
            # It was to run again, and cannot: for example, the image is gone.
            raise CallRefused("ClientError", str(error)) from error
        if outcome is None:
            return None
        if outcome.timed_out:
            return Look(StepStatus.FAILED, {}, f"The function {_name(run)} timed out", timed_out=True)
        if outcome.payload is None:
            failure = retrying.SERVICE_FAULT if outcome.fault else ""
            reason = f"The function {_name(run)} failed: {outcome.error}: {outcome.message}"
            return Look(StepStatus.FAILED, {}, reason, failure)
        wanted = parse(execution.definition).steps[run.name].given.get("OutputParameters") or []
        try:
            properties = {"OutputParameters": outputs.read(outcome.payload, wanted)}
        except outputs.BadOutput as error:
            return Look(StepStatus.FAILED, {}, f"The function {_name(run)} ended, but {error}")
        return Look(StepStatus.SUCCEEDED, properties)

    def stop(self, _calls: ServiceCalls, _execution: PipelineExecution, _run: StepRun) -> None:
        """The execution waits for the function's end (API reference of StopPipelineExecution)."""

    def forget(self, run: StepRun) -> None:
        """Removes what is left of an attempt that has ended."""
        self._invoker.forget(str(run.made))


def _name(run: StepRun) -> str:
    return text_of(run.arguments["FunctionArn"]).partition(":function:")[2] or text_of(run.arguments["FunctionArn"])


def _invocation(execution: PipelineExecution, run: StepRun) -> str:
    return invocation_id(execution.id, suffix(execution, run, _INVOCATION))


#: The kinds that need nothing but calls. The work of executions adds Lambda.
KINDS: Mapping[str, StepKind] = {
    "Training": JobStep("TrainingJob", JobKind.TRAINING.value),
    "Processing": JobStep("ProcessingJob", JobKind.PROCESSING.value),
    "Tuning": TuningStep(),
    "Model": ModelStep(),
    "RegisterModel": RegisterModelStep(),
    "Callback": CallbackStep(),
}


def _call(
    calls: ServiceCalls,
    execution: PipelineExecution,
    run: StepRun,
    operation: str,
    request: JsonObject,
    exists: tuple[str, ...] = (),
) -> JsonObject:
    """Calls SageMaker as the execution. An error in `exists` says that the name is taken, and is not raised.

    The name follows from the execution, so an earlier try of this step made what has it.
    """
    try:
        return calls(of_execution(execution, run.name), execution.key.region, "sagemaker", operation, request)
    except CallRefused as error:
        taken = error.code in exists and ("already exist" in str(error).lower() or error.code == "ResourceInUse")
        if not taken:
            raise
        return {}


def _failure_of_job(reason: str) -> str:
    if reason.startswith("InternalServerError"):
        return retrying.INTERNAL_ERROR
    return retrying.CAPACITY_ERROR if reason.startswith("CapacityError") else ""
