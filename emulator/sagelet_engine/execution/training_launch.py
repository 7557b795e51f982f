"""Makes the launch plan of a training job: AWS's entry point and environment, its channels, the compile cache."""

from collections.abc import Mapping
from pathlib import Path

from sagelet_engine.compile_cache.host_copies import PLACE
from sagelet_engine.data import remote_function, sdk_v3
from sagelet_engine.data.file_systems import directory_of
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.execution.launch import Endpoint, common_environment, host_plan
from sagelet_engine.model.file_systems import NO_FILE_SYSTEMS
from sagelet_engine.model.runtime import WARM_POOL_CACHE, HostPlan, LaunchPlan, Mount, Runtime
from sagelet_engine.model.spec import InputMode
from sagelet_engine.model.training import TrainingJob

#: The variable that pjrt_front.c of images/runtime reads.
COMPILE_CACHE = {"SAGELET_COMPILE_CACHE": f"/opt/ml/{PLACE}"}


def launch_plan(
    job: TrainingJob,
    directories: JobDirectories,
    runtime: Runtime,
    endpoint: Endpoint,
    file_systems: Mapping[str, Path] = NO_FILE_SYSTEMS,
    *,
    cache: bool = False,
) -> LaunchPlan:
    """Returns the plan of what the runtime starts.

    `endpoint`: how hosts reach sagelet. `cache`: True if the hosts use the cache of compiled programs. Raises
    ClientFault.
    """
    assert job.image is not None
    entrypoint = sdk_v3.entrypoint(job)
    arguments = job.spec.arguments
    return LaunchPlan(
        job_id=job.launch_id,
        job_name=job.key.name,
        image=job.image,
        hosts=tuple(_host(job, directories, name, file_systems) for name in job.hosts),
        entrypoint=entrypoint or None,
        # AWS runs `IMAGE train` only if the request names neither.
        arguments=arguments if entrypoint or arguments else ("train",),
        environment=environment(job, endpoint, runtime.endpoint_host) | (COMPILE_CACHE if cache else {}),
        network_isolation=job.spec.network_isolation,
    )


def _host(job: TrainingJob, directories: JobDirectories, name: str, file_systems: Mapping[str, Path]) -> HostPlan:
    channels = job.spec.channels_for(name)
    return host_plan(
        job,
        directories,
        name,
        read_only=tuple(f"input/data/{one.name}" for one in channels if one.mode is InputMode.FAST_FILE),
        mounts=tuple(
            Mount(directory_of(one.file_system, file_systems), f"input/data/{one.name}", not one.file_system.writable)
            for one in channels
            if one.file_system is not None
        ),
    )


def environment(job: TrainingJob, endpoint: Endpoint, host: str) -> dict[str, str]:
    """Returns the environment of AWS's containers (as public jobs show it), with sagelet's endpoint in place of AWS's.

    The credentials belong to the job and end with it. No key of this machine is passed on.
    """
    platform = {
        "TRAINING_JOB_NAME": job.key.name,
        "TRAINING_JOB_ARN": job.key.arn,
        **common_environment(job, endpoint, host, "/opt/ml/input/config"),
        "SAGEMAKER_METRICS_DIRECTORY": "/opt/ml/output/metrics/sagemaker",
        "DMLC_INTERFACE": "eth0",
        "SAGELET_TRAINING_IMAGE": job.spec.image,
    }
    if job.cluster is not None:
        platform["SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"] = f"/opt/ml/{WARM_POOL_CACHE}"
    return {**platform, **sdk_v3.environment(job), **remote_function.environment(job.spec), **job.spec.environment}
