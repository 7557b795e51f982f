"""What the API asks for: pipelines, and their executions. Changes are durable when a method returns."""

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from sagelet_engine.base.clock import Clock
from sagelet_engine.base.errors import (
    AliasNotFound,
    AliasTaken,
    OrchestrationNameInUse,
    OrchestrationNotFound,
    PipelineInUse,
    PipelineNotFound,
    SageletError,
    TooManyTags,
)
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.job import Job
from sagelet_engine.model.objects import ObjectStore, S3Uri
from sagelet_engine.model.orchestration import OrchestrationKey, revive
from sagelet_engine.model.pipeline import (
    Pipeline,
    PipelineExecution,
    PipelineKey,
    StepRun,
    StepState,
    StepStatus,
    execution_id_of,
    suffix,
)
from sagelet_engine.model.principal import Authorize, Principal
from sagelet_engine.orchestration.facet import Orchestrations
from sagelet_engine.pipelines import retrying
from sagelet_engine.pipelines.definition import parse
from sagelet_engine.pipelines.documents import read_text
from sagelet_engine.pipelines.steps import TOKEN_LENGTH, expires_ms
from sagelet_engine.store.jobs import Store
from sagelet_engine.store.orchestration_codecs import PIPELINE_EXECUTION
from sagelet_engine.store.orchestrations import StaleOrchestration

_NAMESPACE = uuid.UUID("9d1f6c52-6f1c-4d0e-9a0b-8f6f0e5b7c21")


class CallbackNotFound(OrchestrationNotFound):
    """No Callback step has this token."""


class CallbackAnswered(SageletError):
    """The Callback step does not wait any more: it was answered, or its time is over."""


