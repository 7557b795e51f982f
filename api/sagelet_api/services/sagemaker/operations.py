"""SageMaker's operations together. A new operation belongs to one of the classes that this module names."""

from functools import partial

from sagelet_api.protocol.operations import Operations, merged
from sagelet_api.services import not_run
from sagelet_api.services.moto.bridge import MotoBridge
from sagelet_api.services.sagemaker.job_operations import any_role
from sagelet_api.services.sagemaker.pipeline_service import PipelineOperations
from sagelet_api.services.sagemaker.processing_service import ProcessingJobs
from sagelet_api.services.sagemaker.registry_service import RegistryOperations
from sagelet_api.services.sagemaker.service import TrainingJobs
from sagelet_api.services.sagemaker.tags import TagOperations
from sagelet_api.services.sagemaker.tuning_service import TuningJobs
from sagelet_api.services.sagemaker.user_context import caller
from sagelet_engine.engine import Engine
from sagelet_engine.settings import Settings


class SageMaker:
    """`operations` is the table of all. The web pages call handlers of `jobs`, `tuning` and `pipelines`, too."""

    def __init__(self, engine: Engine, bridge: MotoBridge, settings: Settings) -> None:
        roles = bridge.iam.may_assume if settings.enforce_iam else any_role
        who = partial(caller, user_of_key=bridge.iam.user_of_key)
        self.jobs = TrainingJobs(engine, bridge.has_repository, roles)
        self.tuning = TuningJobs(engine, self.jobs.check)
        self.pipelines = PipelineOperations(engine, who, roles)
        processing = ProcessingJobs(engine, bridge.has_repository, roles)
        registry = RegistryOperations(engine, who, roles)
        bridge.sagemaker.know_models(registry.has_model)
        services = (self.jobs, processing, self.tuning, self.pipelines, registry)
        tags = TagOperations({name: kind for one in services for name, kind in one.taggable().items()})
        self.operations: Operations = {
            **merged(*(one.operations() for one in services), tags.operations()),
            **({} if settings.stubs else not_run.operations()),
        }
