"""The SQL of ListTrainingJobs, Search and GetSearchSuggestions.

ListTrainingJobs has filters, an order, and where to continue. Search has conditions on columns, on the record's JSON,
on tags and on metric points. Suggestions are the hyperparameters, tags and metrics that the jobs of a region have.

Every value from outside is a parameter, never a part of the text.
"""

import json
from typing import Any, NamedTuple

from sagelet_engine.model.job import JobKind
from sagelet_engine.model.listing import Cursor, JobPage, JobQuery, Record, SortBy
from sagelet_engine.model.search import AnyItem, Condition, Group, JobSearch, Kind, Operator, Property, Term

#: Both terms are needed: the index `jobs_by_warm_pool` holds only the jobs that have a warm pool.
HAS_WARM_POOL = (
    "json_extract(record, '$.warm_pool.status') IS NOT NULL AND json_extract(record, '$.warm_pool.status') = ?"
)

_SORT_COLUMNS = {SortBy.NAME: "name", SortBy.CREATION_TIME: "created_ms", SortBy.STATUS: "status"}


def page(query: JobQuery, kind: str) -> tuple[str, tuple[Any, ...]]:
    """Returns the clauses after `FROM jobs` for one job more than the page has, and their parameters. `kind`: the value
    of that column.
    """
    column = _SORT_COLUMNS[query.sort_by]
    filters = [(clause, value) for clause, value in _filters(query, kind) if value is not None]
    where = " AND ".join(clause for clause, _ in filters)
    parameters = [value for _, value in filters]
    order, beyond = ("ASC", ">") if query.ascending else ("DESC", "<")
    if query.after is not None:
        where += f" AND ({column}, id) {beyond} (?, ?)"
        parameters += [query.after.value, query.after.job_id]
    return f"WHERE {where} ORDER BY {column} {order}, id {order} LIMIT ?", (*parameters, query.limit + 1)


def cut(jobs: list[Record], query: JobQuery) -> JobPage[Record]:
    """Cuts the jobs that `page` found to a page."""
    if len(jobs) <= query.limit:
        return JobPage(jobs, None)
    return JobPage(jobs[: query.limit], _cursor(jobs[query.limit - 1], query.sort_by))


def _cursor(job: Record, sort_by: SortBy) -> Cursor:
    """Returns the place after a job."""
    values: dict[SortBy, str | int] = {
        SortBy.NAME: job.key.name,
        SortBy.CREATION_TIME: job.created_ms,
        SortBy.STATUS: job.status.value,
    }
    return Cursor(values[sort_by], job.id)


def _filters(query: JobQuery, kind: str) -> list[tuple[str, Any]]:
    return [
        ("account = ?", query.account),
        ("region = ?", query.region),
        ("kind = ?", kind),
        ("created_ms > ?", query.created_after_ms),
        ("created_ms < ?", query.created_before_ms),
        ("modified_ms > ?", query.modified_after_ms),
        ("modified_ms < ?", query.modified_before_ms),
        ("instr(lower(name), ?)", query.name_contains.lower() if query.name_contains else None),
        ("status = ?", query.status.value if query.status else None),
        ("json_extract(record, '$.request.ResourceConfig.TrainingPlanArn') = ?", query.training_plan_arn),
        (HAS_WARM_POOL, query.warm_pool.value if query.warm_pool else None),
    ]


_NAMES = """
    WITH mine AS (SELECT id FROM jobs WHERE account = ? AND region = ? AND kind = ?), names AS (
        SELECT 'HyperParameters.' || name AS name FROM hyperparameters JOIN mine ON id = job_id
        UNION SELECT 'Tags.' || key FROM tags JOIN mine ON id = job_id
        UNION SELECT 'Metrics.' || name FROM metric_points JOIN mine ON id = job_id
    )
    SELECT name FROM names WHERE substr(name, 1, length(?)) = ? ORDER BY name LIMIT ?
"""


def names(account: str, region: str, beginning: str, limit: int) -> tuple[str, tuple[Any, ...]]:
    """Returns a query for the names that begin with `beginning`, in order, and its parameters."""
    return _NAMES, (account, region, JobKind.TRAINING.value, beginning, beginning, limit)


