"""The lists of jobs, one page at a time.

An address selects a page, and AWS's List calls or Search find it.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from sagelet_api.protocol import page_tokens
from sagelet_api.protocol.members import Parameters
from sagelet_api.protocol.operations import Context
from sagelet_api.protocol.validation import validate
from sagelet_api.services.sagemaker.job_operations import job_query, next_token
from sagelet_api.services.sagemaker.search import job_search
from sagelet_engine.engine import Engine
from sagelet_engine.model.job import Job, JobStatus
from sagelet_engine.model.listing import JobPage, JobQuery
from sagelet_engine.model.search import JobSearch
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.tuning import TuningJob

#: A job of a kind: it has an `id` and a `version`.
J = TypeVar("J", bound="Job | TuningJob")

#: Jobs of a page.
LIMIT = 50
#: `HyperParameters.epochs=3`, `Tags.team=nlp`, `ResourceConfig.InstanceType=ml.p3.2xlarge`.
_CONDITION = re.compile(r"([A-Za-z][\w.:/-]*?)(!=|>=|<=|=|>|<)(.+)")
_OPERATORS = {
    "=": "Equals",
    "!=": "NotEquals",
    ">": "GreaterThan",
    ">=": "GreaterThanOrEqualTo",
    "<": "LessThan",
    "<=": "LessThanOrEqualTo",
}
SORTS = {"created": "CreationTime", "name": "Name", "status": "Status"}
_SEARCH_SORTS = {"created": "CreationTime", "name": "TrainingJobName", "status": "TrainingJobStatus"}


@dataclass(frozen=True)
class Asked:
    """The list that an address selects. Meaningless parts of the address are ignored."""

    text: str = ""
    status: str = ""
    sort: str = "created"
    ascending: bool = False
    token: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> "Asked":
        status, sort = query.get("status", ""), query.get("sort", "")
        return cls(
            query.get("q", "").strip(),
            status if status in {known.value for known in JobStatus} else "",
            sort if sort in SORTS else "created",
            query.get("order") == "ascending",
            query.get("token", ""),
        )

    @property
    def conditions(self) -> list[dict[str, str]]:
        """Returns the parts of the text that are conditions on properties, as Search's filters."""
        found = (_CONDITION.fullmatch(word) for word in self.text.split())
        return [{"Name": one[1], "Operator": _OPERATORS[one[2]], "Value": one[3]} for one in found if one]

    @property
    def name(self) -> str:
        """Returns the part of the text that names should contain."""
        return " ".join(word for word in self.text.split() if not _CONDITION.fullmatch(word))


@dataclass(frozen=True)
class Listing(Generic[J]):
    jobs: list[J]
    #: The token of the next page. Empty if this is the last.
    next_token: str

    @property
    def fingerprint(self) -> str:
        """Returns a text that changes when a job of the page has changed, come or gone."""
        versions = "".join(f"{job.id}{job.version}" for job in self.jobs)
        return hashlib.sha256(versions.encode()).hexdigest()[:16]


def listing(engine: Engine, context: Context, asked: Asked) -> Listing[TrainingJob]:
    """Returns a page of the list. Raises ValidationException for a property that training jobs do not have, and for a
    token of another list.
    """
    if not asked.conditions:
        return listed_page(engine.jobs.page, context, asked)
    request = _search_request(asked)
    if asked.token:
        request["NextToken"] = asked.token
    page = engine.jobs.search(_query(context, request))
    if page.next is None:
        return Listing(page.jobs, "")
    token = page_tokens.encode(page_tokens.fingerprint(context, request), page.next.value, page.next.job_id)
    return Listing(page.jobs, token)


def counts(engine: Engine, context: Context, asked: Asked) -> dict[str, int]:
    """Returns how many jobs the text finds, by status, whichever status is asked for. Raises ValidationException."""
    if not asked.conditions:
        return engine.jobs.counts(context.account, context.region, asked.name)
    request = _search_request(replace(asked, status=""))
    return engine.jobs.search_counts(_query(context, request))


def listed_page(page: Callable[[JobQuery], JobPage[J]], context: Context, asked: Asked) -> Listing[J]:
    """Returns a page of a list without conditions. All of the text is searched for in names."""
    request = _list_request(asked, asked.text)
    request |= {"NextToken": asked.token} if asked.token else {}
    found = page(job_query(context, request))
    return Listing(found.jobs, "" if found.next is None else next_token(context, request, found.next))


def _query(context: Context, request: Parameters) -> JobSearch:
    validate("sagemaker", "Search", {"Resource": "TrainingJob", **request})
    return job_search(context, request)


def _list_request(asked: Asked, name: str) -> Parameters:
    request: Parameters = {
        "SortBy": SORTS[asked.sort], "SortOrder": _order(asked), "MaxResults": LIMIT,
    }  # fmt: skip
    if name:
        request["NameContains"] = name
    if asked.status:
        request["StatusEquals"] = asked.status
    return request


def _search_request(asked: Asked) -> Parameters:
    filters = asked.conditions
    if asked.name:
        filters.append({"Name": "TrainingJobName", "Operator": "Contains", "Value": asked.name})
    if asked.status:
        filters.append({"Name": "TrainingJobStatus", "Operator": "Equals", "Value": asked.status})
    return {
        "SearchExpression": {"Filters": filters},
        "SortBy": _SEARCH_SORTS[asked.sort],
        "SortOrder": _order(asked),
        "MaxResults": LIMIT,
    }


def _order(asked: Asked) -> str:
    return "Ascending" if asked.ascending else "Descending"
