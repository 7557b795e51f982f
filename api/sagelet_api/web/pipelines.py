"""The pages of pipelines: the list of executions, and one with its graph and its steps."""

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sagelet_api.durations import lasted
from sagelet_api.services.sagemaker.pipeline_view import STATUSES
from sagelet_api.web import PREFIX
from sagelet_api.web.graph import HEIGHT, WIDTH, graph
from sagelet_api.web.site import Site, TemplateValues, account_region, context
from sagelet_api.web.streams import Streams
from sagelet_engine.base.errors import JobNotFound, OrchestrationNotFound, PipelineNotFound
from sagelet_engine.base.wire import JsonObject
from sagelet_engine.model.job import JobKey, JobKind
from sagelet_engine.model.orchestration import OrchestrationKey, OrchestrationKind, OrchestrationStatus
from sagelet_engine.model.pipeline import PipelineExecution, PipelineKey, StepRun
from sagelet_engine.pipelines.definition import parse

if TYPE_CHECKING:
    from flask import Blueprint, Response

#: Executions of the list.
MOST = 200
#: Parts of an execution's page that its script fetches again while the page is open.
PARTS = {"head": "_execution_head.html", "timeline": "_execution_graph.html", "facts": "_execution_steps.html"}
#: Statuses from which RetryPipelineExecution begins again.
RETRIED = (OrchestrationStatus.FAILED, OrchestrationStatus.STOPPED)
#: The page of what a step of a type makes.
PAGES = {"Training": "job.overview", "Processing": "processing.overview", "Tuning": "tuning.overview"}


class Row(NamedTuple):
    """A step of the table."""

    run: StepRun
    type: str
    took: str
    #: US dollars so far, or None if the step has no price.
    usd: float | None
    #: The endpoint of the page of what it made. Empty if there is none.
    page: str


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, render_template, request

    routes = Blueprint("pipelines", __name__, url_prefix=f"{PREFIX}/pipelines")
    streams = Streams(site.engine.changes)

    @routes.get("")
    def listed() -> str:
        """Shows the newest executions. `?pipeline=`: only those of this one."""
        here, wanted = account_region(), request.args.get("pipeline", "")
        names = [one.key.name for one in site.engine.pipelines.every(here.account, here.region)]
        chosen = [name for name in names if wanted.lower() in ("", name.lower())]
        found = [
            one
            for name in chosen
            for one in site.engine.pipelines.executions(PipelineKey(here.account, here.region, name))
        ]
        found.sort(key=lambda one: one.created_ms, reverse=True)
        return render_template(
            "pipelines.html",
            executions=[(one, STATUSES[one.status], _lasted(site, one)) for one in found[:MOST]],
            names=names,
            wanted=wanted,
            more=len(found) > MOST,
        )

    @routes.get("/<name>/<execution_id>")
    def overview(name: str, execution_id: str) -> str:
        """Shows an execution. `part=`: only this one of PARTS."""
        template = PARTS.get(request.args.get("part", ""), "execution.html")
        return render_template(template, **_values(site, _execution(site, name, execution_id)))

    @routes.get("/<name>/<execution_id>/events")
    def events(name: str, execution_id: str) -> "Response":
        """Sends news of one execution, as of jobs."""
        key = _execution(site, name, execution_id).key

        def look() -> tuple[str, JsonObject]:
            execution = site.engine.pipelines.execution(key)
            return f"{execution.id}-{execution.version}", {"version": execution.version, "lines": {}}

        return streams.answer(look)

    _add_actions(routes, site)
    return routes


def _add_actions(routes: "Blueprint", site: Site) -> None:
    """Adds stop and retry. Each asks first, and is a POST from the page itself."""
    from flask import redirect, render_template, url_for

    @routes.get("/<name>/<execution_id>/<any(stop, retry):action>")
    def ask(name: str, execution_id: str, action: str) -> str:
        execution = _execution(site, name, execution_id)
        possible = {
            "stop": execution.status is OrchestrationStatus.IN_PROGRESS,
            "retry": execution.status in RETRIED,
        }
        return render_template(
            "execution_confirm.html",
            execution=execution,
            status=STATUSES[execution.status],
            action=action,
            possible=possible[action],
        )

    @routes.post("/<name>/<execution_id>/<any(stop, retry):action>")
    def act(name: str, execution_id: str, action: str) -> Any:
        operation = {"stop": site.pipelines.stop, "retry": site.pipelines.retry}[action]
        arn = _execution(site, name, execution_id).key.arn
        operation(context(), {"PipelineExecutionArn": arn, "ClientRequestToken": uuid.uuid4().hex})
        return redirect(
            url_for("pipelines.overview", name=name, execution_id=execution_id, **account_region().query), 303
        )


def _execution(site: Site, name: str, execution_id: str) -> PipelineExecution:
    """Returns the execution in the account and region of the request. Raises werkzeug's NotFound."""
    from werkzeug.exceptions import NotFound

    here = account_region()
    try:
        return site.engine.pipelines.execution(PipelineKey(here.account, here.region, name).execution(execution_id))
    except (OrchestrationNotFound, PipelineNotFound) as error:
        where = f"Account {here.account} has no execution {name}/{execution_id} in {here.region}."
        raise NotFound(where) from error


def _values(site: Site, execution: PipelineExecution) -> TemplateValues:
    runs, definition = site.engine.pipelines.steps(execution), parse(execution.definition)
    types = {name: step.type for name, step in definition.steps.items()}
    return {
        "execution": execution,
        "status": STATUSES[execution.status],
        "lasted": _lasted(site, execution),
        "parameters": execution.parameters,
        "rows": [_row(site, execution, run, types) for run in runs],
        "graph": graph(definition, {run.name: run for run in runs}, ended=execution.terminal),
        "box": {"width": WIDTH, "height": HEIGHT},
    }


def _row(site: Site, execution: PipelineExecution, run: StepRun, types: Mapping[str, str]) -> Row:
    kind = types[run.name]
    end_ms = run.end_ms if run.end_ms is not None else site.engine.now_ms()
    took = lasted((end_ms - run.start_ms) / 1000) + ("" if run.ended else " so far")
    usd = None if run.cached_from or run.selected_from else _usd(site, execution, kind, run.made)
    return Row(run, kind, took, usd, PAGES.get(kind, "") if run.made else "")


def _usd(site: Site, execution: PipelineExecution, kind: str, name: str | None) -> float | None:
    """Returns what AWS would charge for what a step has made. None if it has no price, or is gone."""
    engine, key = site.engine, execution.key
    try:
        if kind == "Training" and name:
            return engine.reports.bill(engine.jobs.get(JobKey(key.account, key.region, name))).usd
        if kind == "Processing" and name:
            job = engine.processing.get(JobKey(key.account, key.region, name, JobKind.PROCESSING))
            return engine.reports.bill(job).usd
        if kind == "Tuning" and name:
            tuning = OrchestrationKey(key.account, key.region, name, OrchestrationKind.TUNING)
            return engine.tuning.bill(engine.tuning.get(tuning)).usd
    except (JobNotFound, OrchestrationNotFound):
        return None
    return None


def _lasted(site: Site, execution: PipelineExecution) -> str:
    end_ms = execution.ended_ms if execution.ended_ms is not None else site.engine.now_ms()
    return lasted((end_ms - execution.created_ms) / 1000) + ("" if execution.terminal else " so far")
