"""The AWS services that sagelet answers itself, as tables of operations. A new operation belongs to one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sagelet_api.protocol.operations import Operations, RestOperation, merged
from sagelet_api.services import not_run
from sagelet_api.services.iam.identity import Identity
from sagelet_api.services.logs.service import TrainingLogs
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.sagemaker.job_operations import any_role
from sagelet_api.services.sagemaker.metrics import SageMakerMetrics
from sagelet_api.services.sagemaker.pipeline_service import PipelineOperations
from sagelet_api.services.sagemaker.processing_service import ProcessingJobs
from sagelet_api.services.sagemaker.service import TrainingJobs
from sagelet_api.services.sagemaker.tuning_service import TuningJobs
from sagelet_engine.engine import Engine
from sagelet_engine.settings import Settings


@dataclass(frozen=True)
class OwnServices:
    """The services that sagelet implements, except S3, whose protocol is different (`services/s3`)."""

    #: By the service's signing name. moto answers an operation that is in no table.
    tables: Mapping[str, Operations]
    #: Operations of a REST service, which are found by their path.
    rest: Sequence[RestOperation]
    #: The web pages call these handlers, too.
    jobs: TrainingJobs
    tuning: TuningJobs
    pipelines: PipelineOperations


def own_services(engine: Engine, bridge: MotoBridge, settings: Settings) -> OwnServices:
    roles = bridge.iam.may_assume if settings.enforce_iam else any_role
    jobs = TrainingJobs(engine, bridge.has_repository, roles)
    tuning = TuningJobs(engine, jobs.check)
    processing = ProcessingJobs(engine, bridge.has_repository, roles)
    pipelines = PipelineOperations(engine, roles)
    tables: Mapping[str, Operations] = {
        "sagemaker": {
            **merged(*(one.operations() for one in (jobs, processing, tuning, pipelines))),
            **({} if settings.stubs else not_run.operations()),
        },
        "logs": TrainingLogs(engine, bridge.log_groups).operations(),
        **Identity(bridge.iam, engine.keys).services(),
    }
    rest = SageMakerMetrics(engine, bridge.has_trial_component).operations()
    return OwnServices(tables, rest, jobs, tuning, pipelines)
