"""Makes the launch plan of a job: entry point, environment and limits of its hosts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sagelet_engine.base.keys import KeyPair
from sagelet_engine.base.volume import GIB
from sagelet_engine.compile_cache.host_copies import PLACE
from sagelet_engine.data import remote_function, sdk_v3
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.hub.access import HERE_ALONE, reader
from sagelet_engine.hub.access import PATH as HUB
from sagelet_engine.instances import catalogue
from sagelet_engine.instances.gpus import gpus_of
from sagelet_engine.model.file_systems import NO_FILE_SYSTEMS, directory_of
from sagelet_engine.model.job import Job
from sagelet_engine.model.runtime import WARM_POOL_CACHE, HostPlan, LaunchPlan, Mount, Runtime
from sagelet_engine.model.session import session_key
from sagelet_engine.model.spec import InputMode
from sagelet_engine.model.training import TrainingJob

#: The variable that pjrt_front.c of images/runtime reads.
COMPILE_CACHE = {"SAGELET_COMPILE_CACHE": f"/opt/ml/{PLACE}"}
#: The file in /opt/ml/input/config with the certificate authority of a server with --tls.
CA_FILE = "sagelet-ca.pem"
#: The file beside CA_FILE that holds this authority and the system's.
CA_BUNDLE = "sagelet-ca-bundle.pem"


@dataclass(frozen=True)
class Endpoint:
    """How jobs' hosts reach this server."""

    port: int
    #: The key pair from which the hosts' credentials are derived.
    keys: KeyPair
    tls: bool = False
    #: True if jobs get the hub's address.
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


def host_plan(
    job: Job,
    directories: JobDirectories,
    name: str,
    *,
    read_only: tuple[str, ...] = (),
    mounts: tuple[Mount, ...] = (),
) -> HostPlan:
    """Returns one host of a job. The instance type says what it may take of this machine."""
    host = directories.host(name)
    instance = catalogue.find(job.spec.group_of(name).instance_type)
    return HostPlan(
        name,
        host.opt_ml,
        host.run,
        read_only=read_only,
        cache=host.cache,
        mounts=mounts,
        gpu_uuids=gpus_of(job, name),
        vcpus=None if instance is None else instance.vcpus,
        memory_bytes=None if instance is None else int(instance.memory_gib * GIB),
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


def common_environment(job: Job, endpoint: Endpoint, host: str, config: str) -> dict[str, str]:
    """Returns what hosts of every kind of job have in their environment.

    `config`: the directory in /opt/ml that holds the certificates of a server with --tls.
    """
    key, types = job.key, job.spec.instance_types
    url = endpoint.url(host)
    return {
        "AWS_REGION": key.region,
        "AWS_DEFAULT_REGION": key.region,
        **({} if "AWS_ACCESS_KEY_ID" in job.spec.environment else _credentials(job, endpoint.keys)),
        **({"AWS_CA_BUNDLE": f"{config}/{CA_FILE}"} if endpoint.tls else {}),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": url,
        # sagemaker-training reads its own variable first.
        "S3_ENDPOINT_URL": url,
        **_hub(job, endpoint, url, f"{config}/{CA_BUNDLE}"),
        # Keeps the rendezvous store of its workers apart from another job's.
        "SAGELET_JOB_ID": job.launch_id,
        # Hosts with GPUs have to agree on how they use them.
        "SAGELET_JOB_GPUS": str(len(job.gpus)),
        # Gives the number of workers on each host. The container knows its instance type, but not the catalogue.
        "SAGELET_INSTANCE_GPUS": json.dumps({one: catalogue.gpu_count(one) for one in types}),
    }


def _hub(job: Job, endpoint: Endpoint, url: str, trust: str) -> dict[str, str]:
    """Returns the variables that lead the Hugging Face Hub's clients to sagelet's hub. Empty without a network."""
    given = "HF_ENDPOINT" in job.spec.environment
    if given or not endpoint.hub or job.spec.network_isolation:
        return {}
    return {
        "HF_ENDPOINT": f"{url}{HUB}/{reader(endpoint.keys, job.id)}",
        **HERE_ALONE,
        # New clients use httpx, older ones requests. The file has the system's authorities and the server's own.
        **({"REQUESTS_CA_BUNDLE": trust, "SSL_CERT_FILE": trust} if endpoint.tls else {}),
    }


def _credentials(job: Job, keys: KeyPair) -> dict[str, str]:
    """Returns the job's credentials. Empty if the request sets keys: sagelet's session token does not fit them."""
    key = session_key(keys, job.id)
    return {
        "AWS_ACCESS_KEY_ID": key.access_key,
        "AWS_SECRET_ACCESS_KEY": key.secret,
        "AWS_SESSION_TOKEN": key.token,
    }
