"""What an execution does next: functions of its record, its steps and the time."""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sagelet_engine.model.orchestration import OrchestrationStatus, enter
from sagelet_engine.model.pipeline import PipelineExecution, StepRun, StepState, StepStatus
from sagelet_engine.pipelines import caching, conditions, retrying
from sagelet_engine.pipelines.checking import function_faults
from sagelet_engine.pipelines.definition import BESIDE_ARGUMENTS, Definition, Step, parse
from sagelet_engine.pipelines.execution_variables import names_its_job, variables
from sagelet_engine.pipelines.expressions import Scope, Unresolved, resolve, text_of
from sagelet_engine.pipelines.malformed import UNUSABLE, failed

#: FailureReason of an execution. It is what users of SageMaker Pipelines quote; AWS does not document it.
STEPS_FAILED = "Step failure: One or multiple steps failed."


@dataclass(frozen=True)
class Lookups:
    """What a decision reads outside of the record."""

    #: Returns the JSON document of a URI. Raises Unresolved.
    document: Callable[[str], Any]
    #: Returns the newest run of this step that succeeded with this cache key, with its execution's ARN, or None.
    cached: Callable[[Step, str], tuple[StepRun, str] | None]
    #: Returns the runs of the source of SelectiveExecutionConfig, by name, and its ARN.
    source: Callable[[], tuple[Mapping[str, StepRun], str]]


@dataclass(frozen=True)
class Decision:
    """What is to be written. What is to be done outside follows from what was written."""

    execution: PipelineExecution
    changed: tuple[StepRun, ...] = ()


def decide(
    execution: PipelineExecution, before: Sequence[StepRun], runs: Sequence[StepRun], now_ms: int, lookups: Lookups
) -> Decision:
    """Returns what to write, given the steps as they were written (`before`) and as they are now."""
    state = _State(execution, {one.name: one for one in runs}, now_ms, lookups)
    if execution.status is OrchestrationStatus.STOPPING:
        state.give_up()
    else:
        state.go_on()
    now = state.ended()
    old = {one.ordinal: one for one in before}
    changed = tuple(one for one in state.runs.values() if old.get(one.ordinal) != one)
    if changed and now is execution:
        now = replace(now, modified_ms=max(now.modified_ms, now_ms))
    return Decision(now, changed)


