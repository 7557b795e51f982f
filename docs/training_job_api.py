"""Makes docs/reference/training-job-api.md: every member of the training-job operations, and what becomes of it.

The members come from botocore's model, what becomes of them from services/members.toml. `make docs` runs it.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel

from sagelet_engine.base.wire import JsonObject

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reference" / "training-job-api.md"
DATA = ROOT / "api" / "sagelet_api" / "services" / "members.toml"

#: Their requests, in the order of the page; DescribeTrainingJob's answer comes last.
OPERATIONS = (
    "CreateTrainingJob",
    "UpdateTrainingJob",
    "StopTrainingJob",
    "DeleteTrainingJob",
    "ListTrainingJobs",
    "Search",
    "GetSearchSuggestions",
    "CreateHyperParameterTuningJob",
    "StopHyperParameterTuningJob",
    "DeleteHyperParameterTuningJob",
    "ListHyperParameterTuningJobs",
    "ListTrainingJobsForHyperParameterTuningJob",
)
DESCRIBE = "DescribeTrainingJob"
_INTRODUCTION = """\
# The training-job API, member by member

Made by `make docs` from botocore's service model and `services/members.toml`; do not edit. A test fails when the model
has a member that is missing here, when a refused member is not refused with the error given here, and when the test
of an honoured member is gone.

- **honoured**: it has the same effect as on AWS, within the limits that the explanation gives.
- **echoed**: it has no effect. It is checked and stored, and DescribeTrainingJob returns it unchanged.
- **refused**: the request fails with the given error, and no job is created.

Every member is also checked against the constraints of the model (type, length, pattern, range, values). A violation is
a ValidationException that names the member. A wrong JSON type is a SerializationException.
"""


@dataclass(frozen=True)
class Row:
    """What becomes of one member; for one value of it `path` ends with `=VALUE`."""

    path: str
    verdict: str
    why: str
    error: str = ""
    text: str = ""
    test: str = ""


class Unclassified(Exception):
    """The data and the model do not fit together."""


def paths(shape: Any, prefix: str = "", above: tuple[str, ...] = ()) -> Iterator[str]:
    """The path of every member, nested ones below their structure; a shape within itself is not followed again."""
    for name, member in shape.members.items():
        path = f"{prefix}{name}"
        yield path
        inner, steps = member, ""
        while inner.type_name == "list":
            inner, steps = inner.member, f"{steps}[]"
        if inner.type_name == "structure" and inner.name not in above:
            yield from paths(inner, f"{path}{steps}.", (*above, inner.name))


def request_rows(operation: str, shape: Any, data: Mapping[str, Any]) -> list[Row]:
    """One row a member of an operation's request, and one a refused value. Raises Unclassified."""
    rows = [
        *(Row(path, "honoured", why, test=test) for path, (why, test) in data.get("honoured", {}).items()),
        *(Row(path, "echoed", why) for path, why in data.get("echoed", {}).items()),
        *(Row(path, "refused", why, error, text) for path, (error, text, why) in data.get("refused", {}).items()),
    ]
    return _placed(operation, list(paths(shape)), rows)


def describe_rows(model: ServiceModel, data: Mapping[str, Any], noun: str = "TrainingJob") -> list[Row]:
    """One row a member of a Describe call's answer. What the request has, too, is classified there.

    `noun`: what the names of the operations end with.
    """
    create, describe = f"Create{noun}", f"Describe{noun}"
    requested = {row.path: row for row in request_rows(create, input_of(model, create), data[create])}
    here = data[describe]
    rows = [
        *(Row(path, "set", why) for path, why in here["set"].items()),
        *(Row(path, "never", why) for path, why in here["never"].items()),
    ]
    members = list(paths(model.operation_model(describe).output_shape))
    for path in members:
        row = requested.get(path)
        if row is not None:
            refused = row.verdict == "refused"
            rows.append(Row(path, *(("never", "the request is refused") if refused else ("request", "as it came"))))
    return _placed(describe, members, rows)


def _placed(operation: str, members: list[str], rows: list[Row]) -> list[Row]:
    """The rows in the model's order, those of `PATH.*` for each member that they cover."""
    exact: dict[str, Row] = {}
    for row in rows:
        if exact.setdefault(row.path, row) is not row:
            raise Unclassified(f"{operation}: {row.path} is classified twice")
    placed, used = [], set()
    for path in members:
        found = next((key for key in _keys(path) if key in exact), None)
        if found is None:
            raise Unclassified(f"{operation}: {path} is in the model and not in {DATA.name}")
        values = [key for key in exact if key.partition("=")[0] == path and "=" in key]
        used |= {found, *values}
        row = exact[found]
        placed.append(Row(path, row.verdict, row.why, row.error, row.text, row.test))
        placed += [exact[key] for key in values]
    if unknown := sorted(exact.keys() - used):
        raise Unclassified(f"{operation}: {', '.join(unknown)}: in {DATA.name} and not in the model")
    return placed


def _keys(path: str) -> Iterator[str]:
    """Where a path may be classified: by itself, or with all that is within a structure above it."""
    yield path
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        yield f"{'.'.join(parts[:end]).removesuffix('[]')}.*"


def page() -> str:
    """The whole page. Raises Unclassified."""
    model, data = service_model(), classification()
    parts = [_INTRODUCTION]
    for operation in OPERATIONS:
        rows = request_rows(operation, input_of(model, operation), data[operation])
        parts.append(f"## {operation}: request\n\n{table(rows)}")
    parts.append(
        f"## {DESCRIBE}: answer\n\n"
        "Its request has one member, TrainingJobName. **request**: what CreateTrainingJob (or UpdateTrainingJob)\n"
        "brought, as it came. **set**: sagelet sets it. **never**: no answer has it.\n\n"
        f"{table(describe_rows(model, data))}"
    )
    return "\n".join(parts)


def table(rows: list[Row]) -> str:
    lines = ["| member | | |", "| --- | --- | --- |"]
    for row in rows:
        path, _, value = row.path.partition("=")
        member = f"`{path}` = {value}" if value else f"`{path}`"
        verdict = f"{row.verdict}: {row.error}" if row.error else row.verdict
        lines.append(f"| {member} | {verdict} | {row.why} |")
    return "\n".join(lines) + "\n"


@cache
def service_model() -> ServiceModel:
    return ServiceModel(Loader().load_service_model("sagemaker", "service-2"))


def classification() -> JsonObject:
    data: JsonObject = tomllib.loads(DATA.read_text(encoding="utf-8"))
    return data


def input_of(model: ServiceModel, operation: str) -> Any:
    return model.operation_model(operation).input_shape


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
