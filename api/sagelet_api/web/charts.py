"""The curves of a job as JSON: its own metrics, the compiler's figures, what its hosts used."""

from typing import TYPE_CHECKING

from sagelet_api.web import PREFIX
from sagelet_api.web.curves import Chart, charts, curves
from sagelet_api.web.site import Site

if TYPE_CHECKING:
    from flask import Blueprint


def blueprint(site: Site) -> "Blueprint":
    from flask import Blueprint

    routes = Blueprint("charts", __name__, url_prefix=f"{PREFIX}/jobs/<name>")

    @routes.get("/curves")
    def of_job(name: str) -> dict[str, list[Chart]]:
        """Returns the charts for `charts.js`, by section: metrics, compiler, instances."""
        return charts(curves(site.engine, site.job(name)))

    return routes
