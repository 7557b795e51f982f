"""The CreateTrainingJob request of a job, to copy: JSON, boto3, the AWS CLI, the SageMaker SDKs."""

import json
from typing import TYPE_CHECKING

from sagelet_api.bidirectional import escaped
from sagelet_api.web import PREFIX
from sagelet_api.web.actions import request_of
from sagelet_api.web.site import Site
from sagelet_api.web.snippets.boto3 import boto3_code
from sagelet_api.web.snippets.cli import cli_code
from sagelet_api.web.snippets.sdk_v2 import sdk_v2_code
from sagelet_api.web.snippets.sdk_v3 import sdk_v3_code
from sagelet_engine.model.training import TrainingJob

if TYPE_CHECKING:
    from flask import Blueprint

#: An id for the page, a title, and the text.
Text = tuple[str, str, str]


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, render_template, request

    routes = Blueprint("code", __name__, url_prefix=f"{PREFIX}/jobs/<name>")

    @routes.get("/request")
    def page(name: str) -> str:
        job = site.job(name)
        texts = job_texts(job, request.host_url.rstrip("/"))
        return render_template("request.html", job=job, texts=texts, tab="request")

    return routes


def job_texts(job: TrainingJob, endpoint: str) -> list[Text]:
    """Returns the CreateTrainingJob request of a job in each form."""
    wanted, region = request_of(job), job.key.region
    return shown(
        ("json", "JSON", json.dumps(wanted, indent=2, ensure_ascii=False)),
        ("boto3", "boto3", boto3_code(wanted, region, endpoint)),
        ("aws-cli", "AWS CLI", cli_code("create-training-job", wanted, region, endpoint)),
        ("sdk-v2", "SageMaker SDK v2", sdk_v2_code(wanted)),
        ("sdk-v3", "SageMaker SDK v3", sdk_v3_code(wanted, region)),
    )


def shown(*texts: Text) -> list[Text]:
    """Returns the texts as pages may show them."""
    return [(id, title, escaped(text)) for id, title, text in texts]
