"""The work of pipeline executions: what the orchestrator does for each of them."""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.model.objects import ObjectDamaged, ObjectNotFound, ObjectStore, S3Uri
from sagelet_engine.model.orchestration import OrchestrationStatus
from sagelet_engine.model.pipeline import PipelineExecution, StepRun, StepState, StepStatus
from sagelet_engine.model.service_calls import CallRefused, ServiceCalls
from sagelet_engine.pipelines import caching, retrying
from sagelet_engine.pipelines.decision import Lookups, decide
from sagelet_engine.pipelines.definition import Step, parse
from sagelet_engine.pipelines.documents import read_text
from sagelet_engine.pipelines.expressions import Unresolved
from sagelet_engine.pipelines.malformed import MALFORMED, failed
from sagelet_engine.pipelines.steps import KINDS, Look, failure_of_call
from sagelet_engine.store.orchestration_codecs import PIPELINE_EXECUTION
from sagelet_engine.store.orchestrations import Orchestrations

log = logging.getLogger(__name__)

#: When a step is looked at again whose job could not be described, as with a fault's `throttling`.
_LOOK_AGAIN_MS = 1000


class PipelineWork:
    """A Work."""

    def __init__(self, kept: Orchestrations, objects: ObjectStore, clock: Clock, calls: ServiceCalls) -> None:
        self._kept = kept.of(PIPELINE_EXECUTION)
        self._objects = objects
        self._clock = clock
        self._calls = calls

    def step(self, record: PipelineExecution) -> float | None:
        before = self._kept.children(record.id)
        now_ms = self._clock.now_ms()
        runs = [self._seen(record, one, now_ms) for one in before]
        decision = decide(record, before, runs, now_ms, self._lookups(record, now_ms))
        if decision.changed or decision.execution != record:
            failpoint(Failpoint.BEFORE_DECISION)
            record = self._kept.update(decision.execution, decision.changed)
            failpoint(Failpoint.AFTER_DECISION)
        if record.terminal:
            return None
        written = {one.ordinal: one for one in (*runs, *decision.changed)}
        made = self._make_so(record, [*written.values()])
        if made:
            self._kept.update(record, made)
        return min((one.retry_ms for one in written.values() if one.retry_ms is not None), default=None)

    # --- what steps are like now --------------------------------------------------------------------------------

    def _seen(self, record: PipelineExecution, run: StepRun, now_ms: int) -> StepRun:
        """Returns a step as what it made shows it."""
        try:
            return self._looked_at(record, run, now_ms)
        except MALFORMED as error:
            return failed(run, error, now_ms)

    def _looked_at(self, record: PipelineExecution, run: StepRun, now_ms: int) -> StepRun:
        step = parse(record.definition).steps[run.name]
        if run.state is StepState.PLANNED and record.status is OrchestrationStatus.STOPPING:
            made = KINDS[step.type].find(self._calls, record, run)
            return run if made is None else replace(run, state=StepState.RUNNING, made=made)
        if run.state is not StepState.RUNNING:
            return run
        try:
            look = KINDS[step.type].look(self._calls, record, run)
        except CallRefused as error:
            if failure_of_call(error):
                return replace(run, retry_ms=now_ms + _LOOK_AGAIN_MS)
            # For example, somebody has deleted the job.
            return retrying.ended(run, StepStatus.FAILED, now_ms, failure_reason=f"{error.code}: {error}")
        return run if look is None else _with(replace(run, retry_ms=None), step, look, record, now_ms)

    def _lookups(self, record: PipelineExecution, now_ms: int) -> Lookups:
        return Lookups(
            lambda uri: self._document(record, uri),
            lambda step, key: self._cached(record, step, key, now_ms),
            lambda: self._source(record),
        )

    def _document(self, record: PipelineExecution, uri: str) -> Any:
        """Reads a JSON object. Raises Unresolved."""
        try:
            where = S3Uri.parse(uri)
        except ValueError as error:
            raise Unresolved(str(error)) from error
        try:
            return json.loads(read_text(self._objects, record.key.account, record.key.region, where))
        except (ObjectNotFound, ObjectDamaged) as error:
            raise Unresolved(f"{uri} cannot be read: {error}") from error
        except ValueError as error:
            raise Unresolved(f"{uri} is not JSON: {error}") from error

    def _cached(self, record: PipelineExecution, step: Step, key: str, now_ms: int) -> tuple[StepRun, str] | None:
        """Returns the newest run with this key among the executions of the same pipeline."""
        newest: tuple[StepRun, str] | None = None
        for other in self._kept.every(record.key.account, record.key.region):
            if other.pipeline.lower() != record.pipeline.lower() or other.id == record.id:
                continue
            for run in self._kept.children(other.id):
                same = run.name == step.name and run.succeeded and run.cache_key == key and run.cached_from is None
                if not same or not caching.is_fresh(step.given, run.end_ms or 0, now_ms):
                    continue
                if newest is None or (run.end_ms or 0) >= (newest[0].end_ms or 0):
                    newest = run, other.key.arn
        return newest

    def _source(self, record: PipelineExecution) -> tuple[Mapping[str, StepRun], str]:
        arn = record.request["SelectiveExecutionConfig"]["SourcePipelineExecutionArn"]
        for other in self._kept.every(record.key.account, record.key.region):
            if other.key.arn == arn:
                return {run.name: run for run in self._kept.children(other.id)}, arn
        return {}, arn

    # --- what is done outside -------------------------------------------------------------------------------------

    def _make_so(self, record: PipelineExecution, runs: Sequence[StepRun]) -> list[StepRun]:
        """Makes what the planned steps make, or stops what those that run have made. Returns the steps that changed."""
        changed = []
        for run in runs:
            try:
                if run.state is StepState.PLANNED:
                    changed.append(self._start(record, run))
                elif _must_stop(record, run):
                    changed.append(self._stop(record, run))
            except MALFORMED as error:
                changed.append(failed(run, error, self._clock.now_ms()))
        return changed

    def _start(self, record: PipelineExecution, run: StepRun) -> StepRun:
        step = parse(record.definition).steps[run.name]
        failpoint(Failpoint.BEFORE_CHILD)
        try:
            made = KINDS[step.type].start(self._calls, record, run)
        except CallRefused as error:
            policies = step.given.get("RetryPolicies", [])
            reason = f"{error.code}: {error}"
            return retrying.after_failure(run, policies, failure_of_call(error), reason, self._clock.now_ms())
        failpoint(Failpoint.AFTER_CHILD)
        return replace(run, state=StepState.RUNNING, status=StepStatus.EXECUTING, made=made)

    def _stop(self, record: PipelineExecution, run: StepRun) -> StepRun:
        step = parse(record.definition).steps[run.name]
        try:
            KINDS[step.type].stop(self._calls, record, run)
        except CallRefused as error:
            # It has ended meanwhile, and the next look sees how.
            log.info("step %s of %s could not be stopped: %s", run.name, record.key.arn, error)
        failpoint(Failpoint.AFTER_CHILD_STOP)
        return replace(run, status=StepStatus.STOPPING)


def _must_stop(record: PipelineExecution, run: StepRun) -> bool:
    stopping = record.status is OrchestrationStatus.STOPPING
    return stopping and run.state is StepState.RUNNING and run.status is not StepStatus.STOPPING


def _with(run: StepRun, step: Step, look: Look, record: PipelineExecution, now_ms: int) -> StepRun:
    if look.status is StepStatus.FAILED:
        policies = step.given.get("RetryPolicies", [])
        failed = retrying.after_failure(run, policies, look.failure, look.reason or "", now_ms)
        return replace(failed, properties=look.properties)
    if look.status in (StepStatus.SUCCEEDED, StepStatus.STOPPED):
        reason = None if look.status is StepStatus.SUCCEEDED else look.reason
        if record.status is OrchestrationStatus.STOPPING:
            reason = None
        return replace(retrying.ended(run, look.status, now_ms, failure_reason=reason), properties=look.properties)
    return run
