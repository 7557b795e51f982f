"""What the pages are made from, and which account and region a request is about."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sagelet_api.protocol.calls import DEFAULT_ACCOUNT, DEFAULT_REGION
from sagelet_api.protocol.operations import Context
from sagelet_api.services.sagemaker.pipeline_service import PipelineOperations
from sagelet_api.services.sagemaker.service import TrainingJobs
from sagelet_api.services.sagemaker.tuning_service import TuningJobs
from sagelet_api.web.sessions import Sessions
from sagelet_engine.base.errors import JobNotFound, OrchestrationNotFound
from sagelet_engine.engine import Engine
from sagelet_engine.model.job import JobKey
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind
from sagelet_engine.model.principal import owner
from sagelet_engine.model.training import TrainingJob
from sagelet_engine.model.tuning import TuningJob
from sagelet_engine.s3.store import S3Store

#: What a template is rendered with, by the names that it uses.
TemplateValues = dict[str, Any]
#: Values of a URL's query, as Flask's `url_for` takes them.
UrlValues = dict[str, Any]


@dataclass(frozen=True)
class AccountRegion:
    """The account and the region whose jobs a page shows."""

    account: str
    region: str

    @property
    def query(self) -> UrlValues:
        """Returns the query that keeps a link in this account and region. Empty for the default ones."""
        whole = {"account": (self.account, DEFAULT_ACCOUNT), "region": (self.region, DEFAULT_REGION)}
        return {name: value for name, (value, default) in whole.items() if value != default}

    def key(self, name: str) -> JobKey:
        return JobKey(self.account, self.region, name)

    def tuning_key(self, name: str) -> OrchestrationKey:
        return OrchestrationKey(self.account, self.region, name, OrchestrationKind.TUNING)


@dataclass(frozen=True)
class Site:
    """What the pages are made from. `jobs`, `tunings` and `pipelines` are the operations of AWS's API on them."""

    engine: Engine
    jobs: TrainingJobs
    tunings: TuningJobs
    pipelines: PipelineOperations
    objects: S3Store
    sessions: Sessions

    def job(self, name: str) -> TrainingJob:
        """Returns the job in the account and region of the request. Raises werkzeug's NotFound."""
        with found(name):
            return self.engine.jobs.get(account_region().key(name))

    def tuning(self, name: str) -> TuningJob:
        """Returns the tuning job in the account and region of the request. Raises werkzeug's NotFound."""
        from werkzeug.exceptions import NotFound

        here = account_region()
        try:
            return self.engine.tuning.get(here.tuning_key(name))
        except OrchestrationNotFound as error:
            raise NotFound(f"Account {here.account} has no tuning job {name} in {here.region}.") from error


def account_region() -> AccountRegion:
    """Returns the account and region of the current request: `?account=&region=`."""
    from flask import request

    return AccountRegion(request.args.get("account", DEFAULT_ACCOUNT), request.args.get("region", DEFAULT_REGION))


@contextmanager
def found(name: str) -> Iterator[None]:
    """Turns the error for a missing job into a 404."""
    from werkzeug.exceptions import NotFound

    try:
        yield
    except JobNotFound as error:
        here = account_region()
        raise NotFound(f"Account {here.account} has no training job {name} in {here.region}.") from error


def context() -> Context:
    """Returns the caller of an operation: the owner, in the account and region that the page is about."""
    here = account_region()
    return Context(owner(here.account), here.region, "", here.account)


def is_static(endpoint: str | None) -> bool:
    """True if a request is for one of sagelet's own files, which hold no data."""
    return (endpoint or "").rpartition(".")[2] == "static"
