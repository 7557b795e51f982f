"""A few operations in the form that the services have them, for tests of the front."""

import threading
from collections.abc import Mapping
from typing import Any

from sagelet_api.protocol.aws_errors import ResourceInUse
from sagelet_api.protocol.operations import Context, Operations, SharedOperation, owned_arn
from sagelet_api.services.own_services import OwnServices
from sagelet_engine.base.errors import SageletError

CREATED = 1732147200.125
ROLE = "arn:aws:iam::123456789012:role/SageMakerRole"


class FakeJobs:
    """A few small operations in the form of the services. They remember their requests."""

    def __init__(self) -> None:
        self.seen: list[tuple[Context, dict[str, Any]]] = []
        #: Ends the stops of a job called `waits`.
        self.leave = threading.Event()

    def create(self, context: Context, parameters: dict[str, Any]) -> Mapping[str, Any]:
        name = parameters["TrainingJobName"]
        if name == "taken":
            raise ResourceInUse(f"Training job names must be unique ({name})")
        if name == "full":
            raise SageletError("disk full: free space")
        if name == "broken":
            raise ZeroDivisionError("a bug of ours")
        self.seen.append((context, parameters))
        return {"TrainingJobArn": f"arn:aws:sagemaker:{context.region}:{context.account}:training-job/{name}"}

    def describe(self, context: Context, parameters: dict[str, Any]) -> Mapping[str, Any]:
        return {"TrainingJobName": parameters["TrainingJobName"], "CreationTime": CREATED}

    def stop(self, context: Context, parameters: dict[str, Any]) -> None:
        self.seen.append((context, parameters))
        if parameters["TrainingJobName"] == "waits":
            self.leave.wait()

    def list_tags(self, context: Context, parameters: dict[str, Any]) -> Mapping[str, Any]:
        return {"Tags": [{"Key": "served-by", "Value": "sagelet"}]}

    def streams(self, context: Context, parameters: dict[str, Any]) -> Mapping[str, Any]:
        return {"logStreams": [{"logStreamName": "job/algo-1-1"}]}

    def stand_in(self, own: OwnServices) -> None:
        """Takes the places of a server's own operations."""
        for service, operations in self.services().items():
            own.tables[service] = {**own.tables[service], **operations}

    def services(self) -> Mapping[str, Operations]:
        def is_training_log(_context: Context, parameters: Mapping[str, Any]) -> bool:
            return str(parameters.get("logGroupName")).startswith("/aws/sagemaker/TrainingJobs")

        return {
            "sagemaker": {
                "CreateTrainingJob": self.create,
                "DescribeTrainingJob": self.describe,
                "StopTrainingJob": self.stop,
                "ListTags": SharedOperation(self.list_tags, owned_arn("ResourceArn", "training-job/")),
            },
            "logs": {"DescribeLogStreams": SharedOperation(self.streams, is_training_log)},
        }
