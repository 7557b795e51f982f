"""moto, divided into the roles that it has here. Nothing outside of this package touches moto.

moto's signatures change between releases. So the distribution pins it, and `tests/unit/api/test_moto_bridge.py` tests
what sagelet relies on.
"""

from collections.abc import Sequence

from sagelet_api.protocol.members import Output
from sagelet_api.services.moto.beside_s3 import MotoBesideS3
from sagelet_api.services.moto.events import MotoEvents
from sagelet_api.services.moto.functions import MotoFunctions
from sagelet_api.services.moto.iam import MotoIam
from sagelet_api.services.moto.metrics import MotoMetrics
from sagelet_api.services.moto.process import MotoProcess
from sagelet_api.services.moto.requests import MotoRequests
from sagelet_api.services.moto.sagemaker import MotoSageMaker


class MotoBridge:
    """moto's roles. `process` loads moto."""

    def __init__(self) -> None:
        self.process = MotoProcess()
        self.iam = MotoIam(self.process)
        self.requests = MotoRequests(self.process, self.iam)
        self.beside_s3 = MotoBesideS3(self.process)
        self.metrics = MotoMetrics(self.process.backend)
        self.events = MotoEvents(self.process)
        self.sagemaker = MotoSageMaker()
        self.functions = MotoFunctions(self.process, self.iam)

    def log_groups(self, account: str, region: str) -> Sequence[Output]:
        """Returns moto's own log groups, as DescribeLogGroups shows them."""
        groups = self.process.backend("logs")[account][region].groups
        return [group.to_describe_dict() for group in [*dict.values(groups)]]

    def has_repository(self, account: str, region: str, name: str) -> bool:
        """True if ECR has the repository. False in a region that does not exist."""
        registry = self.process.backend("ecr")[account]
        return region in registry and name in registry[region].repositories

    def has_trial_component(self, account: str, region: str, name: str) -> bool:
        return name in self.process.backend("sagemaker")[account][region].trial_components
