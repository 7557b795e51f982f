"""The list page of a kind of job, from a row: search, statuses, sorting, pages, and rows that stay up to date."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol

from sagelet_api.web.listing import Asked, J, listed_page
from sagelet_api.web.site import Site, context
from sagelet_api.web.streams import Streams
from sagelet_engine.engine import Engine
from sagelet_engine.model.listing import JobPage, JobQuery

if TYPE_CHECKING:
    from flask import Blueprint, Response


@dataclass(frozen=True)
class Heading(Generic[J]):
    """A column beside name and status."""

    title: str
    cell: Callable[[J], str]
    #: The cell's classes.
    style: str = "value"
    #: Its key in listing.SORTS.
    sort: str = ""


class Jobs(Protocol[J]):
    """What a list asks the engine."""

    def page(self, query: JobQuery) -> JobPage[J]: ...

    def counts(self, account: str, region: str, name_contains: str = "") -> Mapping[str, int]:
        """Returns the number of jobs by status."""


@dataclass(frozen=True)
class ListedKind(Generic[J]):
    """The list page of a kind. Its blueprint has the endpoints `listed`, `news` and `overview`."""

    #: As people call one job.
    words: str
    statuses: Sequence[str]
    headings: Sequence[Heading[J]]
    jobs: "Callable[[Engine], Jobs[J]]"
    #: What makes jobs of this kind, for an empty list.
    makers: str


@dataclass(frozen=True)
class Row(Generic[J]):
    job: J
    cells: Sequence[str]


def add_list(routes: "Blueprint", site: Site, kind: ListedKind[J]) -> None:
    """Adds the list, and the news about it for open pages."""
    from flask import render_template, request

    streams = Streams(site.engine.changes)

    jobs = kind.jobs(site.engine)

    @routes.get("")
    def listed() -> str:
        """Shows the list. `?q=&status=&sort=&order=&token=`; `part=rows`: only the table."""
        asked, caller = Asked.of(request.args), context()
        shown = listed_page(jobs.page, caller, asked)
        template = "_list.html" if request.args.get("part") == "rows" else "list.html"
        return render_template(
            template,
            kind=kind,
            endpoints=routes.name,
            shown=shown,
            rows=[*_rows(kind, shown.jobs)],
            counts=by_status(kind.statuses, jobs.counts(caller.account, caller.region, asked.text)),
            asked=asked,
            kept=kept,
        )

    # Not the name of a job, which begins with a letter or a digit.
    @routes.get("/_events")
    def news() -> "Response":
        """Sends news of the list that the same query selects."""
        asked, caller = Asked.of(request.args), context()
        return streams.answer(lambda: (listed_page(jobs.page, caller, asked).fingerprint, {}))


def by_status(statuses: Sequence[str], counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Returns each status with the number of its jobs, zero for most."""
    return [(status, counts.get(status, 0)) for status in statuses]


def _rows(kind: ListedKind[J], jobs: Sequence[J]) -> Iterator[Row[J]]:
    return (Row(job, [heading.cell(job) for heading in kind.headings]) for job in jobs)


def kept(*left_out: str, even_empty: str | None = None) -> dict[str, list[str]]:
    """Returns the query of a link that changes some parameters and keeps the others.

    `even_empty`: a parameter that means something without a value.
    """
    return {
        name: values
        for name, values in queried().items()
        if name not in (*left_out, "part") and (any(values) or name == even_empty)
    }


def queried() -> dict[str, list[str]]:
    """Returns the request's query for `url_for`, without the names of its own parameters."""
    from flask import request

    query = request.args.to_dict(flat=False)
    return {name: values for name, values in query.items() if name != "endpoint" and not name.startswith("_")}
