"""GetSearchSuggestions with the Resources that sagelet searches: names of properties that Search can use."""

from sagelet_api.protocol.members import Output, Request
from sagelet_api.protocol.operations import Context
from sagelet_api.services.sagemaker.search import check_searched
from sagelet_api.services.sagemaker.search_properties import TRAINING_JOBS, TUNING_JOBS
from sagelet_engine.engine import Engine

#: AWS documents no limit. The answer has no pages.
MOST = 100


class SearchSuggestions:
    def __init__(self, engine: Engine) -> None:
        self._found = {
            "TrainingJob": (TRAINING_JOBS, engine.jobs.property_names),
            "HyperParameterTuningJob": (TUNING_JOBS, engine.tuning.property_names),
        }

    def get_search_suggestions(self, context: Context, request: Request) -> Output:
        """Returns members of the resource, and the hyperparameters, tags and metrics of this account's records."""
        query = request.get("SuggestionQuery", {}).get("PropertyNameQuery", {})
        beginning = query.get("PropertyNameHint", "")
        check_searched(request["Resource"])
        properties, names = self._found[request["Resource"]]
        found = {name for name in properties.single_values if name.startswith(beginning)}
        found |= {*names(context.account, context.region, beginning, MOST)}
        return {"PropertyNameSuggestions": [{"PropertyName": name} for name in sorted(found)[:MOST]]}
