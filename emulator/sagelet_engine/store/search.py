"""The SQL of Search and GetSearchSuggestions.

Search has conditions on columns, on the record's JSON, on tags and on metric points. Suggestions are names that the
records of a region have. Every value from outside is a parameter, never a part of the text.
"""

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from sagelet_engine.model.job import JobKind
from sagelet_engine.model.search import AnyItem, Condition, Group, JobSearch, Kind, Operator, Property, Term
from sagelet_engine.store.searched import TRAINING_JOBS, Searched

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


_TUNING_NAMES = """
    WITH mine AS (SELECT id, record FROM orchestrations
        WHERE kind = 'hyper-parameter-tuning-job' AND account = ? AND region = ?), names AS (
        SELECT 'Tags.' || key AS name FROM orchestration_tags JOIN mine ON id = orchestration_id
        UNION SELECT 'TrainingJobDefinition.StaticHyperParameters.' || given.key
            FROM mine, json_each(record, '$.request.TrainingJobDefinition.StaticHyperParameters') AS given
        UNION SELECT 'BestTrainingJob.TunedHyperParameters.' || given.key
            FROM mine, json_each(record, '$.best.values') AS given
    )
    SELECT name FROM names WHERE substr(name, 1, length(?)) = ? ORDER BY name LIMIT ?
"""


def tuning_names(account: str, region: str, beginning: str, limit: int) -> tuple[str, tuple[Any, ...]]:
    """Does for tuning jobs what `names` does for training jobs."""
    return _TUNING_NAMES, (account, region, beginning, beginning, limit)


O = Operator  # noqa: E741 - read as often as a name of a type


class Sql(NamedTuple):
    """SQL text with a question mark for each parameter."""

    text: str
    parameters: tuple[Any, ...] = ()


class Item(NamedTuple):
    """An item of a list within a statement: a JSON value, or a row with a column for each of its members."""

    alias: str
    has_columns: bool


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


def search(query: JobSearch, searched: Searched = TRAINING_JOBS) -> Sql:
    """Returns SQL for rows of (id, value of the property sorted by, number of all matches), one more than the page
    has.
    """
    found = _Writer(searched).found(query)
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


def count(query: JobSearch, searched: Searched = TRAINING_JOBS) -> Sql:
    """Returns SQL for one row: the number of all matches."""
    found = _Writer(searched).found(query)
    return Sql(f"SELECT count(*) FROM ({found.text})", found.parameters)


def counts(query: JobSearch, searched: Searched = TRAINING_JOBS) -> Sql:
    """Returns SQL for rows of (status, number of all matches with it)."""
    rows = _Writer(searched).rows(query)
    return Sql(f"SELECT status, count(*) FROM {rows.text} GROUP BY status", rows.parameters)


@dataclass(frozen=True)
class _Writer:
    """Writes the conditions on records of one kind."""

    searched: Searched

    def found(self, query: JobSearch) -> Sql:
        sort, rows = self._sort_value(query.sort_by), self.rows(query)
        return Sql(f"SELECT id, {sort.text} AS value FROM {rows.text}", (*sort.parameters, *rows.parameters))

    def rows(self, query: JobSearch) -> Sql:
        """Returns the table and the condition on its rows."""
        where = self._group(query.where, 0)
        rows = f"{self.searched.table} WHERE {self.searched.where} AND account = ? AND region = ?"
        return Sql(f"{rows} AND {where.text}", (query.account, query.region, *where.parameters))

    def _sort_value(self, wanted: Property) -> Sql:
        value = self._value(wanted.segments[-1], wanted, None)
        if wanted.kind is not Kind.PARAMETER:
            return value
        number = _number(value)
        return Sql(f"coalesce({number.text}, {value.text})", number.parameters + value.parameters)

    def _term(self, term: Term, depth: int) -> Sql:
        if isinstance(term, Group):
            return self._group(term, depth)
        if isinstance(term, AnyItem):
            return self._any_item(term.path, term.conditions, None, depth)
        return self._condition(term, None, depth)

    def _group(self, group: Group, depth: int) -> Sql:
        return _joined([self._term(term, depth) for term in group.terms], " AND " if group.every else " OR ")

    def _any_item(
        self, path: tuple[str, ...], conditions: tuple[Condition, ...], outer: Item | None, depth: int
    ) -> Sql:
        """Returns SQL that tests whether one item of a list satisfies all conditions."""
        item = Item(f"item{depth}", outer is None and path in self.searched.lists)
        rows = (
            Sql(self.searched.lists[path])
            if item.has_columns
            else Sql(f"json_each({_json(outer)}, ?)", (_json_path(path, outer),))
        )
        where = _joined([self._condition(condition, item, depth + 1) for condition in conditions], " AND ")
        text = f"EXISTS (SELECT 1 FROM {rows.text} AS {item.alias} WHERE {where.text})"
        return Sql(text, rows.parameters + where.parameters)

    def _condition(self, condition: Condition, item: Item | None, depth: int) -> Sql:
        """Returns SQL for a condition on the record, or on an item of a list."""
        wanted, operator, maps = condition.property, condition.operator, self.searched.maps
        if item is None and wanted.key is not None and wanted.segments[0] in maps:
            compared = _compare(Sql("value"), wanted.kind, operator, condition.value)
            row, absent = maps[wanted.segments[0]], operator in _WITHOUT
            # The row is looked up once, even if the comparison uses its value several times.
            return Sql(f"coalesce((SELECT {compared.text} FROM {row}), {absent:d})", (*compared.parameters, wanted.key))
        if len(wanted.segments) == 1:
            return _compare(self._value(wanted.segments[0], wanted, item), wanted.kind, operator, condition.value)
        first, *rest = wanted.segments
        inner = Property(tuple(rest), wanted.kind, wanted.key, wanted.default)
        # The condition then holds for every item.
        opposite = _WITHOUT.get(operator)
        found = self._any_item(first, (Condition(inner, opposite or operator, condition.value),), item, depth)
        return Sql(f"NOT {found.text}", found.parameters) if opposite else found

    def _value(self, path: tuple[str, ...], wanted: Property, item: Item | None) -> Sql:
        if wanted.key is not None:
            return self._of_key(path, wanted.key, item)
        if item is not None and item.has_columns:
            return Sql(f"{item.alias}.{path[0]}")
        if item is None and path in self.searched.own:
            return Sql(self.searched.own[path])
        if not path:
            return Sql(_json(item))
        value = Sql(f"json_extract({_json(item)}, ?)", (_json_path(path, item),))
        if wanted.default is None:
            return value
        return Sql(f"coalesce({value.text}, ?)", (*value.parameters, wanted.default))

    def _of_key(self, path: tuple[str, ...], key: str, item: Item | None) -> Sql:
        if item is None and path in self.searched.maps:
            return Sql(f"(SELECT value FROM {self.searched.maps[path]})", (key,))
        return Sql(f"(SELECT value FROM json_each({_json(item)}, ?) WHERE key = ?)", (_json_path(path, item), key))


def _joined(parts: list[Sql], word: str) -> Sql:
    if not parts:
        return Sql("1")
    text = word.join(part.text for part in parts)
    return Sql(f"({text})", tuple(value for part in parts for value in part.parameters))


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
