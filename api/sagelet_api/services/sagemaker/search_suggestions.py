"""GetSearchSuggestions with Resource=TrainingJob: names of properties that Search can use."""

from collections.abc import Iterator
from functools import cache
from typing import Any

from sagelet_api.protocol.members import Output, Request
from sagelet_api.protocol.operations import Context
from sagelet_api.protocol.validation import rule_book
from sagelet_engine.engine import Engine

#: AWS documents no limit. The answer has no pages.
MOST = 100


class SearchSuggestions:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get_search_suggestions(self, context: Context, request: Request) -> Output:
        """Returns members of a training job, and the hyperparameters, tags and metrics of this account's jobs."""
        query = request.get("SuggestionQuery", {}).get("PropertyNameQuery", {})
        beginning = query.get("PropertyNameHint", "")
        found = {name for name in members() if name.startswith(beginning)}
        found |= {*self._engine.jobs.property_names(context.account, context.region, beginning, MOST)}
        return {"PropertyNameSuggestions": [{"PropertyName": name} for name in sorted(found)[:MOST]]}


@cache
def members() -> frozenset[str]:
    """Returns names of the single values in the shape TrainingJob. `Tags.KEY` is about a tag with that key, not about
    the model.
    """
    found = _values(rule_book("sagemaker").shape("TrainingJob"), "")
    return frozenset(name for name in found if not name.startswith("Tags."))


def _values(shape: Any, prefix: str) -> Iterator[str]:
    for name, member in shape.members.items():
        while member.type_name == "list":
            member = member.member
        if member.type_name == "structure":
            yield from _values(member, f"{prefix}{name}.")
        elif member.type_name != "map":
            yield f"{prefix}{name}"
