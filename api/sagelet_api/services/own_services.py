"""The AWS services that sagelet answers itself, as tables of operations. A new operation belongs to one of them.

SageMaker's and CloudWatch Logs' operations are loaded by the first call of the service.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sagelet_api.protocol.operations import LateOperations, Operations, RestOperation
from sagelet_api.services.iam.identity import Identity
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.sagemaker.metrics import SageMakerMetrics
from sagelet_engine.base.loading import Late
from sagelet_engine.engine import Engine
from sagelet_engine.settings import Settings

if TYPE_CHECKING:
    from sagelet_api.services.sagemaker.operations import SageMaker


class OwnServices:
    """The services that sagelet implements, except S3, whose protocol is different (`services/s3`)."""

    def __init__(self, engine: Engine, bridge: MotoBridge, settings: Settings) -> None:
        def sagemaker() -> "SageMaker":
            from sagelet_api.services.sagemaker.operations import SageMaker

            return SageMaker(engine, bridge, settings)

        def logs() -> Operations:
            from sagelet_api.services.logs.service import TrainingLogs

            return TrainingLogs(engine, bridge.log_groups).operations()

        bridge.iam.keep_in(engine.iam)
        self.sagemaker = Late(sagemaker)
        #: By the service's signing name. moto answers an operation that is in no table.
        self.tables: dict[str, Operations] = {
            "sagemaker": LateOperations(lambda: self.sagemaker().operations),
            "logs": LateOperations(logs),
            **Identity(bridge.iam, engine.keys).services(),
        }
        #: Operations of a REST service, which are found by their path.
        self.rest: Sequence[RestOperation] = SageMakerMetrics(engine, bridge.has_trial_component).operations()
