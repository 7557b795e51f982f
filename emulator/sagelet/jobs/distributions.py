"""Distributions that would train silently wrong here: such a job fails before it starts and says why.

The runtime package runs the script as one worker a host, without the launchers of AWS's images. That is right as long
as one worker is all there is; workers that never find each other would each train a model of their own.
"""

import json
from collections.abc import Mapping

from sagelet.errors import ClientFault
from sagelet.instances.catalogue import gpu_count
from sagelet.jobs import sdk_v3
from sagelet.jobs.record import TrainingJob

XLA = "sagemaker_pytorch_xla_multi_worker_enabled"
#: Hyperparameters by which the SDK asks for a launcher, and what `distribution=` calls it.
LAUNCHERS = {
    "sagemaker_distributed_dataparallel_enabled": "smdistributed",
    "sagemaker_pytorch_ddp_enabled": "pytorchddp",
    "sagemaker_torch_distributed_enabled": "torch_distributed",
    "sagemaker_mpi_enabled": "mpi",
    "sagemaker_parameter_server_enabled": "parameter_server",
    "sagemaker_multi_worker_mirrored_strategy_enabled": "multi_worker_mirrored_strategy",
}
#: Of `distribution={..., "instance_groups": [...]}`.
GROUPS = "sagemaker_distribution_instance_groups"


def check(job: TrainingJob) -> None:
    """Raises ClientFault when the job would not be one training. Texts ours: AWS would run it."""
    groups = [group for group in job.instance_groups if group.name in _chosen(job)]
    hosts = sum(len(group.hosts) for group in groups)
    workers = sum(len(group.hosts) * max(1, gpu_count(group.instance_type)) for group in groups)
    if workers > 1 and _enabled(job, XLA):
        raise ClientFault(
            f"sagelet cannot run distribution={{'pytorchxla': ...}} over {workers} workers yet: each would train a "
            "model of its own. Use one instance with one GPU (ml.p3.2xlarge), or leave the distribution out"
        )
    for flag, name in LAUNCHERS.items():
        if hosts > 1 and _enabled(job, flag):
            raise ClientFault(
                f"sagelet cannot run distribution={{'{name}': ...}} over {hosts} instances yet: it has no launcher of "
                f"{name}, so each instance would train a model of its own. Use one instance, or leave the distribution "
                "out and let the script join its hosts (torch.distributed with MASTER_ADDR, MASTER_PORT and SM_HOSTS)"
            )


def _chosen(job: TrainingJob) -> list[str]:
    """Names of the instance groups that the launcher is for."""
    everything = [group.name for group in job.instance_groups]
    try:
        chosen = json.loads(job.request["HyperParameters"][GROUPS])
    except (KeyError, ValueError):
        return everything
    return chosen if isinstance(chosen, list) else everything


def _enabled(job: TrainingJob, name: str) -> bool:
    """The SDKs send `true` or `"true"`."""
    asked: Mapping[str, str] = job.request.get("HyperParameters", {})
    if sdk_v3.has_driver(job):
        # Variables ask for it, too.
        asked = {**asked, **sdk_v3.compiler_parameters(job)}
    value = str(asked.get(name, ""))
    return value.strip().strip("\"'").lower() in ("true", "1", "yes")
