"""Mends what moto's SageMaker lacks: it asks sagelet's registry for models, and answers for experiments and tags
that it does not have (moto fails with an exception).
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

#: Account, region and name -> True if there is such a model.
HasModel = Callable[[str, str, str], bool]


class MotoSageMaker:
    """`know_models` tells moto's endpoint configurations which models exist."""

    def know_models(self, has_model: HasModel) -> None:
        _KNOWN.clear()
        _KNOWN.append(has_model)


#: Of the server in this process. Without one moto has no models.
_KNOWN: list[HasModel] = []


def mend(models: ModuleType) -> None:
    """Patches `moto.sagemaker.models`, as soon as that is loaded."""
    backend, error = vars(models)["SageMakerModelBackend"], vars(models)["ValidationError"]
    whole = backend._get_resource_from_arn

    def validate_production_variants(self: Any, production_variants: list[dict[str, Any]]) -> None:
        for one in production_variants:
            name = one.get("ModelName")
            # A variant without a model gets an inference component.
            if name is not None and not any(has(self.account_id, self.region_name, name) for has in _KNOWN):
                arn = f"arn:{self.partition}:sagemaker:{self.region_name}:{self.account_id}:model/{name.lower()}"
                raise error(message=f'Could not find model "{arn}".')

    def describe_experiment(self: Any, experiment_name: str) -> dict[str, Any]:
        found = self.experiments.get(experiment_name)
        if found is None:
            raise vars(models)["ResourceNotFound"](message=f"Experiment '{experiment_name}' does not exist.")
        return {
            "ExperimentName": found.experiment_name,
            "ExperimentArn": found.arn,
            "CreationTime": found.creation_time,
            "LastModifiedTime": found.last_modified_time,
        }

    def get_resource_from_arn(self: Any, arn: str) -> Any:
        try:
            found = whole(self, arn)
        except (AttributeError, ValueError):
            # moto has no such kind, or the ARN has no name.
            found = None
        if found is None:
            raise error(message="Requested resource not found.")
        return found

    backend.validate_production_variants = validate_production_variants
    backend.describe_experiment = describe_experiment
    backend._get_resource_from_arn = get_resource_from_arn
