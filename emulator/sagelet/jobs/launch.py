"""From a job to a launch plan: entry point, environment and limits of its hosts."""

import json
from collections.abc import Mapping
from pathlib import Path

from sagelet.compile_cache.lending import PLACE
from sagelet.data.channels.channel import InputMode, channels_for
from sagelet.data.file_systems import NO_FILE_SYSTEMS, directory_of
from sagelet.data.layout import JobDirectories
from sagelet.instances.catalogue import gpu_count
from sagelet.instances.gpus import gpus_of
from sagelet.jobs import sdk_v3
from sagelet.jobs.record import TrainingJob
from sagelet.runtimes.port import WARM_POOL_CACHE, HostPlan, LaunchPlan, Mount, Runtime

#: Read by images/runtime, pjrt_front.c.
COMPILE_CACHE = {"SAGELET_COMPILE_CACHE": f"/opt/ml/{PLACE}"}


def launch_plan(
    job: TrainingJob,
    directories: JobDirectories,
    runtime: Runtime,
    port: int,
    file_systems: Mapping[str, Path] = NO_FILE_SYSTEMS,
    *,
    cache: bool = False,
) -> LaunchPlan:
    """What the runtime starts. `port` is where the hosts find sagelet's endpoint, `cache`: they have compiled programs.

    Raises ClientFault.
    """
    assert job.image is not None
    algorithm = job.request["AlgorithmSpecification"]
    entrypoint = sdk_v3.entrypoint(job)
    arguments = tuple(algorithm.get("ContainerArguments", ()))
    return LaunchPlan(
        job_id=job.launch_id,
        job_name=job.key.name,
        image=job.image,
        hosts=tuple(_host(job, directories, name, file_systems) for name in job.hosts),
        entrypoint=entrypoint or None,
        # AWS runs `IMAGE train` only when the request names neither.
        arguments=arguments if entrypoint or arguments else ("train",),
        environment=environment(job, f"http://{runtime.endpoint_host}:{port}") | (COMPILE_CACHE if cache else {}),
        network_isolation=bool(job.request.get("EnableNetworkIsolation")),
    )


def _host(job: TrainingJob, directories: JobDirectories, name: str, file_systems: Mapping[str, Path]) -> HostPlan:
    host = directories.host(name)
    channels = channels_for(job, name)
    return HostPlan(
        name,
        host.opt_ml,
        host.run,
        read_only=tuple(f"input/data/{one.name}" for one in channels if one.mode is InputMode.FAST_FILE),
        cache=host.cache,
        mounts=tuple(
            Mount(directory_of(one.file_system, file_systems), f"input/data/{one.name}", not one.file_system.writable)
            for one in channels
            if one.file_system is not None
        ),
        gpu_uuids=gpus_of(job, name),
    )


def environment(job: TrainingJob, endpoint: str) -> dict[str, str]:
    """What real containers see (container environment of public jobs), AWS's endpoint being sagelet's.

    The access key is the account number, which is how sagelet tells accounts apart; no key of the machine goes in.
    """
    key, groups = job.key, job.instance_groups
    platform = {
        "TRAINING_JOB_NAME": key.name,
        "TRAINING_JOB_ARN": key.arn,
        "AWS_REGION": key.region,
        "AWS_DEFAULT_REGION": key.region,
        "AWS_ACCESS_KEY_ID": key.account,
        "AWS_SECRET_ACCESS_KEY": "sagelet",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": endpoint,
        # sagemaker-training reads its own variable first.
        "S3_ENDPOINT_URL": endpoint,
        "SAGEMAKER_METRICS_DIRECTORY": "/opt/ml/output/metrics/sagemaker",
        "DMLC_INTERFACE": "eth0",
        # How many workers each host of a distribution has: the container knows its type, not the catalogue.
        "SAGELET_INSTANCE_GPUS": json.dumps({each.instance_type: gpu_count(each.instance_type) for each in groups}),
        "SAGELET_TRAINING_IMAGE": job.request["AlgorithmSpecification"].get("TrainingImage", ""),
    }
    if job.cluster is not None:
        platform["SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"] = f"/opt/ml/{WARM_POOL_CACHE}"
    return {**platform, **sdk_v3.environment(job), **job.request.get("Environment", {})}
