"""The CreateTrainingJob request of a job, to copy: JSON, boto3, the SageMaker SDKs."""

import json
from typing import TYPE_CHECKING

from sagelet_api.bidirectional import escaped
from sagelet_api.web import PREFIX
from sagelet_api.web.actions import request_of
from sagelet_api.web.site import Site
from sagelet_api.web.snippets.boto3 import boto3_code
from sagelet_api.web.snippets.sdk_v2 import sdk_v2_code
from sagelet_api.web.snippets.sdk_v3 import sdk_v3_code

if TYPE_CHECKING:
    from flask import Blueprint


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, render_template, request

    routes = Blueprint("code", __name__, url_prefix=f"{PREFIX}/jobs/<name>")

    @routes.get("/request")
    def page(name: str) -> str:
        job = site.job(name)
        wanted, region = request_of(job), job.key.region
        texts = [
            ("json", "JSON", json.dumps(wanted, indent=2, ensure_ascii=False)),
            ("boto3", "boto3", boto3_code(wanted, region, request.host_url.rstrip("/"))),
            ("sdk-v2", "SageMaker SDK v2", sdk_v2_code(wanted)),
            ("sdk-v3", "SageMaker SDK v3", sdk_v3_code(wanted, region)),
        ]
        shown = [(id, title, escaped(text)) for id, title, text in texts]
        return render_template("request.html", job=job, texts=shown, tab="request")

    return routes
