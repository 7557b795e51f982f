"""The calls that the section `api` measures, as bytes."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from bench import load, many_jobs

_fresh = count()
_choice = random.Random(7)


@dataclass(frozen=True)
class Kind:
    title: str
    operation: str
    #: The body of a call, with this many jobs there.
    body: Callable[[int], dict[str, Any]]
    #: A right answer has it.
    holds: bytes = b"TrainingJobArn"
    #: Whether a call is answered by reading all jobs.
    reads_all: bool = False


def requests(endpoint: str, kind: Kind, jobs: int, number: int) -> list[bytes]:
    """So many calls of a kind, signed."""
    return [signed(endpoint, kind.operation, kind.body(jobs)) for _ in range(number)]


def signed(endpoint: str, operation: str, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    headers = {"X-Amz-Target": f"SageMaker.{operation}", "Content-Type": "application/x-amz-json-1.1"}
    request = AWSRequest("POST", endpoint, data=data, headers=headers)
    SigV4Auth(Credentials(many_jobs.ACCOUNT, "any"), "sagemaker", many_jobs.REGION).add_auth(request)
    return load.request(endpoint, request.headers.items(), data)


def fresh() -> dict[str, Any]:
    """A CreateTrainingJob body with a name that nobody had."""
    return with_tags(many_jobs.body(f"new-{next(_fresh):07}"))


def with_tags(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "Tags": [{"Key": key, "Value": value} for key, value in many_jobs.TAGS.items()]}


def _any_name(jobs: int) -> str:
    return many_jobs.name(_choice.randrange(jobs))


def _search(name: str, value: str) -> dict[str, Any]:
    where = {"Filters": [{"Name": name, "Operator": "Equals", "Value": value}]}
    order = {"SortBy": "CreationTime", "SortOrder": "Descending"}
    return {"Resource": "TrainingJob", "SearchExpression": where, "MaxResults": 100, **order}


CREATE = Kind("CreateTrainingJob", "CreateTrainingJob", lambda _: fresh())
DESCRIBE = Kind("DescribeTrainingJob", "DescribeTrainingJob", lambda jobs: {"TrainingJobName": _any_name(jobs)})
LIST = Kind(
    "ListTrainingJobs, a page of 100",
    "ListTrainingJobs",
    lambda _: {"MaxResults": 100, "SortBy": "CreationTime", "SortOrder": "Descending"},
)
SEARCH = Kind(
    "Search by status, a page of 100",
    "Search",
    lambda _: _search("TrainingJobStatus", "Completed"),
    reads_all=True,
)
SEARCH_PROPERTY = Kind(
    "Search by a hyperparameter, a page of 100",
    "Search",
    lambda _: _search("HyperParameters.epochs", "3"),
    reads_all=True,
)
#: Creation last: what it queues stays.
KINDS = (DESCRIBE, LIST, SEARCH, SEARCH_PROPERTY, CREATE)
