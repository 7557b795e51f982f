"""Search with Resource=TrainingJob or HyperParameterTuningJob. The expression is typed and checked, the engine
searches, and records are the answer.

The rules are in the service model's documentation (shapes Filter, NestedFilters, SearchExpression).
"""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

from sagelet_api.protocol import page_tokens
from sagelet_api.protocol.aws_errors import ValidationException
from sagelet_api.protocol.members import Output, Parameters, Request
from sagelet_api.protocol.operations import Context
from sagelet_api.protocol.validation import rule_book
from sagelet_api.services.sagemaker import training_view, tuning_view
from sagelet_api.services.sagemaker.search_properties import TRAINING_JOBS, TUNING_JOBS, Properties
from sagelet_engine.engine import Engine
from sagelet_engine.model import aws_texts
from sagelet_engine.model.search import (
    AnyItem,
    Condition,
    Found,
    Group,
    JobSearch,
    Kind,
    Operator,
    Property,
    Scalar,
    SearchCursor,
    SearchPage,
    Term,
)
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.tuning import TuningJob

#: The resources that sagelet searches.
OURS = {"TrainingJob": TRAINING_JOBS, "HyperParameterTuningJob": TUNING_JOBS}
#: Resources that sagelet keeps and does not search: moto, which answers for the others, has none of them.
NOT_SEARCHED = {
    "Pipeline": "ListPipelines",
    "PipelineExecution": "ListPipelineExecutions",
    "ModelPackage": "ListModelPackages",
    "ModelPackageGroup": "ListModelPackageGroups",
    "Model": "ListModels",
}
#: Conditions and expressions in one request (shape SearchRequest).
MAX_PARTS = 50
_ORDERINGS = (
    Operator.GREATER_THAN,
    Operator.GREATER_THAN_OR_EQUAL_TO,
    Operator.LESS_THAN,
    Operator.LESS_THAN_OR_EQUAL_TO,
)
_EQUALITIES = (Operator.EQUALS, Operator.NOT_EQUALS)
_TEXTUAL = (Operator.CONTAINS, Operator.IN)
_EXISTENCE = (Operator.EXISTS, Operator.NOT_EXISTS)
#: The operators of each kind of property.
_ALLOWED = {
    Kind.TEXT: (*_EQUALITIES, *_TEXTUAL, *_EXISTENCE),
    Kind.PARAMETER: tuple(Operator),
    Kind.NUMBER: (*_EQUALITIES, *_ORDERINGS, *_EXISTENCE),
    Kind.TIME: (*_EQUALITIES, *_ORDERINGS, *_EXISTENCE),
    Kind.BOOLEAN: (*_EQUALITIES, *_EXISTENCE),
    Kind.GROUP: _EXISTENCE,
}


def is_ours(_context: Context, parameters: Parameters) -> bool:
    """True if the resource is a training job or a tuning job. moto has the other resources of the model; a resource of
    neither, one that is not searched, and what is not text, is refused here.
    """
    resource = parameters.get("Resource")
    return (
        not isinstance(resource, str)
        or resource in OURS
        or resource in NOT_SEARCHED
        or resource not in rule_book("sagemaker").shape("ResourceType").enum
    )


def check_searched(resource: str) -> None:
    """Raises ValidationException for a resource that is not searched. An empty answer would say that there is none."""
    if resource in NOT_SEARCHED:
        raise ValidationException(f"sagelet does not search resources of type {resource}: use {NOT_SEARCHED[resource]}")


