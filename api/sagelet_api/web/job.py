"""The pages of a job: how it went, and what the compiler did."""

from typing import TYPE_CHECKING, TypedDict

from sagelet_api.web import PREFIX
from sagelet_api.web.columns import compiled_text, hosts_text, ran_text
from sagelet_api.web.objects import size_of
from sagelet_api.web.report import report_view
from sagelet_api.web.site import Site, TemplateValues, account_region, context
from sagelet_api.web.steps import steps_view
from sagelet_api.web.timeline import timeline
from sagelet_engine.base.errors import OrchestrationNotFound
from sagelet_engine.model.training import TrainingJob

if TYPE_CHECKING:
    from flask import Blueprint


#: Parts of the page that its script fetches again while the page is open.
PARTS = {"head": "_job_head.html", "timeline": "_timeline.html", "facts": "_job_facts.html"}


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, render_template, request

    routes = Blueprint("job", __name__, url_prefix=f"{PREFIX}/jobs/<name>")

    @routes.get("")
    def overview(name: str) -> str:
        """Shows the job. `part=`: only this one of PARTS."""
        job = site.job(name)
        template = PARTS.get(request.args.get("part", ""), "job.html")
        return render_template(template, **_facts(site, job), tab="overview")

    @routes.get("/report")
    def report(name: str) -> str:
        job = site.job(name)
        found = site.engine.reports.compiler(job.key)
        findings = list(site.engine.reports.findings(job.key) if found is None else found.findings)
        view = None if found is None else report_view(found)
        template = "_report.html" if request.args.get("part") == "report" else "report.html"
        steps = None if found is None else steps_view(found)
        return render_template(template, job=job, report=found, view=view, steps=steps, findings=findings, tab="report")

    return routes


def _facts(site: Site, job: TrainingJob) -> TemplateValues:
    described = site.jobs.describe(context(), {"TrainingJobName": job.key.name})
    return {
        "job": job,
        "described": described,
        "compiled": _compiled(job),
        "ran": ran_text(job),
        "hosts": hosts_text(job),
        "bill": site.engine.reports.bill(job),
        "timeline": timeline(job, site.engine.now_ms()),
        "findings": site.engine.reports.findings(job.key) if job.terminal else (),
        "final_metrics": described.get("FinalMetricDataList", []),
        "outputs": _outputs(site, job, described["ModelArtifacts"]["S3ModelArtifacts"]),
        "place": account_region(),
        "tuning": _tuning_of(site, job),
        "execution": site.engine.pipelines.maker(job),
    }


def _compiled(job: TrainingJob) -> str:
    """Returns what the list says, and for a compiled job the compiler and its client."""
    found, text = job.compilation, compiled_text(job)
    return f"{text}: {found.reason}" if found is not None and found.compiled and found.reason else text


def _tuning_of(site: Site, job: TrainingJob) -> str | None:
    """Returns the name of the tuning job that made the job, or None if there is none (any more)."""
    if job.parent is None:
        return None
    try:
        # The name in an ARN is in lower case.
        return site.engine.tuning.get(account_region().tuning_key(job.parent.arn.rpartition("/")[2])).key.name
    except OrchestrationNotFound:
        return None


class JobOutput(TypedDict):
    """What a job leaves in S3. `size` is in bytes, and None for a prefix or a missing object.

    `variable` names the directory of which it is made.
    """

    title: str
    variable: str
    uri: str
    prefix: bool
    size: int | None


def _outputs(site: Site, job: TrainingJob, model: str) -> list[JobOutput]:
    outputs: list[JobOutput] = []
    own = (("Model", "SM_MODEL_DIR", model), ("Output", "SM_OUTPUT_DATA_DIR", f"{job.output_uri}/output.tar.gz"))
    for title, variable, uri in own:
        prefix = uri.endswith("/")
        size = None if prefix else size_of(site, job.key.account, uri)
        outputs.append({"title": title, "variable": variable, "uri": uri, "prefix": prefix, "size": size})
    if job.spec.checkpoint is not None:
        uri = job.spec.checkpoint.url
        outputs.append({"title": "Checkpoints", "variable": "", "uri": uri, "prefix": True, "size": None})
    return outputs
