"""The pages of a job: how it went, and what the compiler did."""

from typing import TYPE_CHECKING, Any

from sagelet_api.web import PREFIX
from sagelet_api.web.objects import size_of
from sagelet_api.web.report import report_view
from sagelet_api.web.site import Site, context, place
from sagelet_engine.model.training import TrainingJob

if TYPE_CHECKING:
    from flask import Blueprint

#: Seconds; shorter steps of the timeline get this much of a bar all the same.
LEAST_SHARE = 0.004


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, render_template, request

    routes = Blueprint("job", __name__, url_prefix=f"{PREFIX}/jobs/<name>")

    @routes.get("")
    def overview(name: str) -> str:
        """`part=`: `head` or `facts` alone, for a page that is shown already."""
        job = site.job(name)
        templates = {"head": "_job_head.html", "facts": "_job_facts.html"}
        template = templates.get(request.args.get("part", ""), "job.html")
        return render_template(template, **_facts(site, job), tab="overview")

    @routes.get("/report")
    def report(name: str) -> str:
        job = site.job(name)
        found = site.engine.reports.compiler(job.key)
        findings = list(site.engine.reports.findings(job.key) if found is None else found.findings)
        view = None if found is None else report_view(found)
        template = "_report.html" if request.args.get("part") == "report" else "report.html"
        return render_template(template, job=job, report=found, view=view, findings=findings, tab="report")

    return routes


def _facts(site: Site, job: TrainingJob) -> dict[str, Any]:
    described = site.jobs.describe_training_job(context(), {"TrainingJobName": job.key.name})
    return {
        "job": job,
        "described": described,
        "bill": site.engine.reports.bill(job),
        "steps": timeline(job),
        "findings": site.engine.reports.findings(job.key) if job.terminal else (),
        "final_metrics": described.get("FinalMetricDataList", []),
        "outputs": _outputs(site, job, described["ModelArtifacts"]["S3ModelArtifacts"]),
        "place": place(),
    }


def timeline(job: TrainingJob) -> list[dict[str, Any]]:
    """The secondary statuses; `left` and `width`: shares of the job's time so far, for a bar."""
    first = job.transitions[0].start_ms
    last = max(entry.end_ms or entry.start_ms for entry in job.transitions)
    whole = max(1, last - first)
    steps = []
    for entry in job.transitions:
        width = ((entry.end_ms or last) - entry.start_ms) / whole
        left = min((entry.start_ms - first) / whole, 1 - LEAST_SHARE)
        shares = {"left": round(left * 100, 2), "width": round(max(width, LEAST_SHARE) * 100, 2)}
        steps.append({"entry": entry, **shares})
    return steps


def _outputs(site: Site, job: TrainingJob, model: str) -> list[dict[str, Any]]:
    """What a job leaves in S3: name, URI, whether it is a prefix, bytes where it is an object that is there."""
    outputs: list[dict[str, Any]] = []
    for title, uri in (("Model", model), ("Output", f"{job.output_uri}/output.tar.gz")):
        prefix = uri.endswith("/")
        size = None if prefix else size_of(site, job.key.account, uri)
        outputs.append({"title": title, "uri": uri, "prefix": prefix, "size": size})
    if job.spec.checkpoint is not None:
        outputs.append({"title": "Checkpoints", "uri": job.spec.checkpoint.url, "prefix": True, "size": None})
    return outputs
