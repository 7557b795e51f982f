"""The work of pipeline executions: what the orchestrator does for each of them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import OrchestrationNotFound
from sagelet_engine.base.failpoints import Failpoint, failpoint
from sagelet_engine.model.acting import of_execution
from sagelet_engine.model.functions import NO_INVOKER, Invoker
from sagelet_engine.model.objects import ObjectStore
from sagelet_engine.model.orchestration import OrchestrationStatus
from sagelet_engine.model.pipeline import PipelineExecution, StepRun, StepState, StepStatus
from sagelet_engine.model.service_calls import CallRefused, ServiceCalls
from sagelet_engine.pipelines import caching, retrying
from sagelet_engine.pipelines.decision import Lookups, decide
from sagelet_engine.pipelines.definition import Step, parse
from sagelet_engine.pipelines.documents import read_json
from sagelet_engine.pipelines.experiments import Experiments
from sagelet_engine.pipelines.malformed import UNUSABLE, failed
from sagelet_engine.pipelines.steps import (
    CALLBACK_EXPIRED,
    KINDS,
    JobStep,
    LambdaStep,
    Look,
    StepKind,
    expires_ms,
    failure_of_call,
    is_passing,
)
from sagelet_engine.store.orchestration_codecs import PIPELINE_EXECUTION
from sagelet_engine.store.orchestrations import Orchestrations, StaleOrchestration

log = logging.getLogger(__name__)

#: When a step is looked at again whose job could not be described, as with a fault's `throttling`.
_LOOK_AGAIN_MS = 1000
#: When a function that has just begun is looked at again.
_SOON_MS = 50


class PipelineWork:
    """A Work."""

    def __init__(
        self,
        kept: Orchestrations,
        objects: ObjectStore,
        clock: Clock,
        calls: ServiceCalls,
        invoker: Invoker = NO_INVOKER,
        unfinished: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """`unfinished`: returns the ARNs of jobs that have not ended. A job that is not among them is described."""
        self._kept = kept.of(PIPELINE_EXECUTION)
        self._objects = objects
        self._clock = clock
        self._calls = calls
        self._unfinished = unfinished
        self._functions = LambdaStep(invoker)
        self._experiments = Experiments(calls)
        self._kinds: Mapping[str, StepKind] = {**KINDS, "Lambda": self._functions}

    def step(self, record: PipelineExecution) -> float | None:
        before = self._kept.children(record.id)
        now_ms = self._clock.now_ms()
        # One question for all, since there may be hundreds, and most of them have not ended.
        going_on = self._unfinished()
        runs = [one if self._goes_on(record, one, going_on) else self._seen(record, one, now_ms) for one in before]
        decision = decide(record, before, runs, now_ms, self._lookups(record, now_ms))
        if decision.changed or decision.execution != record:
            failpoint(Failpoint.BEFORE_DECISION)
            record = self._kept.update(decision.execution, decision.changed)
            failpoint(Failpoint.AFTER_DECISION)
            self._forget(record, before, decision.changed)
        if record.terminal:
            return None
        if not before:
            self._experiments.begin(record)
        written = {one.ordinal: one for one in (*runs, *decision.changed)}
        made = self._make_so(record, [*written.values()])
        self._keep(record, made, written)
        types = {name: step.type for name, step in parse(record.definition).steps.items()}
        now = {**written, **{one.ordinal: one for one in made}}.values()
        moments = (
            *(one.retry_ms for one in now),
            *(expires_ms(types[one.name], one) for one in now),
            *(_poll_ms(types[one.name], one, now_ms) for one in now),
        )
        return min((moment for moment in moments if moment is not None), default=None)

    def _forget(self, record: PipelineExecution, before: Sequence[StepRun], changed: Sequence[StepRun]) -> None:
        """Removes the files of functions that have ended. Their ends are durable."""
        steps, now = parse(record.definition).steps, {one.ordinal: one for one in changed}
        for run in before:
            ended = run.ordinal in now and now[run.ordinal].state is not StepState.RUNNING
            if ended and run.state is StepState.RUNNING and steps[run.name].type == "Lambda":
                self._functions.forget(run)

    def _keep(self, record: PipelineExecution, made: Sequence[StepRun], seen: Mapping[int, StepRun]) -> None:
        """Records what was made, also if a request changed the execution meanwhile: else it would be made again.

        A step that such a request has ended stays as it is.
        """
        while made:
            try:
                self._kept.update(record, made)
                return
            except StaleOrchestration:
                record = self._kept.get(record.key)
                now = {one.ordinal: one for one in self._kept.children(record.id)}
                made = [one for one in made if now.get(one.ordinal) == seen[one.ordinal]]

    # --- what steps are like now --------------------------------------------------------------------------------

    def _goes_on(self, record: PipelineExecution, run: StepRun, going_on: frozenset[str]) -> bool:
        """True if a step's job has not ended, so that there is nothing to see."""
        if run.state is not StepState.RUNNING or run.retry_ms is not None:
            return False
        kind = self._kinds[parse(record.definition).steps[run.name].type]
        return isinstance(kind, JobStep) and kind.arn(record, run) in going_on

    def _seen(self, record: PipelineExecution, run: StepRun, now_ms: int) -> StepRun:
        """Returns the step, updated from the state of what it made (a job, a message, ...)."""
        try:
            return self._looked_at(record, run, now_ms)
        except UNUSABLE as error:
            return failed(run, error, now_ms)

    def _looked_at(self, record: PipelineExecution, run: StepRun, now_ms: int) -> StepRun:
        step = parse(record.definition).steps[run.name]
        if run.state is StepState.PLANNED and record.status is OrchestrationStatus.STOPPING:
            made = self._kinds[step.type].find(self._calls, record, run)
            return run if made is None else replace(run, state=StepState.RUNNING, made=made)
        if run.state is not StepState.RUNNING:
            return run
        limit_ms = expires_ms(step.type, run)
        if limit_ms is not None and now_ms >= limit_ms:
            return retrying.ended(run, StepStatus.FAILED, now_ms, failure_reason=CALLBACK_EXPIRED)
        try:
            look = self._kinds[step.type].look(self._calls, record, run)
        except CallRefused as error:
            if is_passing(error):
                return replace(run, retry_ms=now_ms + _LOOK_AGAIN_MS)
            # For example, somebody has deleted the job.
            return retrying.ended(run, StepStatus.FAILED, now_ms, failure_reason=f"{error.code}: {error}")
        return run if look is None else _with(replace(run, retry_ms=None), step, look, record, now_ms)

    def _lookups(self, record: PipelineExecution, now_ms: int) -> Lookups:
        return Lookups(
            lambda uri: read_json(self._objects, of_execution(record), uri),
            lambda step, key: self._cached(step, key, now_ms),
            lambda: self._source(record),
        )

    def _cached(self, step: Step, key: str, now_ms: int) -> tuple[StepRun, str] | None:
        """Returns the newest run with this key, unless it has expired. A key is of one step of one pipeline."""
        newest = self._kept.newest_result(key)
        return newest if newest and caching.is_fresh(step.given, newest[0].end_ms or 0, now_ms) else None

    def _source(self, record: PipelineExecution) -> tuple[Mapping[str, StepRun], str]:
        assert record.selection is not None
        arn = record.selection.source
        try:
            # StartPipelineExecution takes only an execution of the same pipeline.
            source = self._kept.get(record.pipeline_key.execution(arn.rpartition("/")[2]))
        except OrchestrationNotFound:
            return {}, arn
        return {run.name: run for run in self._kept.children(source.id)}, arn

    # --- what is done outside -------------------------------------------------------------------------------------

    def _make_so(self, record: PipelineExecution, runs: Sequence[StepRun]) -> list[StepRun]:
        """Makes what the planned steps make, or stops what those that run have made. Returns the steps that changed."""
        now = [(run, self._made_so(record, run)) for run in runs]
        return [after for before, after in now if after != before]

    def _made_so(self, record: PipelineExecution, run: StepRun) -> StepRun:
        try:
            if run.state is StepState.PLANNED:
                return self._start(record, run)
            return self._stop(record, run) if _must_stop(record, run) else run
        except UNUSABLE as error:
            return failed(run, error, self._clock.now_ms())

    def _start(self, record: PipelineExecution, run: StepRun) -> StepRun:
        step = parse(record.definition).steps[run.name]
        failpoint(Failpoint.BEFORE_CHILD)
        try:
            made = self._kinds[step.type].start(self._calls, record, run)
        except CallRefused as error:
            policies = step.given.get("RetryPolicies", [])
            reason = f"{error.code}: {error}"
            return retrying.after_failure(run, policies, failure_of_call(error), reason, self._clock.now_ms())
        failpoint(Failpoint.AFTER_CHILD)
        self._experiments.add(record, run, step.type, made)
        return replace(run, state=StepState.RUNNING, status=StepStatus.EXECUTING, made=made)

    def _stop(self, record: PipelineExecution, run: StepRun) -> StepRun:
        step = parse(record.definition).steps[run.name]
        try:
            self._kinds[step.type].stop(self._calls, record, run)
        except CallRefused as error:
            if is_passing(error):
                return run
            # It has ended meanwhile, and the next look sees how.
            log.info("step %s of %s could not be stopped: %s", run.name, record.key.arn, error)
        failpoint(Failpoint.AFTER_CHILD_STOP)
        return replace(run, status=StepStatus.STOPPING)


