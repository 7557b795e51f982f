"""What the launch plans of all kinds of jobs have in common: how hosts reach the server, environment, limits."""

import json
from dataclasses import dataclass

from sagelet_engine.base.keys import KeyPair
from sagelet_engine.base.volume import GIB
from sagelet_engine.data.layout import JobDirectories
from sagelet_engine.execution.ca_certificates import CA_BUNDLE, CA_FILE
from sagelet_engine.hub.access import HERE_ALONE, reader
from sagelet_engine.hub.access import PATH as HUB
from sagelet_engine.instances import catalogue
from sagelet_engine.instances.gpus import gpus_of
from sagelet_engine.model.job import Job
from sagelet_engine.model.runtime import HostPlan, Mount
from sagelet_engine.model.session import session_key


@dataclass
class Endpoint:
    """How jobs' hosts reach this server."""

    #: A server without a port of its own gets one when it starts.
    port: int
    #: The key pair from which the hosts' credentials are derived.
    keys: KeyPair
    tls: bool = False
    #: True if jobs get the hub's address.
    hub: bool = True

    def url(self, host: str) -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


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
