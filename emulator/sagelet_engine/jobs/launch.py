"""From a job to a launch plan: entry point, environment and limits of its hosts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sagelet_engine.compile_cache.lending import PLACE
from sagelet_engine.data.channels.channel import InputMode, channels_for
from sagelet_engine.data.file_systems import NO_FILE_SYSTEMS, directory_of
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.data.volume import GIB
from sagelet_engine.hub.access import HERE_ALONE, reader
from sagelet_engine.hub.access import PATH as HUB
from sagelet_engine.instances import catalogue
from sagelet_engine.instances.gpus import gpus_of
from sagelet_engine.jobs import sdk_v3
from sagelet_engine.jobs.record import TrainingJob
from sagelet_engine.jobs.session import session_key
from sagelet_engine.keys import KeyPair
from sagelet_engine.runtimes.port import WARM_POOL_CACHE, HostPlan, LaunchPlan, Mount, Runtime

#: Read by images/runtime, pjrt_front.c.
COMPILE_CACHE = {"SAGELET_COMPILE_CACHE": f"/opt/ml/{PLACE}"}
#: In /opt/ml/input/config: the certificate authority of a server with --tls.
CA_FILE = "sagelet-ca.pem"
#: Beside it: that and the authorities that clients trust anyway.
CA_BUNDLE = "sagelet-ca-bundle.pem"


@dataclass(frozen=True)
class Endpoint:
    """How the hosts of jobs come to this server."""

    port: int
    #: What their credentials are derived from.
    keys: KeyPair
    tls: bool = False
    #: Whether jobs are told of the hub.
    hub: bool = True

    def url(self, host: str) -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


def launch_plan(
    job: TrainingJob,
    directories: JobDirectories,
    runtime: Runtime,
    endpoint: Endpoint,
    file_systems: Mapping[str, Path] = NO_FILE_SYSTEMS,
    *,
    cache: bool = False,
) -> LaunchPlan:
    """What the runtime starts. `endpoint` is where the hosts find sagelet, `cache`: they have compiled programs.

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
        environment=environment(job, endpoint, runtime.endpoint_host) | (COMPILE_CACHE if cache else {}),
        network_isolation=bool(job.request.get("EnableNetworkIsolation")),
    )


def _host(job: TrainingJob, directories: JobDirectories, name: str, file_systems: Mapping[str, Path]) -> HostPlan:
    host = directories.host(name)
    channels = channels_for(job, name)
    instance = catalogue.find(job.group_of(name).instance_type)
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
        vcpus=None if instance is None else instance.vcpus,
        memory_bytes=None if instance is None else int(instance.memory_gib * GIB),
    )


def environment(job: TrainingJob, endpoint: Endpoint, host: str) -> dict[str, str]:
    """What real containers see (container environment of public jobs), AWS's endpoint being sagelet's.

    The credentials are the job's own and end with it; no key of the machine goes in.
    """
    key, types = job.key, [group.instance_type for group in job.instance_groups]
    given = job.request.get("Environment", {})
    url = endpoint.url(host)
    platform = {
        "TRAINING_JOB_NAME": key.name,
        "TRAINING_JOB_ARN": key.arn,
        "AWS_REGION": key.region,
        "AWS_DEFAULT_REGION": key.region,
        **({} if "AWS_ACCESS_KEY_ID" in given else _credentials(job, endpoint.keys)),
        **({"AWS_CA_BUNDLE": f"/opt/ml/input/config/{CA_FILE}"} if endpoint.tls else {}),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": url,
        # sagemaker-training reads its own variable first.
        "S3_ENDPOINT_URL": url,
        **_hub(job, endpoint, url),
        "SAGEMAKER_METRICS_DIRECTORY": "/opt/ml/output/metrics/sagemaker",
        "DMLC_INTERFACE": "eth0",
        # Sets the store at which its workers meet apart from another job's.
        "SAGELET_JOB_ID": job.launch_id,
        # Hosts with GPUs have to agree on what they do with them.
        "SAGELET_JOB_GPUS": str(len(job.gpus)),
        # How many workers each host of a distribution has: the container knows its type, not the catalogue.
        "SAGELET_INSTANCE_GPUS": json.dumps({one: catalogue.gpu_count(one) for one in types}),
        "SAGELET_TRAINING_IMAGE": job.request["AlgorithmSpecification"].get("TrainingImage", ""),
    }
    if job.cluster is not None:
        platform["SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"] = f"/opt/ml/{WARM_POOL_CACHE}"
    return {**platform, **sdk_v3.environment(job), **given}


def _hub(job: TrainingJob, endpoint: Endpoint, url: str) -> dict[str, str]:
    """Where clients of the Hugging Face Hub find ours. Without a network there is none to find."""
    given = "HF_ENDPOINT" in job.request.get("Environment", {})
    if given or not endpoint.hub or job.request.get("EnableNetworkIsolation"):
        return {}
    trust = f"/opt/ml/input/config/{CA_BUNDLE}"
    return {
        "HF_ENDPOINT": f"{url}{HUB}/{reader(endpoint.keys, job.id)}",
        **HERE_ALONE,
        # Of the clients of today (httpx) and of those before (requests): authorities of the world, and ours.
        **({"REQUESTS_CA_BUNDLE": trust, "SSL_CERT_FILE": trust} if endpoint.tls else {}),
    }


def _credentials(job: TrainingJob, keys: KeyPair) -> dict[str, str]:
    """Left out where the request brings keys: they do not go with our session token."""
    key = session_key(keys, job.id)
    return {
        "AWS_ACCESS_KEY_ID": key.access_key,
        "AWS_SECRET_ACCESS_KEY": key.secret,
        "AWS_SESSION_TOKEN": key.token,
    }