O = Operator  # noqa: E741 - read as often as a name of a type


class Sql(NamedTuple):
    """SQL text with a question mark for each parameter."""

    text: str
    parameters: tuple[Any, ...] = ()


class Item(NamedTuple):
    """An item of a list within a statement: a JSON value, or a row with a column for each of its members."""

    alias: str
    has_columns: bool


#: Properties that are not members of the CreateTrainingJob body.
_OWN: dict[tuple[str, ...], str] = {
    ("TrainingJobName",): "name",
    ("TrainingJobArn",): "arn",
    ("TrainingJobStatus",): "status",
    ("CreationTime",): "created_ms",
    ("LastModifiedTime",): "modified_ms",
    ("SecondaryStatus",): "json_extract(record, '$.secondary')",
    ("TuningJobArn",): "json_extract(record, '$.parent.arn')",
    ("FailureReason",): "json_extract(record, '$.failure_reason')",
    ("TrainingStartTime",): "json_extract(record, '$.training_start_ms')",
    ("TrainingEndTime",): "json_extract(record, '$.training_end_ms')",
    ("TrainingTimeInSeconds",): "json_extract(record, '$.facts.training_seconds')",
    ("BillableTimeInSeconds",): "json_extract(record, '$.facts.billable_seconds')",
    ("WarmPoolStatus",): "json_extract(record, '$.warm_pool.status')",
    ("WarmPoolStatus", "Status"): "json_extract(record, '$.warm_pool.status')",
    ("WarmPoolStatus", "ReusedByJob"): "json_extract(record, '$.warm_pool.reused_by')",
    ("WarmPoolStatus", "ResourceRetainedBillableTimeInSeconds"): "json_extract(record, '$.facts.retained_seconds')",
    ("ModelArtifacts",): "arn",
    ("ModelArtifacts", "S3ModelArtifacts"): (
        "rtrim(json_extract(record, '$.request.OutputDataConfig.S3OutputPath'), '/') || '/' || name || '/output/model'"
        " || CASE json_extract(record, '$.request.OutputDataConfig.CompressionType') WHEN 'NONE' THEN '/'"
        " ELSE '.tar.gz' END"
    ),
    ("SecondaryStatusTransitions",): "arn",
    ("Tags",): "(SELECT max(key) FROM tags WHERE job_id = jobs.id)",
    ("FinalMetricDataList",): "(SELECT max(name) FROM metric_points WHERE job_id = jobs.id)",
}

#: Maps that are kept in tables: the row of a key, with its `value`.
_TABLES: dict[tuple[str, ...], str] = {
    ("HyperParameters",): "hyperparameters WHERE job_id = jobs.id AND name = ?",
    ("Tags",): "tags WHERE job_id = jobs.id AND key = ?",
    ("Metrics",): "metric_points WHERE job_id = jobs.id AND name = ? ORDER BY seq DESC LIMIT 1",
}

#: Lists that are not members of the CreateTrainingJob body: their rows, and the expression of each member of an item.
_LISTS: dict[tuple[str, ...], str] = {
    ("SecondaryStatusTransitions",): (
        "(SELECT json_extract(value, '$.status') AS Status, json_extract(value, '$.message') AS StatusMessage,"
        " json_extract(value, '$.start_ms') AS StartTime, json_extract(value, '$.end_ms') AS EndTime"
        " FROM json_each(record, '$.transitions'))"
    ),
    ("FinalMetricDataList",): (
        "(SELECT name AS MetricName, value AS Value, time_ms AS Timestamp FROM metric_points"
        " WHERE seq IN (SELECT max(seq) FROM metric_points WHERE job_id = jobs.id GROUP BY name))"
    ),
}

_COMPARISONS = {
    O.EQUALS: "=",
    # A job without the property is not equal to the value either.
    O.NOT_EQUALS: "IS NOT",
    O.GREATER_THAN: ">",
    O.GREATER_THAN_OR_EQUAL_TO: ">=",
    O.LESS_THAN: "<",
    O.LESS_THAN_OR_EQUAL_TO: "<=",
}