class Search:
    """The handler of Search."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def search(self, context: Context, request: Request) -> Output:
        if request.get("CrossAccountFilterOption") == "CrossAccount":
            return _answer([], 0)  # Nobody shares jobs with this account.
        resource = request["Resource"]
        check_searched(resource)
        query = job_search(context, request, OURS[resource])
        if resource == "TrainingJob":
            return self._page(context, request, self._engine.jobs.search(query), self._training_job)
        return self._page(context, request, self._engine.tuning.search(query), self._tuning_job)

    def _page(
        self, context: Context, request: Request, page: SearchPage[Found], record: Callable[[Found], Output]
    ) -> Output:
        members = OURS[request["Resource"]].members
        records = []
        for job in page.jobs:
            # What the Describe call shows, without the members that Search does not have, and the tags.
            shown = {name: value for name, value in record(job).items() if name in members}
            if job.tags:
                shown["Tags"] = [{"Key": key, "Value": value} for key, value in job.tags.items()]
            records.append({request["Resource"]: shown})
        answer = _answer(records, page.total)
        if page.next is not None:
            answer["NextToken"] = page_tokens.encode(
                page_tokens.fingerprint(context, request), page.next.value, page.next.job_id
            )
        return answer

    def _training_job(self, job: TrainingJob) -> Output:
        return training_view.describe(job, self._engine.metrics.final(job))

    def _tuning_job(self, job: TuningJob) -> Output:
        return tuning_view.describe(job, self._engine.now_ms())


def _answer(records: list[Output], total: int) -> Output:
    return {"Results": records, "TotalHits": {"Value": total, "Relation": "EqualTo"}}


def job_search(context: Context, request: Request, properties: Properties = TRAINING_JOBS) -> JobSearch:
    """Returns a search for records with these properties. Raises ValidationException."""
    parse = _Parser(properties)
    expression = request.get("SearchExpression")
    if expression is not None:
        _check_limits(expression)
    visible = [parse.condition({"Name": one["Key"], "Value": one.get("Value", "")}) for one in _visibility(request)]
    where = Group((*visible, *([] if expression is None else [parse.group(expression)])))
    sort_by = properties.resolve(request.get("SortBy", "LastModifiedTime"))
    if len(sort_by.segments) > 1 or sort_by.kind is Kind.GROUP:
        raise ValidationException(f"SortBy {request['SortBy']} is not a single value of a {properties.noun}")
    return JobSearch(
        context.account,
        context.region,
        where,
        sort_by,
        ascending=request.get("SortOrder", "Descending") == "Ascending",
        # AWS documents no default. This is the default of ListTrainingJobs.
        limit=request.get("MaxResults", 10),
        after=_cursor(context, request),
    )


# --- expressions ------------------------------------------------------------------------------------------------------


def _check_limits(expression: Request) -> None:
    parts = list(_parts(expression))
    if len(parts) > MAX_PARTS:
        raise ValidationException(
            f"A SearchExpression can contain up to {MAX_PARTS} SubExpressions, NestedFilters, and Filters; "
            f"this one has {len(parts)}"
        )
    if sum(part.get("Operator") == "Contains" for part in parts) > 1:
        raise ValidationException("'CONTAINS' operator usage limit of 1 exceeded.")


def _parts(expression: Request) -> Iterator[Request]:
    """Yields all filters, nested filters and expressions in an expression."""
    yield from expression.get("Filters", [])
    for nested in expression.get("NestedFilters", []):
        yield nested
        yield from nested["Filters"]
    for inner in expression.get("SubExpressions", []):
        yield inner
        yield from _parts(inner)


@dataclass(frozen=True)
class _Parser:
    """Reads expressions about records with these properties."""

    properties: Properties

    def group(self, expression: Request) -> Group:
        terms: tuple[Term, ...] = (
            *(self.condition(one) for one in expression.get("Filters", [])),
            *(self._any_item(one) for one in expression.get("NestedFilters", [])),
            *(self.group(one) for one in expression.get("SubExpressions", [])),
        )
        if not terms:
            raise ValidationException(
                "A SearchExpression must have at least one subexpression, filter, or nested filter"
            )
        return Group(terms, every=expression.get("Operator", "And") == "And")

    def _any_item(self, nested: Request) -> AnyItem:
        path = self.properties.resolve_list(nested["NestedPropertyName"])
        conditions = (_typed(self.properties.within(one["Name"], path), one) for one in nested["Filters"])
        return AnyItem(path, tuple(conditions))

    def condition(self, one: Request) -> Condition:
        return _typed(self.properties.resolve(one["Name"]), one)


def _typed(wanted: Property, one: Request) -> Condition:
    operator = Operator(one.get("Operator", "Equals"))
    if operator not in _ALLOWED[wanted.kind]:
        raise ValidationException(f"The operator {operator.value} is not supported for the property {one['Name']}")
    if operator in _EXISTENCE:
        return Condition(wanted, operator)
    if "Value" not in one:
        raise ValidationException(f"The filter {one['Name']} {operator.value} needs a Value")
    text = one["Value"]
    if operator is Operator.IN:
        return Condition(wanted, operator, tuple(part.strip() for part in text.split(",")))
    value = _value(wanted.kind, text, operator)
    if value is None:
        raise ValidationException(f"The Value {text!r} of the filter {one['Name']} is not {_WORDS[wanted.kind]}")
    return Condition(wanted, operator, value)


def _visibility(request: Request) -> list[Request]:
    for one in request.get("VisibilityConditions", []):
        if not one.get("Key", "").startswith("Tags."):
            raise ValidationException("The Key of a visibility condition must have the form Tags.<key>")
    return list(request.get("VisibilityConditions", []))


# --- values -----------------------------------------------------------------------------------------------------------

_WORDS = {
    Kind.PARAMETER: "a number, which this operator needs",
    Kind.NUMBER: "a number",
    Kind.BOOLEAN: "true or false",
    Kind.TIME: "a time of the form YYYY-mm-dd'T'HH:MM:SS",
}


def _value(kind: Kind, text: str, operator: Operator) -> Scalar | None:
    """Returns the value in the type of the kind, or None if it is not of that type."""
    if kind is Kind.BOOLEAN:
        return {"true": 1, "false": 0}.get(text.lower())
    if kind is Kind.TIME:
        return _milliseconds(text)
    if kind is Kind.NUMBER or (kind is Kind.PARAMETER and operator in _ORDERINGS):
        number = _number(text)
        return text if number is not None and kind is Kind.PARAMETER else number
    return text


def _number(text: str) -> int | float | None:
    try:
        number = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    if isinstance(number, int) and -(2**63) <= number < 2**63:
        return number
    return float(text) if math.isfinite(float(text)) else None


def _milliseconds(text: str) -> int | None:
    try:
        time = datetime.fromisoformat(text.removesuffix("Z"))
        return round((time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


# --- pages ------------------------------------------------------------------------------------------------------------


def _cursor(context: Context, request: Request) -> SearchCursor | None:
    if "NextToken" not in request:
        return None
    values = page_tokens.decode(request["NextToken"], str, (str, int, float, type(None)), str)
    if values is None or values[0] != page_tokens.fingerprint(context, request):
        raise ValidationException(aws_texts.BAD_TOKEN)
    return SearchCursor(*values[1:])
