"""The SQL of lists, as of ListTrainingJobs: filters, an order, and where to continue. Every value from outside is a
parameter, never a part of the text.
"""

from typing import Any

from sagelet_engine.model.listing import Cursor, JobPage, JobQuery, Record, SortBy

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
    where, parameters = _where(query, kind)
    order, beyond = ("ASC", ">") if query.ascending else ("DESC", "<")
    if query.after is not None:
        where += f" AND ({column}, id) {beyond} (?, ?)"
        parameters += [query.after.value, query.after.job_id]
    return f"WHERE {where} ORDER BY {column} {order}, id {order} LIMIT ?", (*parameters, query.limit + 1)


def counts(query: JobQuery, kind: str = "", table: str = "jobs") -> tuple[str, list[Any]]:
    """Returns SQL for rows of (status, number of all jobs with it), whatever the page, and its parameters.

    `kind`: the value of that column, if it is not the query's.
    """
    where, parameters = _where(query, kind or query.kind.value)
    return f"SELECT status, count(*) FROM {table} WHERE {where} GROUP BY status", parameters


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


def _where(query: JobQuery, kind: str) -> tuple[str, list[Any]]:
    filters = [(clause, value) for clause, value in _filters(query, kind) if value is not None]
    return " AND ".join(clause for clause, _ in filters), [value for _, value in filters]


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