#: Operators that also hold for a missing property, and the opposite of each.
_WITHOUT = {O.NOT_EQUALS: O.EQUALS, O.NOT_EXISTS: O.EXISTS}


def search(query: JobSearch) -> Sql:
    """Returns SQL for rows of (id, value of the property sorted by, number of all matches), one more than the page
    has.
    """
    found = _found(query)
    order, beyond = ("ASC", ">") if query.ascending else ("DESC", "<")
    where = ""
    after: tuple[Any, ...] = ()
    if query.after is not None:
        value = query.after.value
        where = f"WHERE (value IS NOT NULL, coalesce(value, 0), id) {beyond} (?, ?, ?) "
        after = (int(value is not None), 0 if value is None else value, query.after.job_id)
    return Sql(
        f"WITH found AS ({found.text}) SELECT id, value, (SELECT count(*) FROM found) FROM found {where}"
        f"ORDER BY value IS NOT NULL {order}, coalesce(value, 0) {order}, id {order} LIMIT ?",
        (*found.parameters, *after, query.limit + 1),
    )


def count(query: JobSearch) -> Sql:
    """Returns SQL for one row: the number of all matches."""
    found = _found(query)
    return Sql(f"SELECT count(*) FROM ({found.text})", found.parameters)


def _found(query: JobSearch) -> Sql:
    sort, where = _sort_value(query.sort_by), _group(query.where, 0)
    return Sql(
        f"SELECT id, {sort.text} AS value FROM jobs WHERE account = ? AND region = ? AND kind = ? AND {where.text}",
        (*sort.parameters, query.account, query.region, JobKind.TRAINING.value, *where.parameters),
    )


def _sort_value(wanted: Property) -> Sql:
    value = _value(wanted.segments[-1], wanted, None)
    if wanted.kind is not Kind.PARAMETER:
        return value
    number = _number(value)
    return Sql(f"coalesce({number.text}, {value.text})", number.parameters + value.parameters)


# --- terms ------------------------------------------------------------------------------------------------------------


def _term(term: Term, depth: int) -> Sql:
    if isinstance(term, Group):
        return _group(term, depth)
    if isinstance(term, AnyItem):
        return _any_item(term.path, term.conditions, None, depth)
    return _condition(term, None, depth)


def _group(group: Group, depth: int) -> Sql:
    return _joined([_term(term, depth) for term in group.terms], " AND " if group.every else " OR ")


def _joined(parts: list[Sql], word: str) -> Sql:
    if not parts:
        return Sql("1")
    text = word.join(part.text for part in parts)
    return Sql(f"({text})", tuple(value for part in parts for value in part.parameters))


def _any_item(path: tuple[str, ...], conditions: tuple[Condition, ...], outer: Item | None, depth: int) -> Sql:
    """Returns SQL that tests whether one item of a list satisfies all conditions."""
    item = Item(f"item{depth}", outer is None and path in _LISTS)
    rows = Sql(_LISTS[path]) if item.has_columns else Sql(f"json_each({_json(outer)}, ?)", (_json_path(path, outer),))
    where = _joined([_condition(condition, item, depth + 1) for condition in conditions], " AND ")
    text = f"EXISTS (SELECT 1 FROM {rows.text} AS {item.alias} WHERE {where.text})"
    return Sql(text, rows.parameters + where.parameters)


def _condition(condition: Condition, item: Item | None, depth: int) -> Sql:
    """Returns SQL for a condition on the job, or on an item of a list."""
    wanted, operator = condition.property, condition.operator
    if item is None and wanted.key is not None and wanted.segments[0] in _TABLES:
        compared = _compare(Sql("value"), wanted.kind, operator, condition.value)
        row, absent = _TABLES[wanted.segments[0]], operator in _WITHOUT
        # The row is looked up once, even if the comparison uses its value several times.
        return Sql(f"coalesce((SELECT {compared.text} FROM {row}), {absent:d})", (*compared.parameters, wanted.key))
    if len(wanted.segments) == 1:
        return _compare(_value(wanted.segments[0], wanted, item), wanted.kind, operator, condition.value)
    first, *rest = wanted.segments
    inner = Property(tuple(rest), wanted.kind, wanted.key, wanted.default)
    # The condition then holds for every item.
    opposite = _WITHOUT.get(operator)
    found = _any_item(first, (Condition(inner, opposite or operator, condition.value),), item, depth)
    return Sql(f"NOT {found.text}", found.parameters) if opposite else found


