"""Members of CreateTrainingJob that AWS takes and that sagelet refuses: ignored, they would make it another job.

Each function yields one sentence a problem, with the remedy.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Request = Mapping[str, Any]


def other_jobs(request: Request) -> Iterator[str]:
    """Members that make other members optional; asked before those are missed. Needs what the model has checked."""
    if "ServerlessJobConfig" in request:
        yield (
            "ServerlessJobConfig is not supported by sagelet, which has no models of AWS's to customize; "
            "use AlgorithmSpecification and ResourceConfig"
        )
    resources = request.get("ResourceConfig", {})
    for name in ("SelectedInstanceType", "SelectedInstanceCount"):
        if name in resources:
            # The rule is documented (shape ResourceConfig).
            yield f"ResourceConfig.{name} is read-only and isn't accepted in CreateTrainingJob requests"
    if "InstancePreferences" in resources:
        yield "ResourceConfig.InstancePreferences is not supported by sagelet yet; use InstanceType and InstanceCount"


def problems(request: Request) -> Iterator[str]:
    """The rest, of a request that AWS would take."""
    if "AlgorithmName" in request["AlgorithmSpecification"]:
        yield "AlgorithmSpecification.AlgorithmName is not supported: sagelet has no algorithms; use TrainingImage"
