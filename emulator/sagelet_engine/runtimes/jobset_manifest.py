"""A launch plan as Kubernetes objects: a JobSet, its environment and its network policy. Pure data; nobody has run it.

How the runtime port maps to Kubernetes, and why so, is docs/explanation/kubernetes.md. Field names are those of
jobset.x-k8s.io/v1alpha2, batch/v1, core/v1 and networking.k8s.io/v1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sagelet_engine.errors import ClientFault
from sagelet_engine.instances import catalogue
from sagelet_engine.runtimes.docker_spec import METADATA_ADDRESSES
from sagelet_engine.runtimes.port import WARM_POOL_CACHE, HostPlan, LaunchPlan

Manifest = dict[str, Any]

PREFIX = "org.sagelet/"
JOB_ID, JOB_NAME, HOST, OWNER = (f"{PREFIX}{name}" for name in ("job-id", "job-name", "host", "owner"))
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"

#: Share of an instance type's cores and memory that is asked for: a node keeps the rest for itself.
ASKED_SHARE = 0.9
#: Kubernetes' own limit is for a server that is gone for good: it comes after sagelet's.
DEADLINE_MARGIN_SECONDS = 600
#: A server that was away for a day still finds how its hosts ended.
KEPT_SECONDS = 24 * 3600
DATA_VOLUME = "data"


@dataclass(frozen=True)
class Site:
    """What a cluster's people decide."""

    namespace: str
    #: The data directory as the server sees it, and the ReadWriteMany claim that holds it.
    data: Path
    claim: str
    #: Tells apart the servers that share a namespace.
    owner: str
    #: The server's user and group: files in /opt/ml belong to them. Never root.
    user: int = 1000
    group: int = 1000
    #: A LocalQueue of Kueue, which starts all hosts of a job or none; None: no gang scheduling.
    queue: str | None = None
    #: A node label; each host has a domain of it to itself (`kubernetes.io/hostname`: a node, as on AWS).
    exclusive: str | None = None
    #: Claims of the directories of --file-system.
    file_systems: Mapping[Path, str] = field(default_factory=dict)
    cluster_domain: str = "cluster.local"
    stop_grace_seconds: int = 120


@dataclass(frozen=True)
class Demand:
    """What a launch plan does not say of a job."""

    #: Instance type of each host.
    instance_types: Mapping[str, str]
    max_runtime_seconds: int


def manifests(plan: LaunchPlan, demand: Demand, site: Site) -> list[Manifest]:
    """What `launch` would create, in this order. Raises ClientFault when a file system has no claim."""
    return [_environment(plan, site), _network_policy(plan, site), _job_set(plan, demand, site)]


def name_of(plan: LaunchPlan) -> str:
    """With the suffix of a pod it stays below DNS's 63 characters: a launch id has 32, and its attempt."""
    return f"sagelet-{plan.job_id}"


def _labels(plan: LaunchPlan, site: Site) -> dict[str, str]:
    return {JOB_ID: plan.job_id, JOB_NAME: plan.job_name, OWNER: site.owner}


def _metadata(plan: LaunchPlan, site: Site, **more: Any) -> Manifest:
    return {"name": name_of(plan), "namespace": site.namespace, "labels": _labels(plan, site), **more}


def _environment(plan: LaunchPlan, site: Site) -> Manifest:
    """A Secret: it holds the job's credentials, and whoever may look at pods may not look at secrets."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _metadata(plan, site),
        "type": "Opaque",
        "immutable": True,
        "stringData": {"HOME": "/tmp", **plan.environment},
    }


def _network_policy(plan: LaunchPlan, site: Site) -> Manifest:
    """Into a host come only the job's others; out goes anything but for metadata services, or nothing if isolated."""
    hosts = {"podSelector": {"matchLabels": {JOB_ID: plan.job_id}}}
    metadata_services = [f"{address}/32" for address in METADATA_ADDRESSES]
    anywhere = {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": metadata_services}}]}
    names = {
        "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
        "ports": [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")],
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(plan, site),
        "spec": {
            "podSelector": hosts["podSelector"],
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [hosts]}],
            "egress": [{"to": [hosts]}, names] if plan.network_isolation else [{"to": [hosts]}, names, anywhere],
        },
    }


def _job_set(plan: LaunchPlan, demand: Demand, site: Site) -> Manifest:
    annotations = {} if site.exclusive is None else {EXCLUSIVE: site.exclusive}
    metadata = _metadata(plan, site, annotations=annotations)
    if site.queue is not None:
        metadata["labels"] |= {KUEUE_QUEUE: site.queue}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": name_of(plan), "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All"},
            # Attempts are sagelet's: each has a launch id, directories and log streams of its own.
            "failurePolicy": {"maxRestarts": 0},
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "replicatedJobs": [_replicated_job(plan, host, demand, site) for host in plan.hosts],
        },
    }