# --- values -----------------------------------------------------------------------------------------------------------


def _value(path: tuple[str, ...], wanted: Property, item: Item | None) -> Sql:
    if wanted.key is not None:
        return _of_key(path, wanted.key, item)
    if item is not None and item.has_columns:
        return Sql(f"{item.alias}.{path[0]}")
    if item is None and path in _OWN:
        return Sql(_OWN[path])
    if not path:
        return Sql(_json(item))
    value = Sql(f"json_extract({_json(item)}, ?)", (_json_path(path, item),))
    if wanted.default is None:
        return value
    return Sql(f"coalesce({value.text}, ?)", (*value.parameters, wanted.default))


def _of_key(path: tuple[str, ...], key: str, item: Item | None) -> Sql:
    if item is None and path in _TABLES:
        return Sql(f"(SELECT value FROM {_TABLES[path]})", (key,))
    return Sql(f"(SELECT value FROM json_each({_json(item)}, ?) WHERE key = ?)", (_json_path(path, item), key))


def _json(item: Item | None) -> str:
    return "record" if item is None else f"{item.alias}.value"


def _json_path(path: tuple[str, ...], item: Item | None) -> str:
    return ".".join(("$" if item else "$.request", *path))


# --- comparisons ------------------------------------------------------------------------------------------------------


def _compare(left: Sql, kind: Kind, operator: Operator, value: Any) -> Sql:
    if operator in (O.EXISTS, O.NOT_EXISTS):
        return Sql(f"{left.text} IS {'NOT ' if operator is O.EXISTS else ''}NULL", left.parameters)
    if operator is O.CONTAINS:
        return Sql(f"instr({left.text}, ?) > 0", (*left.parameters, value))
    if operator is O.IN:
        return Sql(f"{left.text} IN (SELECT value FROM json_each(?))", (*left.parameters, json.dumps(value)))
    if kind is Kind.TIME and operator in (O.EQUALS, O.NOT_EQUALS) and value % 1000 == 0:
        # A value without a fraction means a whole second.
        left, value = Sql(f"{left.text} / 1000", left.parameters), value // 1000
    if kind is Kind.PARAMETER:
        return _compare_parameter(left, operator, value)
    return Sql(f"{left.text} {_COMPARISONS[operator]} ?", (*left.parameters, value))


def _compare_parameter(left: Sql, operator: Operator, value: str) -> Sql:
    """Compares a hyperparameter as AWS documents it: if the value is a whole number, decimals are cut to whole
    numbers.
    """
    number = _as_number(value)
    same = Sql(f"coalesce({left.text} = ?, 0)", (*left.parameters, value))
    if number is not None:
        held = _number(left)
        text = f"CAST({held.text} AS INTEGER)" if isinstance(number, int) else held.text
        sign = "=" if operator is O.NOT_EQUALS else _COMPARISONS[operator]
        compared = Sql(f"coalesce({text} {sign} ?, 0)", (*held.parameters, number))
        equality = operator in (O.EQUALS, O.NOT_EQUALS)
        same = _joined([same, compared], " OR ") if equality else compared
    return Sql(f"NOT {same.text}", same.parameters) if operator is O.NOT_EQUALS else same


def _number(text: Sql) -> Sql:
    """Returns SQL for the number that a text holds, or NULL if it holds none."""
    number = "CASE WHEN json_type(text) IN ('integer', 'real') THEN CAST(text AS REAL) END"
    # json_type fails on text that is not JSON. The inner SELECT makes SQLite find the text once.
    checked = f"CASE WHEN json_valid(text) THEN {number} END"
    return Sql(f"(SELECT {checked} FROM (SELECT {text.text} AS text))", text.parameters)


def _as_number(text: str) -> int | float | None:
    try:
        number = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return None
    return number if isinstance(number, float) or -(2**63) <= number < 2**63 else float(text)
