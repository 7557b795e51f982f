"""The columns of the list of jobs: which there are, which are chosen, and what a job has in each."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sagelet_api.display import clock, number, since, usd
from sagelet_api.durations import lasted
from sagelet_engine.data.compilation import asks_for_compiler
from sagelet_engine.engine import Engine
from sagelet_engine.model.job import Job
from sagelet_engine.model.spec import unquoted
from sagelet_engine.model.training import TrainingJob

if TYPE_CHECKING:
    from flask import Response
    from werkzeug.datastructures import MultiDict

#: Name in the query, and name of the cookie that remembers the last choice.
NAME = "columns"
#: The most columns that a list can have beside name and status, and the most bytes that a browser remembers of them.
MOST, MOST_BYTES = 20, 2000
#: The most hyperparameters, metrics and tags (of each) that the form offers.
MOST_OFFERED = 40
REMEMBERED_SECONDS = 365 * 86_400

#: Keys and titles of the columns that every job has.
FIXED: Mapping[str, str] = {
    "created": "Created",
    "ran": "Ran for",
    "billable": "Billable",
    "cost": "Cost",
    "compiled": "Compiled",
    "instances": "Instances",
    "reason": "Reason",
    "tags": "Tags",
    "image": "Image",
}
DEFAULT = ("created", "ran", "cost", "compiled", "instances")
#: Properties, named as in Search, and the headings under which the form offers them.
PROPERTIES: Mapping[str, str] = {"HyperParameters": "Hyperparameters", "Metrics": "Final metrics", "Tags": "Tags"}
_NUMBERS = frozenset({"ran", "billable", "cost"})


@dataclass(frozen=True)
class Column:
    """A column: one of FIXED, or a property such as `HyperParameters.lr`."""

    key: str

    @property
    def title(self) -> str:
        return FIXED.get(self.key) or self.key.partition(".")[2]

    @property
    def is_number(self) -> bool:
        return self.key in _NUMBERS or self.key.startswith("Metrics.")


def chosen(query: "MultiDict[str, str]", cookies: Mapping[str, str]) -> tuple[Column, ...]:
    """Returns the columns of the query (`?columns=cost&columns=Tags.team`), otherwise those of the last choice,
    otherwise DEFAULT."""
    asked: Sequence[Any] = query.getlist(NAME) if NAME in query else _remembered(cookies.get(_cookie(), ""))
    keys = [key for key in dict.fromkeys(asked) if isinstance(key, str) and _exists(key)]
    return tuple(Column(key) for key in keys[:MOST])


def remember(answer: "Response", columns: Iterable[Column]) -> None:
    text = json.dumps([column.key for column in columns])
    value = base64.urlsafe_b64encode(text.encode()).decode()
    if len(value) <= MOST_BYTES:
        answer.set_cookie(_cookie(), value, max_age=REMEMBERED_SECONDS, httponly=True, samesite="Strict")


def _remembered(cookie: str) -> Sequence[Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(cookie)) if cookie else DEFAULT
    except (ValueError, RecursionError):
        return DEFAULT
    return found if isinstance(found, list) else DEFAULT


def _cookie() -> str:
    """Returns the cookie's name. A browser sends cookies to every port of a host, so each server has its own."""
    from flask import request

    return f"sagelet-columns-{request.host.rpartition(':')[2]}"


def _exists(key: str) -> bool:
    kind, _, name = key.partition(".")
    # JSON can have half a character (a surrogate), which no page can.
    return key in FIXED or (kind in PROPERTIES and name != "" and key == key.encode(errors="replace").decode())


# --- what the form offers ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Offer:
    """A group of columns with its heading."""

    heading: str
    columns: tuple[Column, ...]


def offers(jobs: Sequence[TrainingJob], chosen: Iterable[Column]) -> list[Offer]:
    """Returns all fixed columns, the hyperparameters, metrics and tags of these jobs, and the columns that are chosen
    already."""
    keys = [column.key for column in chosen]
    made = [Offer("Job", tuple(Column(key) for key in FIXED))]
    for kind, heading in PROPERTIES.items():
        names = [key.partition(".")[2] for key in keys if key.startswith(f"{kind}.")]
        found = sorted({name for job in jobs for name in _names(kind, job)} - set(names))
        columns = [*names, *found[: max(0, MOST_OFFERED - len(names))]]
        if columns:
            made.append(Offer(heading, tuple(Column(f"{kind}.{name}") for name in columns)))
    return made


