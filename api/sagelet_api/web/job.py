"""The page of a job."""

from typing import TYPE_CHECKING

from sagelet_api.web import PREFIX
from sagelet_api.web.site import Site

if TYPE_CHECKING:
    from flask import Blueprint


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint, render_template

    routes = Blueprint("job", __name__, url_prefix=f"{PREFIX}/jobs/<name>")

    @routes.get("")
    def overview(name: str) -> str:
        return render_template("job.html", job=site.job(name))

    return routes