class Pipelines:
    """`watch` has the orchestrator drive an execution from now on."""

    def __init__(
        self,
        store: Store,
        objects: ObjectStore,
        clock: Clock,
        watch: Callable[[str], None],
        authorize: Authorize,
    ) -> None:
        self._authorize = authorize
        self._rows = store.pipelines
        self._kept = store.orchestrations.of(PIPELINE_EXECUTION)
        self._executions = Orchestrations(self._kept, clock, watch)
        self._objects = objects
        self._clock = clock
        self._watch = watch
        #: A pipeline is not deleted while one of its executions begins or is retried.
        self._lock = threading.Lock()

    # --- pipelines ------------------------------------------------------------------------------------------------

    def create(
        self, key: PipelineKey, definition: str, role: str, tags: Mapping[str, str], more: JsonObject
    ) -> Pipeline:
        """Keeps a definition that `checking.check` allows. `more`: further fields of the record.

        Raises PipelineNameInUse.
        """
        now_ms = self._clock.now_ms()
        pipeline = replace(Pipeline(key, definition, role, now_ms, now_ms, tags=dict(tags)), **more)
        self._rows.insert(pipeline)
        return pipeline

    def update(
        self,
        principal: Principal,
        key: PipelineKey,
        definition: str | None,
        changes: JsonObject,
        aliases: Sequence[str] = (),
    ) -> Pipeline:
        """Changes what is given. Another definition, which `checking.check` allows, is a new version with the aliases.
        Whoever writes it decides what the pipeline's role does, so they need iam:PassRole for that role.

        Raises PipelineNotFound, AliasTaken, NotAuthorized.
        """
        now_ms = self._clock.now_ms()

        def change(before: Pipeline) -> Pipeline:
            if definition is not None and before.role != principal.role and "role" not in changes:
                self._authorize(principal, "iam:PassRole", before.role)
            after = replace(before, modified_ms=max(now_ms, before.modified_ms), **changes)
            if definition is None:
                return after
            version = before.version + 1
            return replace(after, definition=definition, version=version, aliases=_with(before, version, aliases))

        return self._rows.change(key, change)

    def update_version(
        self, key: PipelineKey, version: int, notes: Mapping[str, str], add: Sequence[str], remove: Sequence[str]
    ) -> Pipeline:
        """Changes names and aliases of an existing version. Raises PipelineNotFound, AliasTaken, AliasNotFound."""

        def change(before: Pipeline) -> Pipeline:
            if missing := sorted({*remove} - {*before.aliases_of(version)}):
                raise AliasNotFound(", ".join(missing))
            left = {name: number for name, number in before.aliases.items() if name not in remove}
            noted = {**before.version_notes.get(str(version), {}), **notes}
            return replace(
                before,
                aliases=_with(replace(before, aliases=left), version, add),
                version_notes={**before.version_notes, str(version): noted},
                modified_ms=max(self._clock.now_ms(), before.modified_ms),
            )

        return self._rows.change(key, change)

    def delete(self, key: PipelineKey, token: str) -> None:
        """Forgets a pipeline and its executions. Their jobs stay.

        A second call with the same ClientRequestToken changes nothing. Raises PipelineNotFound, PipelineInUse.
        """
        with self._lock:
            if self._rows.was_deleted(key, token):
                return
            self._rows.get(key)
            executions = self.executions(key)
            if any(not one.terminal for one in executions):
                raise PipelineInUse(key.arn)
            for one in executions:
                self._forget(one.key)
            self._rows.delete(key, token, self._clock.now_ms())

    def _forget(self, key: OrchestrationKey) -> None:
        """Forgets an execution that has ended. It may be gone already, if its retention has ended."""
        while True:
            try:
                self._kept.delete(self._kept.get(key))
            except OrchestrationNotFound:
                return
            except StaleOrchestration:
                # Its description was changed meanwhile.
                continue
            return

    def get(self, key: PipelineKey) -> Pipeline:
        """Raises PipelineNotFound."""
        return self._rows.get(key)

    def every(self, account: str, region: str) -> list[Pipeline]:
        """Returns all pipelines of an account in a region, by name."""
        return self._rows.every(account, region)

    def versions(self, key: PipelineKey) -> list[tuple[int, int]]:
        """Returns each version and when it was made, in ms since the epoch; the oldest first."""
        return self._rows.versions(key)

    def definition(self, key: PipelineKey, version: int) -> str | None:
        """Returns the definition of a version, or None."""
        return self._rows.definition(key, version)

    def read_definition(self, principal: Principal, where: S3Uri) -> str:
        """Returns the text of an object. Raises ObjectNotFound, ObjectDamaged, DocumentTooLarge, NotAuthorized."""
        return read_text(self._objects, principal, where)

    def put_tags(self, key: PipelineKey, tags: Mapping[str, str], limit: int) -> Pipeline:
        """Adds all tags or none. Raises PipelineNotFound, TooManyTags."""

        def change(before: Pipeline) -> Pipeline:
            after = {**before.tags, **tags}
            if len(after) > limit:
                raise TooManyTags(limit)
            return replace(before, tags=after)

        return self._rows.change(key, change)

    def delete_tags(self, key: PipelineKey, keys: Sequence[str]) -> None:
        self._rows.change(
            key, lambda before: replace(before, tags={k: v for k, v in before.tags.items() if k not in keys})
        )

    # --- executions -----------------------------------------------------------------------------------------------

    def start(
        self, pipeline: Pipeline, version: int, definition: str, request: JsonObject, who: JsonObject
    ) -> PipelineExecution:
        """Begins an execution of a version and its definition. `request`: a validated StartPipelineExecution body.
        `who`: UserContext of the caller, here and below.

        A second call with the same ClientRequestToken returns the same execution. Raises InvalidDefinition,
        PipelineNotFound.
        """
        values = parse(definition).values(request.get("PipelineParameters", []))
        now_ms = self._clock.now_ms()
        record_id = uuid.uuid5(
            _NAMESPACE, f"{pipeline.key.arn} {pipeline.created_ms} {request['ClientRequestToken']}"
        ).hex
        limit = request.get("ParallelismConfiguration", {}).get("MaxParallelExecutionSteps", pipeline.parallel)
        execution = PipelineExecution(
            pipeline.key.execution(execution_id_of(record_id)),
            record_id,
            request,
            now_ms,
            now_ms,
            definition=definition,
            role=pipeline.role,
            parallel=limit,
            pipeline=pipeline.key.name,
            parameters=values,
            pipeline_version=version,
            created_by=who,
            modified_by=who,
        )
        with self._lock:
            if self._rows.get(pipeline.key).created_ms != pipeline.created_ms:
                raise PipelineNotFound(pipeline.key.arn)
            try:
                self._executions.begin(execution)
            except OrchestrationNameInUse:
                return self._kept.get(execution.key)
            self._rows.change(pipeline.key, lambda before: replace(before, last_run_ms=now_ms))
        return execution

    def execution(self, key: OrchestrationKey) -> PipelineExecution:
        """Raises OrchestrationNotFound."""
        return self._kept.get(key)

    def executions(self, key: PipelineKey) -> list[PipelineExecution]:
        """Returns the executions of a pipeline, the oldest first."""
        return self._kept.below(f"{key.arn}/execution")

    def steps(self, execution: PipelineExecution) -> list[StepRun]:
        """Returns the steps that have begun, in that order."""
        return sorted(self._kept.children(execution.id), key=lambda run: run.begun)

    def maker(self, job: Job) -> PipelineExecution | None:
        """Returns the execution whose step made a job, or None if none did or if it is gone."""
        for execution, _ in self._kept.makers(job.key.account, job.key.region, job.key.name):
            ended_ms = job.created_ms if execution.ended_ms is None else execution.ended_ms
            if execution.created_ms <= job.created_ms <= ended_ms:
                return execution
        return None

    def step_page(
        self, execution: PipelineExecution, after: int | None, limit: int, *, newest_first: bool
    ) -> list[StepRun]:
        """Returns at most `limit` steps in the order in which they began. `after`: `begun` of the last one before."""
        return self._kept.children_page(execution.id, after, limit, newest_first=newest_first)

    def rename(self, key: OrchestrationKey, members: Mapping[str, str], parallel: int | None, who: JsonObject) -> None:
        """Replaces members of the request (name, description) and the limit. Raises OrchestrationNotFound."""

        def renamed(one: PipelineExecution) -> PipelineExecution:
            limit = one.parallel if parallel is None else parallel
            now_ms = max(self._clock.now_ms(), one.modified_ms)
            request = {**one.request, **members}
            return replace(one, request=request, parallel=limit, modified_ms=now_ms, modified_by=who)

        self._change(key, renamed)

    def _change(
        self, key: OrchestrationKey, change: Callable[[PipelineExecution], PipelineExecution]
    ) -> PipelineExecution:
        """Replaces an execution by what `change` makes of it. Raises OrchestrationNotFound."""
        while True:
            before = self._kept.get(key)
            after = change(before)
            if after == before:
                return before
            with suppress(StaleOrchestration):
                return self._kept.update(after)

    def stop(self, key: OrchestrationKey, token: str | None = None, who: JsonObject | None = None) -> None:
        """Asks for a stop. A second call with the same ClientRequestToken changes nothing.

        Raises OrchestrationNotFound, OrchestrationEnded.
        """
        if token is not None:
            # First: an execution that stops at once has ended before a repeated call comes.
            now = self._change(
                key, lambda one: one if one.terminal else replace(one, stop_token=token, modified_by=who or {})
            )
            if now.terminal and now.stop_token == token:
                return
        self._executions.stop(key)

    def retry(
        self, key: OrchestrationKey, parallel: int | None, token: str | None = None, who: JsonObject | None = None
    ) -> None:
        """Begins a failed or stopped execution again, at the steps that did not succeed.

        A second call with the same ClientRequestToken changes nothing. Raises OrchestrationNotFound, IllegalStatus.
        """
        with self._lock:
            while True:
                before = self._kept.get(key)
                if token is not None and before.retry_token == token:
                    return
                limit = parallel or before.parallel
                now = revive(
                    before,
                    self._clock.now_ms(),
                    retries=before.retries + 1,
                    retry_token=token,
                    parallel=limit,
                    modified_by=who or {},
                )
                gone = [run for run in self._kept.children(before.id) if not run.succeeded]
                with suppress(StaleOrchestration):
                    self._kept.update(now, removed=gone)
                    self._watch(before.id)
                    return

    def answer_callback(
        self, account: str, region: str, token: str, outputs: JsonObject | None, reason: str, request_token: str
    ) -> PipelineExecution:
        """Ends the Callback step that waits with a token: with its outputs, or (None) as failed.

        A second call with the same ClientRequestToken (`request_token`) changes nothing. Raises CallbackNotFound,
        CallbackAnswered.
        """
        while True:
            execution, run = self._called_back(account, region, token)
            now_ms, limit_ms = self._clock.now_ms(), expires_ms("Callback", run)
            if request_token and run.answer_token == request_token:
                return execution
            if limit_ms is None or now_ms >= limit_ms:
                raise CallbackAnswered(token)
            status = StepStatus.FAILED if outputs is None else StepStatus.SUCCEEDED
            ended = retrying.ended(run, status, now_ms, failure_reason=reason or None)
            ended = replace(ended, properties={"OutputParameters": outputs or {}}, answer_token=request_token)
            with suppress(StaleOrchestration):
                self._kept.update(execution, [ended])
                return execution

    def _called_back(self, account: str, region: str, token: str) -> tuple[PipelineExecution, StepRun]:
        for execution, run in self._kept.makers(account, region, token):
            if parse(execution.definition).steps[run.name].type == "Callback":
                return execution, run
        for execution, run in self._being_called(account, region):
            if suffix(execution, run, TOKEN_LENGTH) == token:
                return execution, replace(run, state=StepState.RUNNING, status=StepStatus.EXECUTING, made=token)
        raise CallbackNotFound(token)

    def _being_called(self, account: str, region: str) -> Iterator[tuple[PipelineExecution, StepRun]]:
        """Yields Callback steps whose message may be out although that is not recorded yet."""
        for execution in self._kept.unfinished(account, region):
            steps = parse(execution.definition).steps
            for run in self._kept.children(execution.id):
                if run.state is StepState.PLANNED and steps[run.name].type == "Callback":
                    yield execution, run


def _with(pipeline: Pipeline, version: int, aliases: Sequence[str]) -> Mapping[str, int]:
    """Returns the pipeline's aliases with these of a version. Raises AliasTaken."""
    if taken := sorted(name for name in aliases if pipeline.aliases.get(name, version) != version):
        raise AliasTaken(", ".join(taken))
    return {**pipeline.aliases, **dict.fromkeys(aliases, version)}