def _must_stop(record: PipelineExecution, run: StepRun) -> bool:
    stopping = record.status is OrchestrationStatus.STOPPING
    return stopping and run.state is StepState.RUNNING and run.status is not StepStatus.STOPPING


def _poll_ms(kind: str, run: StepRun, now_ms: int) -> int | None:
    """Returns when a function is looked at again: nothing tells its end. The longer it runs, the less often."""
    if kind != "Lambda" or run.state is not StepState.RUNNING:
        return None
    return now_ms + min(_LOOK_AGAIN_MS, max(_SOON_MS, (now_ms - run.start_ms) // 20))


def _with(run: StepRun, step: Step, look: Look, record: PipelineExecution, now_ms: int) -> StepRun:
    if look.status is StepStatus.FAILED:
        policies = step.given.get("RetryPolicies", [])
        failed = retrying.after_failure(run, policies, look.failure, look.reason or "", now_ms)
        return replace(failed, properties=look.properties, timed_out=look.timed_out)
    if look.status in (StepStatus.SUCCEEDED, StepStatus.STOPPED):
        reason = None if look.status is StepStatus.SUCCEEDED else look.reason
        if record.status is OrchestrationStatus.STOPPING:
            reason = None
        ended = retrying.ended(run, look.status, now_ms, failure_reason=reason)
        return replace(ended, properties=look.properties)
    return run
