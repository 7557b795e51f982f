"""The operations of pipelines and their executions. The engine's orchestrator runs the executions.

Code and text of AWS's error for a name that is taken are what SDK v2's `Pipeline.upsert` looks for. Texts for which no
source is named are sagelet's.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from sagelet_api.protocol import page_tokens
from sagelet_api.protocol.aws_errors import (
    ConflictException,
    ResourceNotFound,
    ValidationException,
)
from sagelet_api.protocol.members import Output, Request
from sagelet_api.protocol.operations import Context, Operations
from sagelet_api.protocol.shapes import NOT_NULL
from sagelet_api.protocol.validation import constraint_error, validation_errors
from sagelet_api.services.sagemaker import pipeline_versions as versions
from sagelet_api.services.sagemaker import pipeline_view
from sagelet_api.services.sagemaker.job_operations import RoleCheck
from sagelet_api.services.sagemaker.pipeline_shapes import check_shapes
from sagelet_api.services.sagemaker.tags import MAX_TAGS, Taggable, Tags, tags_of
from sagelet_api.services.sagemaker.user_context import WhoCalls
from sagelet_engine.base.errors import (
    AliasNotFound,
    AliasTaken,
    OrchestrationEnded,
    OrchestrationNotFound,
    PipelineInUse,
    PipelineNameInUse,
    PipelineNotFound,
)
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.engine import Engine
from sagelet_engine.model import aws_texts
from sagelet_engine.model.arns import resource_in
from sagelet_engine.model.objects import ObjectDamaged, ObjectNotFound, S3Uri
from sagelet_engine.model.orchestration import IllegalStatus, OrchestrationKey
from sagelet_engine.model.pipeline import Pipeline, PipelineExecution, PipelineKey
from sagelet_engine.pipelines.checking import check
from sagelet_engine.pipelines.definition import InvalidDefinition, parse
from sagelet_engine.pipelines.documents import DocumentTooLarge
from sagelet_engine.pipelines.facet import CallbackAnswered, CallbackNotFound

T = TypeVar("T")
V = TypeVar("V", str, int)
#: Defaults of MaxResults and SortOrder.
_PAGE, _NEWEST_FIRST = 100, "Descending"
#: Resources of ARNs.
_EXECUTION = re.compile(r"pipeline/([^/]+)/execution/([^/]+)")
_PIPELINE = re.compile(r"pipeline/([^/]+)", re.IGNORECASE)


class PipelineOperations:
    """Handlers. Each takes the call and its validated request, and returns the members of the answer."""

    def __init__(self, engine: Engine, who: WhoCalls, may_assume: RoleCheck) -> None:
        self._engine = engine
        self._who = who
        self._pipelines = engine.pipelines
        self._may_assume = may_assume

    # --- pipelines ------------------------------------------------------------------------------------------------

    def create(self, context: Context, request: Request) -> Output:
        key = PipelineKey(context.account, context.region, request["PipelineName"])
        self._check_role(context, request["RoleArn"])
        definition = self._definition(context, request)
        if definition is None:
            raise ValidationException("Give PipelineDefinition or PipelineDefinitionS3Location")
        tags = tags_of(request)
        aliases = dict.fromkeys(versions.aliases(request.get("PipelineVersionAliases", [])), 1)
        who = self._who(context)
        more = {**_changes(request), "token": request["ClientRequestToken"], "aliases": aliases}
        more |= {"created_by": who, "modified_by": who}
        try:
            check_shapes(check(definition))
            pipeline = self._pipelines.create(key, definition, request["RoleArn"], tags, more)
        except PipelineNameInUse as error:
            before = self._get(key)
            if before.key == key and before.token == more["token"]:
                # AWS's SDKs repeat a call whose answer was lost.
                return {"PipelineArn": key.arn}
            raise ValidationException(
                "Pipeline names must be unique within an AWS account and region. "
                f"Pipeline with name ({key.name}) already exists."
            ) from error
        except InvalidDefinition as error:
            raise _invalid(error) from error
        return {"PipelineArn": pipeline.key.arn}

    def update(self, context: Context, request: Request) -> Output:
        key = PipelineKey(context.account, context.region, request["PipelineName"])
        changes = {**_changes(request), "modified_by": self._who(context)}
        if "RoleArn" in request:
            self._check_role(context, request["RoleArn"])
            changes["role"] = request["RoleArn"]
        self._get(key)
        definition = self._definition(context, request)
        aliases = versions.aliases(request.get("PipelineVersionAliases", []))
        if aliases and definition is None:
            raise ValidationException(versions.ALIASES_OF_AN_OLD_VERSION)
        try:
            if definition is not None:
                check_shapes(check(definition))
            pipeline = self._pipelines.update(context.principal, key, definition, changes, aliases)
        except PipelineNotFound as error:
            raise _no_pipeline(key.arn) from error
        except AliasTaken as error:
            raise versions.taken(error) from error
        except InvalidDefinition as error:
            raise _invalid(error) from error
        return {"PipelineArn": pipeline.key.arn, "PipelineVersionId": pipeline.version}

    def describe(self, context: Context, request: Request) -> Output:
        pipeline = self._get(_named(context, request["PipelineName"]))
        return pipeline_view.describe(pipeline, *self._version(pipeline, request))

    def list(self, context: Context, request: Request) -> Output:
        rows = [
            one
            for one in self._pipelines.every(context.account, context.region)
            # All pipelines are the customer's.
            if request.get("ManagedBy") != "AWS"
            and one.key.name.startswith(request.get("PipelineNamePrefix", ""))
            and _is_between(request, "CreatedAfter", "CreatedBefore", one.created_ms)
        ]
        by_name = request.get("SortBy", "CreationTime") == "Name"
        rows.sort(key=lambda one: (one.key.name.lower(), "") if by_name else (one.created_ms, one.key.arn))
        shown, token = _page(context, request, rows, lambda one: one.key.arn)
        return {"PipelineSummaries": [pipeline_view.summary(one) for one in shown], **token}

    def delete(self, context: Context, request: Request) -> Output:
        key = PipelineKey(context.account, context.region, request["PipelineName"])
        try:
            self._pipelines.delete(key, request["ClientRequestToken"])
        except PipelineNotFound as error:
            raise _no_pipeline(key.arn) from error
        except PipelineInUse as error:
            raise ConflictException(f"Pipeline {key.arn} has executions that run. Stop them first.") from error
        return {"PipelineArn": key.arn}

    def list_versions(self, context: Context, request: Request) -> Output:
        pipeline = self._get(_named(context, request["PipelineName"]))
        rows = [
            row
            for row in self._pipelines.versions(pipeline.key)
            if _is_between(request, "CreatedAfter", "CreatedBefore", row[1])
        ]
        shown, token = _page(context, request, rows, lambda row: str(row[0]))
        last = {one.pipeline_version: one for one in self._pipelines.executions(pipeline.key)}
        summaries = [
            pipeline_view.version_summary(pipeline, version, created_ms, last.get(version))
            for version, created_ms in shown
        ]
        return {"PipelineVersionSummaries": summaries, **token}

    def update_version(self, context: Context, request: Request) -> Output:
        pipeline = self._get(_named(context, request["PipelineArn"]))
        version, _ = self._version(pipeline, request)
        names = ("PipelineVersionDisplayName", "PipelineVersionDescription")
        notes = {name: request[name] for name in names if name in request}
        changes = request.get("PipelineVersionAliasOperations", {})
        add = versions.aliases(changes.get("Add", []))
        try:
            self._pipelines.update_version(pipeline.key, version, notes, add, changes.get("Remove", []))
        except AliasTaken as error:
            raise versions.taken(error) from error
        except AliasNotFound as error:
            raise ResourceNotFound(f"Version {version} of {pipeline.key.arn} has no alias {error}.") from error
        return {"PipelineArn": pipeline.key.arn, "PipelineVersionId": version}

    # --- executions -----------------------------------------------------------------------------------------------

    def start(self, context: Context, request: Request) -> Output:
        pipeline = self._get(_named(context, request["PipelineName"]))
        if "RoleArn" in request:
            raise ValidationException(versions.NO_ROLE)
        self._check_role(context, pipeline.role)
        version, definition = self._version(pipeline, request)
        try:
            whole = self._with_selection(context, pipeline, definition, request)
            execution = self._pipelines.start(pipeline, version, definition, whole, self._who(context))
        except InvalidDefinition as error:
            raise ValidationException(str(error)) from error
        except PipelineNotFound as error:
            raise _no_pipeline(pipeline.key.arn) from error
        return {"PipelineExecutionArn": execution.key.arn}

    def describe_execution(self, context: Context, request: Request) -> Output:
        execution = self._execution(context, request)
        aliases: list[str] = []
        # `sagelet check --repair` may have forgotten the pipeline.
        with suppress(PipelineNotFound):
            aliases = self._pipelines.get(execution.pipeline_key).aliases_of(execution.pipeline_version)
        return pipeline_view.describe_execution(execution, aliases)

    def list_executions(self, context: Context, request: Request) -> Output:
        pipeline = self._get(_named(context, request["PipelineName"]))
        chosen = self._version(pipeline, request)[0] if "PipelineVersionAlias" in request else None
        rows = [
            one
            for one in self._pipelines.executions(pipeline.key)
            if chosen in (None, one.pipeline_version)
            and _is_between(request, "CreatedAfter", "CreatedBefore", one.created_ms)
        ]
        if request.get("SortBy", "CreationTime") == "PipelineExecutionArn":
            rows.sort(key=lambda one: one.key.arn)
        shown, token = _page(context, request, rows, lambda one: one.key.arn)
        summaries = [pipeline_view.execution_summary(one, pipeline.aliases_of(one.pipeline_version)) for one in shown]
        return {"PipelineExecutionSummaries": summaries, **token}

    def list_steps(self, context: Context, request: Request) -> Output:
        execution = self._execution(context, request)
        limit, after = request.get("MaxResults", _PAGE), _continued(context, request, int)
        newest_first = request.get("SortOrder", _NEWEST_FIRST) == _NEWEST_FIRST
        runs = self._pipelines.step_page(execution, after, limit + 1, newest_first=newest_first)
        shown = runs[:limit]
        more = _next(context, request, shown[-1].begun) if len(runs) > limit else {}
        return {"PipelineExecutionSteps": [pipeline_view.step(execution, run) for run in shown], **more}

    def list_parameters(self, context: Context, request: Request) -> Output:
        execution = self._execution(context, request)
        texts = {one["Name"]: one["Value"] for one in execution.request.get("PipelineParameters", [])}
        rows = [(name, texts.get(name, _text(value))) for name, value in execution.parameters.items()]
        shown, token = _page(context, {**request, "SortOrder": "Ascending"}, rows, lambda row: row[0])
        return {"PipelineParameters": [{"Name": name, "Value": value} for name, value in shown], **token}

    def describe_definition(self, context: Context, request: Request) -> Output:
        execution = self._execution(context, request)
        return {"PipelineDefinition": execution.definition, "CreationTime": execution.created_ms / 1000}

    def update_execution(self, context: Context, request: Request) -> Output:
        key = self._execution(context, request).key
        members = ("PipelineExecutionDisplayName", "PipelineExecutionDescription")
        named = {name: request[name] for name in members if name in request}
        limit = request.get("ParallelismConfiguration", {}).get("MaxParallelExecutionSteps")
        with _existing(key.arn):
            self._pipelines.rename(key, named, limit, self._who(context))
        return {"PipelineExecutionArn": key.arn}

    def stop(self, context: Context, request: Request) -> Output:
        execution = self._execution(context, request)
        try:
            with _existing(execution.key.arn):
                self._pipelines.stop(execution.key, request["ClientRequestToken"], self._who(context))
        except OrchestrationEnded as error:
            status = pipeline_view.STATUSES[self._execution(context, request).status]
            raise ConflictException(f"Pipeline execution {execution.key.arn} is in status {status}.") from error
        return {"PipelineExecutionArn": execution.key.arn}

    def retry(self, context: Context, request: Request) -> Output:
        execution = self._execution(context, request)
        try:
            limit = request.get("ParallelismConfiguration", {}).get("MaxParallelExecutionSteps")
            with _existing(execution.key.arn):
                self._pipelines.retry(execution.key, limit, request["ClientRequestToken"], self._who(context))
        except IllegalStatus as error:
            status = pipeline_view.STATUSES[self._execution(context, request).status]
            raise ConflictException(
                f"Pipeline execution {execution.key.arn} is in status {status}; "
                "only one that has failed or was stopped can be retried."
            ) from error
        return {"PipelineExecutionArn": execution.key.arn}

    def send_success(self, context: Context, request: Request) -> Output:
        outputs = {one["Name"]: one["Value"] for one in request.get("OutputParameters", [])}
        return self._answer(context, request, outputs, "")

    def send_failure(self, context: Context, request: Request) -> Output:
        return self._answer(context, request, None, request.get("FailureReason", "The callback failed."))

    def _answer(self, context: Context, request: Request, outputs: Output | None, reason: str) -> Output:
        token, again = request["CallbackToken"], request.get("ClientRequestToken", "")
        try:
            execution = self._pipelines.answer_callback(
                context.account, context.region, token, outputs, reason, request_token=again
            )
        except CallbackNotFound as error:
            raise ResourceNotFound(f"No callback step has the token {token}.") from error
        except CallbackAnswered as error:
            raise ConflictException(f"The callback step with the token {token} does not wait any more.") from error
        return {"PipelineExecutionArn": execution.key.arn}

    # --- tags -------------------------------------------------------------------------------------------------------

    def taggable(self) -> Mapping[str, Taggable]:
        """Returns what the operations on tags need."""
        return {"pipeline": Taggable(self._tags, self._put_tags, self._delete_tags)}

    def _tags(self, context: Context, name: str) -> Tags:
        return self._get(PipelineKey(context.account, context.region, name)).tags

    def _put_tags(self, context: Context, name: str, tags: Tags) -> None:
        key = PipelineKey(context.account, context.region, name)
        try:
            self._pipelines.put_tags(key, tags, MAX_TAGS)
        except PipelineNotFound as error:
            raise _no_pipeline(key.arn) from error

    def _delete_tags(self, context: Context, name: str, keys: Sequence[str]) -> None:
        key = PipelineKey(context.account, context.region, name)
        try:
            self._pipelines.delete_tags(key, keys)
        except PipelineNotFound as error:
            raise _no_pipeline(key.arn) from error

    def operations(self) -> Operations:
        """Returns the operations for the application."""
        return {
            "CreatePipeline": self.create,
            "UpdatePipeline": self.update,
            "DescribePipeline": self.describe,
            "ListPipelines": self.list,
            "DeletePipeline": self.delete,
            "ListPipelineVersions": self.list_versions,
            "UpdatePipelineVersion": self.update_version,
            "StartPipelineExecution": self.start,
            "DescribePipelineExecution": self.describe_execution,
            "ListPipelineExecutions": self.list_executions,
            "ListPipelineExecutionSteps": self.list_steps,
            "ListPipelineParametersForExecution": self.list_parameters,
            "DescribePipelineDefinitionForExecution": self.describe_definition,
            "UpdatePipelineExecution": self.update_execution,
            "StopPipelineExecution": self.stop,
            "RetryPipelineExecution": self.retry,
            "SendPipelineExecutionStepSuccess": self.send_success,
            "SendPipelineExecutionStepFailure": self.send_failure,
        }

    # --- what requests name -----------------------------------------------------------------------------------------

    def _definition(self, context: Context, request: Request) -> str | None:
        if "PipelineDefinition" in request:
            return str(request["PipelineDefinition"])
        where = request.get("PipelineDefinitionS3Location")
        if where is None:
            return None
        if "VersionId" in where:
            raise ValidationException(versions.NO_OBJECT_VERSIONS)
        uri = S3Uri(where["Bucket"], where["ObjectKey"])
        try:
            return self._pipelines.read_definition(context.principal, uri)
        except ObjectNotFound as error:
            raise ValidationException(f"The pipeline definition {uri} does not exist.") from error
        except (ObjectDamaged, DocumentTooLarge) as error:
            raise ValidationException(f"The pipeline definition {uri} cannot be read: {error}") from error

    def _version(self, pipeline: Pipeline, request: Request) -> tuple[int, str]:
        """Returns the version that a request means, and its definition.

        Raises ResourceNotFound, ValidationException.
        """
        version = versions.meant(pipeline, request)
        definition = self._pipelines.definition(pipeline.key, version)
        if definition is None:
            raise ResourceNotFound(f"Pipeline {pipeline.key.arn} has no version {version}.")
        return version, definition

    def _with_selection(self, context: Context, pipeline: Pipeline, definition: str, request: Request) -> JsonObject:
        """Returns the request with the source of its SelectiveExecutionConfig. Raises ValidationException."""
        config = request.get("SelectiveExecutionConfig")
        if config is None:
            return {**request}
        steps = parse(definition).steps
        for name in (one["StepName"] for one in config["SelectedSteps"]):
            if name not in steps:
                raise ValidationException(f"SelectiveExecutionConfig names the step {name}, which the pipeline lacks.")
        if "SourcePipelineExecutionArn" not in config:
            done = [one for one in self._pipelines.executions(pipeline.key) if one.terminal]
            if not done:
                raise ValidationException("SelectiveExecutionConfig needs an earlier execution, and there is none.")
            chosen = {**config, "SourcePipelineExecutionArn": done[-1].key.arn}
            return {**request, "SelectiveExecutionConfig": chosen}
        source = self._execution(context, {"PipelineExecutionArn": config["SourcePipelineExecutionArn"]})
        if source.pipeline_key.arn != pipeline.key.arn:
            raise ValidationException("SourcePipelineExecutionArn must be an execution of the same pipeline.")
        if not source.terminal:
            raise ValidationException(f"The source execution {source.key.arn} has not ended.")
        return {**request}

    def _check_role(self, context: Context, role: str) -> None:
        if not self._may_assume(context.account, role):
            raise ValidationException(aws_texts.role_not_assumable(role))

    def _get(self, key: PipelineKey) -> Pipeline:
        try:
            return self._pipelines.get(key)
        except PipelineNotFound as error:
            raise _no_pipeline(key.arn) from error

    def _execution(self, context: Context, request: Request) -> PipelineExecution:
        arn = request.get("PipelineExecutionArn")
        if arn is None:
            # The model of ListPipelineExecutionSteps does not require it.
            raise validation_errors([constraint_error("pipelineExecutionArn", None, NOT_NULL)])
        found = _EXECUTION.fullmatch(resource_in(arn, "sagemaker", context.region, context.account) or "")
        with _existing(arn):
            if found is None:
                raise OrchestrationNotFound(arn)
            key: OrchestrationKey = PipelineKey(context.account, context.region, found[1]).execution(found[2])
            return self._pipelines.execution(key)


@contextmanager
def _existing(arn: str) -> Iterator[None]:
    """Answers for an execution that does not exist, or that was deleted meanwhile."""
    try:
        yield
    except OrchestrationNotFound as error:
        raise ResourceNotFound(f"Pipeline execution '{arn}' does not exist.") from error


def _named(context: Context, name: str) -> PipelineKey:
    """Returns the key of a pipeline by its name or ARN. Raises ResourceNotFound for an ARN of elsewhere."""
    if not name.startswith("arn:"):
        return PipelineKey(context.account, context.region, name)
    found = _PIPELINE.fullmatch(resource_in(name, "sagemaker", context.region, context.account) or "")
    if found is None:
        raise _no_pipeline(name)
    return PipelineKey(context.account, context.region, found[1])


def _no_pipeline(arn: str) -> ResourceNotFound:
    return ResourceNotFound(f"Pipeline '{arn}' does not exist.")


def _invalid(error: InvalidDefinition) -> ValidationException:
    return ValidationException(f"Unable to parse pipeline definition. {error}")


def _changes(request: Request) -> JsonObject:
    names = {"PipelineDisplayName": "display_name", "PipelineDescription": "description"}
    changes = {field: request[name] for name, field in names.items() if name in request}
    if "ParallelismConfiguration" in request:
        changes["parallel"] = request["ParallelismConfiguration"]["MaxParallelExecutionSteps"]
    return changes


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_between(request: Request, after: str, before: str, time_ms: int) -> bool:
    low, high = request.get(after), request.get(before)
    return (low is None or time_ms > low * 1000) and (high is None or time_ms < high * 1000)


def _page(
    context: Context, request: Request, rows: Sequence[T], name: Callable[[T], str]
) -> tuple[Sequence[T], Output]:
    """Sorts (the default is AWS's, newest first) and cuts. Returns the page, and NextToken if there is more.

    `name`: a text by which a row is found again.
    """
    ordered = [*reversed(rows)] if request.get("SortOrder", _NEWEST_FIRST) == _NEWEST_FIRST else [*rows]
    if (last := _continued(context, request, str)) is not None:
        names = [name(row) for row in ordered]
        ordered = ordered[names.index(last) + 1 :] if last in names else []
    limit = request.get("MaxResults", _PAGE)
    if len(ordered) <= limit:
        return ordered, {}
    return ordered[:limit], _next(context, request, name(ordered[limit - 1]))


def _continued(context: Context, request: Request, kind: type[V]) -> V | None:
    """Returns by what the last row of the page before is found. None for the first page. Raises ValidationException."""
    if "NextToken" not in request:
        return None
    values = page_tokens.decode(request["NextToken"], str, kind)
    if values is None or values[0] != page_tokens.fingerprint(context, request):
        raise ValidationException(aws_texts.BAD_TOKEN)
    last: V = values[1]
    return last


def _next(context: Context, request: Request, last: str | int) -> Output:
    return {"NextToken": page_tokens.encode(page_tokens.fingerprint(context, request), last)}