class _State:
    """The steps of one execution while a decision is made."""

    def __init__(self, execution: PipelineExecution, runs: dict[str, StepRun], now_ms: int, lookups: Lookups) -> None:
        self.execution = execution
        self.runs: dict[str, StepRun] = {}
        #: What follows from the runs: a decision may begin hundreds of steps, and each asks for it.
        self._properties: dict[str, Any] = {}
        self._unsuccessful: set[str] = set()
        #: Steps that have begun and not ended.
        self._going: set[str] = set()
        self._last_begun = 0
        for run in runs.values():
            self._put(run)
        self.now_ms = now_ms
        self.definition = parse(execution.definition)
        self._lookups = lookups
        self._selected, self._reused = _selection(execution, self.definition)

    def give_up(self) -> None:
        """Ends the steps that have made nothing."""
        for run in [*self.runs.values()]:
            if run.state in (StepState.PLANNED, StepState.WAITING):
                self._put(retrying.ended(run, StepStatus.STOPPED, self.now_ms))

    def go_on(self) -> None:
        """Begins every step that may begin. A Condition step ends at once, and others may begin after it."""
        if not self._failed():
            for run in [*self.runs.values()]:
                if run.state is StepState.WAITING and (run.retry_ms or 0) <= self.now_ms:
                    self._put(self._again(run))
            self._begin_all()
        if not self._failed():
            return
        # The steps that run go on, as on AWS, and those that wait for another try do not.
        for run in [*self.runs.values()]:
            if run.state is StepState.WAITING:
                self._put(retrying.ended(run, StepStatus.FAILED, self.now_ms, failure_reason=run.failure_reason))

    def _begin_all(self) -> None:
        """Begins steps in the order of the definition. A step is looked at again only after one that it needs."""
        steps, limit = self.definition.steps, self.execution.parallel
        ready = [step.ordinal for step in steps.values() if self._may_begin(step)]
        by_ordinal = {step.ordinal: step for step in steps.values()}
        heapq.heapify(ready)
        while ready and not self._failed() and (limit is None or len(self._going) < limit):
            step = by_ordinal[heapq.heappop(ready)]
            run = self._begun(step)
            self._put(run)
            if run.succeeded:
                for name in self.definition.needed_by[step.name]:
                    if self._may_begin(steps[name]):
                        heapq.heappush(ready, steps[name].ordinal)

    def ended(self) -> PipelineExecution:
        """Returns the execution, ended if none of its steps goes on."""
        if not all(run.ended for run in self.runs.values()):
            return self.execution
        # API reference of StopPipelineExecution: an execution that waits for a function whose time is over has failed.
        timed_out = any(run.timed_out for run in self.runs.values())
        if self.execution.status is OrchestrationStatus.STOPPING and not timed_out:
            return enter(self.execution, OrchestrationStatus.STOPPED, self.now_ms)
        if self._failed():
            return enter(self.execution, OrchestrationStatus.FAILED, self.now_ms, failure_reason=STEPS_FAILED)
        return enter(self.execution, OrchestrationStatus.COMPLETED, self.now_ms)

    def _put(self, run: StepRun) -> None:
        self.runs[run.name] = run
        self._last_begun = max(self._last_begun, run.begun)
        self._properties.pop(run.name, None)
        self._unsuccessful.discard(run.name)
        self._going.discard(run.name)
        if not run.ended:
            self._going.add(run.name)
        if run.succeeded:
            self._properties[run.name] = run.properties
        elif run.ended:
            self._unsuccessful.add(run.name)

    def _failed(self) -> bool:
        return bool(self._unsuccessful)

    def _may_begin(self, step: Step) -> bool:
        if step.name in self.runs or not self._is_chosen(step.name):
            return False
        if not all(name in self.runs and self.runs[name].succeeded for name in step.needs):
            return False
        if step.branch is None:
            return True
        name, outcome = step.branch
        return bool(self.runs[name].properties["Outcome"] == _outcome(outcome))

    def _is_chosen(self, name: str) -> bool:
        return self._selected is None or name in self._selected or name in self._reused

    def _begun(self, step: Step) -> StepRun:
        run = StepRun(
            ordinal=step.ordinal,
            name=step.name,
            begun=self._last_begun + 1,
            state=StepState.PLANNED,
            status=StepStatus.STARTING,
            start_ms=self.now_ms,
        )
        try:
            return self._from_source(run) if step.name in self._reused else self._evaluated(step, run)
        except UNUSABLE as error:
            return failed(run, error, self.now_ms)

    def _again(self, run: StepRun) -> StepRun:
        """Returns the next attempt of a run that waited. Its arguments are those of the first."""
        run, step = retrying.again(run), self.definition.steps[run.name]
        if not names_its_job(step):
            return run
        try:
            return replace(run, arguments=resolve(step.arguments, self._scope(step, run)))
        except UNUSABLE as error:
            return failed(run, error, self.now_ms)

    def _evaluated(self, step: Step, run: StepRun) -> StepRun:
        """Returns a step with its arguments, ended if nothing is to be made. Raises one of UNUSABLE."""
        # An import may have brought what Create refuses.
        for fault in function_faults(step):
            raise Unresolved(fault)
        if step.type == "Condition":
            return self._judged(step, run)
        arguments = resolve(step.arguments, self._scope(step, run))
        beside = {name: step.given[name] for name in BESIDE_ARGUMENTS if name in step.given}
        if step.type in ("Callback", "Lambda"):
            arguments = {"Arguments": arguments, **resolve(beside, self._scope(step, run))}
        run = replace(run, arguments=arguments)
        if step.type == "Fail":
            message = text_of(arguments.get("ErrorMessage", "")) or None
            return retrying.ended(run, StepStatus.FAILED, self.now_ms, failure_reason=message)
        return self._from_cache(step, run)

    def _judged(self, step: Step, run: StepRun) -> StepRun:
        scope = self._scope(step, run)
        outcomes = [conditions.holds(one, scope) for one in step.arguments["Conditions"]]
        return replace(
            retrying.ended(run, StepStatus.SUCCEEDED, self.now_ms), properties={"Outcome": _outcome(all(outcomes))}
        )

    def _from_cache(self, step: Step, run: StepRun) -> StepRun:
        key = caching.cache_key(self.execution.pipeline_key.arn, step.given, run.arguments)
        if not key:
            return run
        run = replace(run, cache_key=key)
        found = self._lookups.cached(step, key)
        if found is None:
            return run
        earlier, arn = found
        return replace(
            retrying.ended(run, StepStatus.SUCCEEDED, self.now_ms),
            properties=earlier.properties,
            made=earlier.made,
            cached_from=arn,
        )

    def _from_source(self, run: StepRun) -> StepRun:
        runs, arn = self._lookups.source()
        earlier = runs.get(run.name)
        if earlier is None or not earlier.succeeded:
            reason = f"Step {run.name} did not succeed in {arn}, whose results SelectiveExecutionConfig asks for"
            return retrying.ended(run, StepStatus.FAILED, self.now_ms, failure_reason=reason)
        return replace(
            retrying.ended(run, StepStatus.SUCCEEDED, self.now_ms),
            properties=earlier.properties,
            made=earlier.made,
            selected_from=arn,
        )

    def _scope(self, step: Step, run: StepRun) -> Scope:
        return Scope(
            self.execution.parameters,
            variables(self.execution, step, run),
            self.definition.experiment,
            self._properties,
            self._property_file,
            self._lookups.document,
        )

    def _property_file(self, step_name: str, file_name: str) -> Any:
        """Returns the document of a property file: a file below one of the outputs of a Processing step."""
        file = self.definition.steps[step_name].property_files[file_name]
        outputs = self.runs[step_name].properties.get("ProcessingOutputConfig", {}).get("Outputs", [])
        output = next((one for one in outputs if one["OutputName"] == file["OutputName"]), None)
        if output is None:
            raise Unresolved(f"Step {step_name} has no output {file['OutputName']}, where {file_name} would be")
        return self._lookups.document(f"{output['S3Output']['S3Uri'].rstrip('/')}/{file['FilePath']}")


def _selection(execution: PipelineExecution, definition: Definition) -> tuple[frozenset[str] | None, frozenset[str]]:
    """Returns the steps that run (None: all), and those whose results are those of the source."""
    chosen = execution.selection
    if chosen is None:
        return None, frozenset()
    return chosen.steps, frozenset(definition.upstream([*chosen.steps])) - chosen.steps


def _outcome(holds: bool) -> str:
    """Returns Outcome of ConditionStepMetadata as the SDK's own tests of pipelines read it from AWS."""
    return "true" if holds else "false"