def _names(kind: str, job: TrainingJob) -> Iterable[str]:
    if kind == "HyperParameters":
        return (name for name in job.spec.hyperparameters if not name.startswith("sagemaker_"))
    return (one.name for one in job.spec.metric_definitions) if kind == "Metrics" else job.tags


# --- what a job has in them -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    job: TrainingJob
    #: One for each column; text, or a time as Markup.
    cells: tuple[str, ...]


def rows(engine: Engine, jobs: Iterable[TrainingJob], columns: Sequence[Column]) -> list[Row]:
    return [Row(job, tuple(_cells(engine, job, columns))) for job in jobs]


def _cells(engine: Engine, job: TrainingJob, columns: Sequence[Column]) -> Iterable[str]:
    has_metrics = any(column.key.startswith("Metrics.") for column in columns)
    metrics = {one.name: one.value for one in engine.metrics.final(job)} if has_metrics else {}
    for column in columns:
        kind, _, name = column.key.partition(".")
        if kind == "HyperParameters":
            yield unquoted(job.spec.hyperparameters.get(name, ""))
        elif kind == "Metrics":
            yield number(metrics[name]) if name in metrics else ""
        elif kind == "Tags":
            yield job.tags.get(name, "")
        else:
            yield _CELLS[column.key](engine, job)


#: Texts for a job's hosts by runtime, for runtimes without containers of the job's image.
_WITHOUT_IMAGE: Mapping[str, str] = {
    "process": "processes of this machine, without a container",
    "slurm": "tasks of Slurm",
    "function": "a Python function, in simulated time",
}


def hosts_text(job: Job) -> str:
    """Says what the job's hosts are. Empty if they are containers of the job's image, or if no runtime is known."""
    return _WITHOUT_IMAGE.get(job.runtime, "")


def ran_text(job: Job) -> str:
    """Returns how long the job trained: TrainingTimeInSeconds, as every command and AWS's API have it."""
    if job.training_seconds is not None:
        return lasted(job.training_seconds)
    return since(job.training_start_ms, None)


def compiled_text(job: TrainingJob) -> str:
    """Says whether the job was compiled, and for which platform. If it asked for the compiler and was not compiled,
    says why."""
    found = job.compilation
    if found is not None:
        return f"yes ({found.platform})" if found.compiled else f"no: {found.reason}"
    if not asks_for_compiler(job.spec):
        return "no"
    return "not known" if job.terminal else "asked for"


def _billable(_engine: Engine, job: TrainingJob) -> str:
    return "-" if job.billable_seconds is None else f"{job.billable_seconds} s"


def _cost(engine: Engine, job: TrainingJob) -> str:
    bill = engine.reports.bill(job)
    return usd(bill.usd) + (" so far" if bill.running else "")


def instances_text(job: Job) -> str:
    return ", ".join(
        f"{len(group.hosts)} \N{MULTIPLICATION SIGN} {group.instance_type or '-'}" for group in job.spec.instance_groups
    )


def _reason(_engine: Engine, job: TrainingJob) -> str:
    """Returns the FailureReason. For a stopped job, returns the message of its last status."""
    if job.failure_reason or not job.terminal or job.status.value == "Completed":
        return job.failure_reason or ""
    return job.transitions[-1].message


def tags_text(job: TrainingJob) -> str:
    return ", ".join(f"{key}={value}" if value else key for key, value in job.tags.items())


_CELLS: Mapping[str, Any] = {
    "created": lambda _engine, job: clock(job.created_ms),
    "ran": lambda _engine, job: ran_text(job),
    "billable": _billable,
    "cost": _cost,
    "compiled": lambda _engine, job: compiled_text(job),
    "instances": lambda _engine, job: instances_text(job),
    "reason": _reason,
    "tags": lambda _engine, job: tags_text(job),
    "image": lambda _engine, job: job.spec.image.rpartition("/")[2],
}
