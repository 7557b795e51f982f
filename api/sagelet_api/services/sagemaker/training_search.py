"""Search with Resource=TrainingJob. The expression is typed and checked, the engine searches, and records are the
answer.

The rules are in the service model's documentation (shapes Filter, NestedFilters, SearchExpression).
"""

import json
import math
from collections.abc import Iterator
from datetime import datetime, timezone

from sagelet_api.protocol import page_tokens
from sagelet_api.protocol.aws_errors import ValidationException
from sagelet_api.protocol.members import Output, Parameters, Request
from sagelet_api.protocol.operations import Context
from sagelet_api.protocol.validation import rule_book
from sagelet_api.services.sagemaker import training_view
from sagelet_api.services.sagemaker.search_properties import members, resolve, resolve_list, within
from sagelet_engine.engine import Engine
from sagelet_engine.model import aws_texts
from sagelet_engine.model.search import (
    AnyItem,
    Condition,
    Group,
    JobSearch,
    Kind,
    Operator,
    Property,
    Scalar,
    SearchCursor,
    Term,
)
from sagelet_engine.model.training import TrainingJob

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
    """True if the resource is a training job. moto has the other resources of the model; a resource of neither is
    refused here.
    """
    resource = parameters.get("Resource")
    return resource == "TrainingJob" or resource not in rule_book("sagemaker").shape("ResourceType").enum


class TrainingSearch:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def search(self, context: Context, request: Request) -> Output:
        if request.get("CrossAccountFilterOption") == "CrossAccount":
            return _answer([], 0)  # Nobody shares training jobs with this account.
        query = job_search(context, request)
        page = self._engine.jobs.search(query)
        records = [{"TrainingJob": self._record(job)} for job in page.jobs]
        answer = _answer(records, page.total)
        if page.next is not None:
            answer["NextToken"] = page_tokens.encode(
                page_tokens.fingerprint(request), page.next.value, page.next.job_id
            )
        return answer

    def _record(self, job: TrainingJob) -> Output:
        """Returns the shape TrainingJob: what DescribeTrainingJob shows, without its newest members, and the tags."""
        shown = training_view.describe(job, self._engine.metrics.final(job))
        record = {name: value for name, value in shown.items() if name in members()}
        if job.tags:
            record["Tags"] = [{"Key": key, "Value": value} for key, value in job.tags.items()]
        return record


def _answer(records: list[Output], total: int) -> Output:
    return {"Results": records, "TotalHits": {"Value": total, "Relation": "EqualTo"}}


def job_search(context: Context, request: Request) -> JobSearch:
    expression = request.get("SearchExpression")
    if expression is not None:
        _check_limits(expression)
    visible = [_condition({"Name": one["Key"], "Value": one.get("Value", "")}) for one in _visibility(request)]
    where = Group((*visible, *([] if expression is None else [_group(expression)])))
    sort_by = resolve(request.get("SortBy", "LastModifiedTime"))
    if len(sort_by.segments) > 1 or sort_by.kind is Kind.GROUP:
        raise ValidationException(f"SortBy {request['SortBy']} is not a single value of a training job")
    return JobSearch(
        context.account,
        context.region,
        where,
        sort_by,
        ascending=request.get("SortOrder", "Descending") == "Ascending",
        # AWS documents no default. This is the default of ListTrainingJobs.
        limit=request.get("MaxResults", 10),
        after=_cursor(request),
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


def _group(expression: Request) -> Group:
    terms: tuple[Term, ...] = (
        *(_condition(one) for one in expression.get("Filters", [])),
        *(_any_item(one) for one in expression.get("NestedFilters", [])),
        *(_group(one) for one in expression.get("SubExpressions", [])),
    )
    if not terms:
        raise ValidationException("A SearchExpression must have at least one subexpression, filter, or nested filter")
    return Group(terms, every=expression.get("Operator", "And") == "And")


def _any_item(nested: Request) -> AnyItem:
    path = resolve_list(nested["NestedPropertyName"])
    return AnyItem(path, tuple(_typed(within(one["Name"], path), one) for one in nested["Filters"]))


def _condition(one: Request) -> Condition:
    return _typed(resolve(one["Name"]), one)


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


def _cursor(request: Request) -> SearchCursor | None:
    if "NextToken" not in request:
        return None
    values = page_tokens.decode(request["NextToken"], str, (str, int, float, type(None)), str)
    if values is None or values[0] != page_tokens.fingerprint(request):
        raise ValidationException(aws_texts.BAD_TOKEN)
    return SearchCursor(*values[1:])