def _replicated_job(plan: LaunchPlan, host: HostPlan, demand: Demand, site: Site) -> Manifest:
    """One a host: hosts differ in instance type, volumes and name, which the pods of one Job cannot."""
    deadline = demand.max_runtime_seconds + site.stop_grace_seconds + DEADLINE_MARGIN_SECONDS
    labels = {**_labels(plan, site), HOST: host.name}
    return {
        "name": host.name,
        "replicas": 1,
        "template": {
            "metadata": {"labels": labels},
            "spec": {
                "completions": 1,
                "parallelism": 1,
                # An Indexed Job names its pods itself; without, the pod's own hostname stays.
                "completionMode": "NonIndexed",
                "backoffLimit": 0,
                "activeDeadlineSeconds": deadline,
                "template": {"metadata": {"labels": labels}, "spec": _pod(plan, host, demand, site)},
            },
        },
    }


def _pod(plan: LaunchPlan, host: HostPlan, demand: Demand, site: Site) -> Manifest:
    domain = f"{name_of(plan)}.{site.namespace}.svc.{site.cluster_domain}"
    return {
        "hostname": host.name,
        # So that `algo-2` is found, not only `algo-2.SUBDOMAIN`.
        "dnsConfig": {"searches": [domain]},
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": site.stop_grace_seconds,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": site.user,
            "runAsGroup": site.group,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(plan, host, demand, site)],
        "volumes": [
            {"name": DATA_VOLUME, "persistentVolumeClaim": {"claimName": site.claim}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(plan.shm_bytes)}},
            *(_claim_volume(number, mount.source, site) for number, mount in enumerate(host.mounts)),
        ],
    }


def _container(plan: LaunchPlan, host: HostPlan, demand: Demand, site: Site) -> Manifest:
    gpus = catalogue.gpu_count(demand.instance_types[host.name])
    return {
        "name": "training",
        "image": plan.image,
        **({} if plan.entrypoint is None else {"command": list(plan.entrypoint)}),
        "args": list(plan.arguments),
        "envFrom": [{"secretRef": {"name": name_of(plan)}}],
        # Images say `all`, and a runtime class of NVIDIA's would believe them.
        "env": [] if gpus else [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
        "resources": _resources(host, demand.instance_types[host.name], gpus),
        "securityContext": {"allowPrivilegeEscalation": False, "privileged": False, "capabilities": {"drop": ["ALL"]}},
        "terminationMessagePolicy": "File",
        "volumeMounts": [*_own_mounts(host, site), {"name": "shm", "mountPath": "/dev/shm"}, *_file_systems(host)],
    }


def _resources(host: HostPlan, instance_type: str, gpus: int) -> Manifest:
    """A type that the catalogue does not have asks for nothing: the namespace's own defaults count."""
    found = catalogue.find(instance_type)
    requests: dict[str, str] = {}
    if found is not None:
        requests = {
            "cpu": f"{int(found.vcpus * ASKED_SHARE * 1000)}m",
            "memory": f"{int(found.memory_gib * ASKED_SHARE * 1024)}Mi",
        }
    limits = {} if host.memory_bytes is None else {"memory": str(host.memory_bytes)}
    if gpus:
        limits["nvidia.com/gpu"] = str(gpus)
    return {"requests": requests, "limits": limits}


def _own_mounts(host: HostPlan, site: Site) -> Sequence[Manifest]:
    """Parts of the data directory: /opt/ml, over it what can only be read, and a warm pool's cache."""
    mounts = [_mount(host.opt_ml, "/opt/ml", site)]
    mounts += [_mount(host.opt_ml / path, f"/opt/ml/{path}", site) | {"readOnly": True} for path in host.read_only]
    if host.cache is not None:
        mounts.append(_mount(host.cache, f"/opt/ml/{WARM_POOL_CACHE}", site))
    return mounts


def _mount(directory: Path, at: str, site: Site) -> Manifest:
    return {"name": DATA_VOLUME, "mountPath": at, "subPath": str(directory.relative_to(site.data))}


def _file_systems(host: HostPlan) -> Sequence[Manifest]:
    return [
        {"name": f"file-system-{number}", "mountPath": f"/opt/ml/{mount.target}", "readOnly": mount.read_only}
        for number, mount in enumerate(host.mounts)
    ]


def _claim_volume(number: int, directory: Path, site: Site) -> Manifest:
    claim = site.file_systems.get(directory)
    if claim is None:
        raise ClientFault(f"The file system in {directory} has no claim in the namespace {site.namespace}; name one")
    return {"name": f"file-system-{number}", "persistentVolumeClaim": {"claimName": claim}}
