"""The parts of botocore that the server uses. The first use loads them (0.1 s), while no other thread loads any.

Modules of botocore import each other. So a thread may find one half loaded while another thread loads it.
"""

from typing import Any, NamedTuple

from sagelet_engine.base.loading import Late


class Signing(NamedTuple):
    """The module with botocore's signers, and what they sign with."""

    auth: Any
    AWSRequest: Any
    HTTPHeaders: Any
    Credentials: Any


class Models(NamedTuple):
    """What reads botocore's models of services, and what it raises for a service that botocore does not have."""

    Loader: Any
    ServiceModel: Any
    DataNotFoundError: Any


def _load_signing() -> Signing:
    from botocore import auth
    from botocore.awsrequest import AWSRequest
    from botocore.compat import HTTPHeaders
    from botocore.credentials import Credentials

    return Signing(auth, AWSRequest, HTTPHeaders, Credentials)


def _load_models() -> Models:
    from botocore.exceptions import DataNotFoundError
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return Models(Loader, ServiceModel, DataNotFoundError)


signing = Late(_load_signing)
models = Late(_load_models)


def model_data(name: str) -> Any:
    """Returns the JSON of botocore's model of a service: `metadata`, `operations`, `shapes`.

    The service has no operations if this botocore does not know it. Releases drop services that AWS closes.
    """
    loader = models().Loader()
    try:
        # botocore's own way to load one first looks at the directories of all (40 ms).
        version = loader.determine_latest_version(name, "service-2")
    except models().DataNotFoundError:
        return {"metadata": {}, "operations": {}, "shapes": {}}
    return loader.load_data(f"{name}/{version}/service-2")


def service_model(name: str) -> Any:
    """Returns botocore's model of a service. It is read anew: callers keep it."""
    return models().ServiceModel(models().Loader().load_service_model(name, "service-2"), name)
