"""The record of a pipeline, of one execution of it, and of each step of an execution. Immutable."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.arns import arn
from sagelet_engine.model.orchestration import (
    Child,
    Orchestration,
    OrchestrationKey,
    OrchestrationKind,
    OrchestrationStatus,
)

_NAMESPACE = uuid.UUID("b5f6d1c4-9a3e-4f0b-8d57-2c1e6a7f9034")
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class PipelineKey:
    """The name of a pipeline, unique in an account and region. Case does not count."""

    account: str
    region: str
    name: str

    @property
    def arn(self) -> str:
        return arn("sagemaker", self.region, self.account, f"pipeline/{self.name.lower()}")

    def execution(self, execution_id: str) -> OrchestrationKey:
        """Returns the key of an execution. Its ARN is the pipeline's, with `/execution/ID`."""
        name = f"{self.name}/execution/{execution_id}"
        return OrchestrationKey(self.account, self.region, name, OrchestrationKind.PIPELINE_EXECUTION)


@dataclass(frozen=True)
class Pipeline:
    """All durable data of one pipeline, except its executions; times in ms since the epoch."""

    key: PipelineKey
    #: PipelineDefinition, JSON text.
    definition: str
    role: str
    created_ms: int
    modified_ms: int
    #: PipelineVersionId of the definition: 1, and one more for each update of it.
    version: int = 1
    display_name: str | None = None
    description: str | None = None
    #: MaxParallelExecutionSteps.
    parallel: int | None = None
    last_run_ms: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    #: ClientRequestToken of CreatePipeline.
    token: str = ""
    #: PipelineVersionAliases: the version of each alias.
    aliases: Mapping[str, int] = field(default_factory=dict)
    #: UserContext of who made it, and of who changed it last.
    created_by: JsonObject = field(default_factory=dict)
    modified_by: JsonObject = field(default_factory=dict)
    #: Display name and description (members as in UpdatePipelineVersion) by version. JSON's keys are text.
    version_notes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def aliases_of(self, version: int | None) -> list[str]:
        """Returns the aliases of a version, in order."""
        return sorted(alias for alias, number in self.aliases.items() if number == version)


class Selection(NamedTuple):
    """SelectiveExecutionConfig."""

    #: Names of the steps that run.
    steps: frozenset[str]
    #: ARN of the execution whose results the other steps have.
    source: str


class StepState(str, Enum):
    #: It is decided, and what it makes may not exist yet.
    PLANNED = "planned"
    #: What it makes exists.
    RUNNING = "running"
    #: It failed, and is planned again at `retry_ms`.
    WAITING = "waiting"
    ENDED = "ended"


class StepStatus(str, Enum):
    """botocore's shape StepStatus."""

    STARTING = "Starting"
    EXECUTING = "Executing"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    FAILED = "Failed"
    SUCCEEDED = "Succeeded"


@dataclass(frozen=True)
class StepRun(Child):
    """One step of one execution, from the moment at which it may start; times in ms since the epoch.

    `ordinal` is the step's place in the definition.
    """

    name: str
    #: The order in which steps of the execution began, from 1.
    begun: int
    state: StepState
    status: StepStatus
    start_ms: int
    #: Arguments after all references are replaced.
    arguments: JsonObject = field(default_factory=dict)
    attempt: int = 1
    end_ms: int | None = None
    retry_ms: int | None = None
    failure_reason: str | None = None
    #: Name, ARN or token of what the step made.
    made: str | None = None
    #: What `Steps.NAME.` refers to: the answer of the Describe call of what the step made.
    properties: JsonObject = field(default_factory=dict)
    #: Digest of the arguments that decide about a cache hit. Empty if the step has no cache.
    cache_key: str = ""
    #: ClientRequestToken of the call that answered a Callback step.
    answer_token: str | None = None
    #: ARN of the execution whose result this step has: by the cache, or by SelectiveExecutionConfig.
    cached_from: str | None = None
    selected_from: str | None = None
    #: True if a Lambda step failed because its time was over.
    timed_out: bool = False

    @property
    def list_order(self) -> int:
        return self.begun

    @property
    def ended(self) -> bool:
        return self.state is StepState.ENDED

    @property
    def succeeded(self) -> bool:
        return self.ended and self.status is StepStatus.SUCCEEDED


#: PipelineExecutionStatus of botocore.
EXECUTION_STATUSES: Mapping[OrchestrationStatus, str] = {
    OrchestrationStatus.IN_PROGRESS: "Executing",
    OrchestrationStatus.STOPPING: "Stopping",
    OrchestrationStatus.STOPPED: "Stopped",
    OrchestrationStatus.FAILED: "Failed",
    OrchestrationStatus.COMPLETED: "Succeeded",
}


@dataclass(frozen=True)
class PipelineExecution(Orchestration):
    """All durable data of one execution, except its steps. `request` is the StartPipelineExecution body."""

    #: Of the pipeline at the start. A later update of the pipeline changes nothing here.
    definition: str = ""
    role: str = ""
    parallel: int | None = None
    #: The pipeline's own name, as it was given.
    pipeline: str = ""
    #: Parameters of the definition with their values, in their types.
    parameters: Mapping[str, Any] = field(default_factory=dict)
    #: How many times it was retried, and ClientRequestToken of the last retry.
    retries: int = 0
    retry_token: str | None = None
    #: ClientRequestToken of the last StopPipelineExecution.
    stop_token: str | None = None
    #: UserContext of who started it, and of who changed it last.
    created_by: JsonObject = field(default_factory=dict)
    modified_by: JsonObject = field(default_factory=dict)
    #: PipelineVersionId.
    pipeline_version: int | None = None

    @property
    def execution_id(self) -> str:
        return self.key.name.rpartition("/")[2]

    @property
    def selection(self) -> Selection | None:
        """Returns the steps that were chosen to run. None: all run."""
        config = self.request.get("SelectiveExecutionConfig")
        if config is None:
            return None
        # StartPipelineExecution has added the source if the client named none.
        steps = frozenset(one["StepName"] for one in config["SelectedSteps"])
        return Selection(steps, config["SourcePipelineExecutionArn"])

    @property
    def pipeline_key(self) -> PipelineKey:
        return PipelineKey(self.key.account, self.key.region, self.pipeline)


def execution_id_of(record_id: str) -> str:
    """Returns the 12 letters that AWS gives an execution. They follow from the record's id, a UUID in hex."""
    number, letters = int(record_id, 16), ""
    for _ in range(12):
        number, rest = divmod(number, len(_LETTERS))
        letters += _LETTERS[rest]
    return letters


def suffix(execution: PipelineExecution, run: StepRun, length: int) -> str:
    """Returns letters that follow from an execution, a step and its attempt, so that a repeat finds what it made."""
    seed = f"{execution.id} {execution.retries} {run.name} {run.attempt}"
    return uuid.uuid5(_NAMESPACE, seed).hex[:length]
