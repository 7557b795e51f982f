"""Finds which of botocore's models a signing name stands for, of services that sagelet or moto answers.

Several services share a signing name: SageMaker, its metrics and its runtime all sign as `sagemaker`. The table saves
loading 400 models to learn that (3 s). A unit test compares it with botocore's models.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True)
class ServiceModel:
    """How requests of one of botocore's services name their operation."""

    #: botocore's name of it: `cloudwatch`, whose requests are signed for `monitoring`.
    name: str
    #: The name before the operation's in X-Amz-Target (`SageMaker`), or in a path of RPC v2. None if it has no such
    #: name.
    prefix: str | None
    #: True if `Action` in a form or query string names the operation.
    query: bool
    #: True if method and path identify the operation.
    rest: bool

    @property
    def operations(self) -> frozenset[str]:
        return _operations(self.name)


def models_of(signing_name: str) -> tuple[ServiceModel, ...]:
    """Returns the models of a signing name. Empty for a service that nobody here answers."""
    return _table().get(signing_name, ())


def signing_name_of(model: str) -> str | None:
    return _signing_names().get(model)


@cache
def _table() -> Mapping[str, tuple[ServiceModel, ...]]:
    rows = json.loads(Path(__file__).with_suffix(".json").read_text())
    return {signing: tuple(_model(*one) for one in models.items()) for signing, models in rows.items()}


@cache
def _signing_names() -> Mapping[str, str]:
    return {model.name: signing for signing, models in _table().items() for model in models}


def _model(name: str, text: str) -> ServiceModel:
    words = text.split()
    return ServiceModel(name, words[-1] if "json" in words else None, "query" in words, "rest" in words)


@cache
def _operations(model: str) -> frozenset[str]:
    """Returns the names only: a model is large, and code that needs one loads it."""
    from botocore.loaders import Loader

    loader = Loader()
    # botocore's own way to load one first looks at the directories of all (40 ms).
    version = loader.determine_latest_version(model, "service-2")
    return frozenset(loader.load_data(f"{model}/{version}/service-2")["operations"])
