"""The control endpoint that says where jobs are: account and region are part of every name."""

from typing import TYPE_CHECKING

from sagelet_engine.base.wire import JsonObject

if TYPE_CHECKING:
    from flask import Blueprint

    from sagelet_engine.engine import Engine


def blueprint(engine: "Engine") -> "Blueprint":
    from flask import Blueprint

    routes = Blueprint("places", __name__, url_prefix="/_sagelet/places")

    @routes.get("")
    def places() -> JsonObject:
        """Returns each account and region that has training jobs, and how many."""
        found = [(place, sum(engine.jobs.counts(*place).values())) for place in engine.jobs.places()]
        return {
            "places": [
                {"account": account, "region": region, "training_jobs": count}
                for (account, region), count in found
                if count
            ]
        }

    return routes
