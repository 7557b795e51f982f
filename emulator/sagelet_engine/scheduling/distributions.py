"""Checks if this machine can run a job's `distribution=`. If not, the job fails before it starts, with the reason.

The image brings the launchers (images/runtime, workers/). A job never gets fewer workers than AWS would start: fewer
workers would change the global batch size, and so the result.
"""

import json

from sagelet_engine.base.errors import ClientFault
from sagelet_engine.images.variants import is_training_image
from sagelet_engine.instances.catalogue import gpu_count
from sagelet_engine.instances.gpus import NoCapacity
from sagelet_engine.model import aws_texts
from sagelet_engine.model.spec import InstanceGroup
from sagelet_engine.model.training import TrainingJob

XLA = "sagemaker_pytorch_xla_multi_worker_enabled"
#: The SDK's hyperparameters for launchers that sagelet's image has, and their names in `distribution=`.
LAUNCHERS = {
    XLA: "pytorchxla",
    "sagemaker_distributed_dataparallel_enabled": "smdistributed",
    "sagemaker_pytorch_ddp_enabled": "pytorchddp",
    "sagemaker_torch_distributed_enabled": "torch_distributed",
}
#: The hyperparameters and names of launchers that sagelet's image lacks.
REFUSED = {
    "sagemaker_mpi_enabled": "mpi",
    "sagemaker_parameter_server_enabled": "parameter_server",
    "sagemaker_multi_worker_mirrored_strategy_enabled": "multi_worker_mirrored_strategy",
}
#: The hyperparameter of `distribution={..., "instance_groups": [...]}`.
GROUPS = "sagemaker_distribution_instance_groups"

#: Memory of one worker before it has a model, in MiB, rounded down. Measured with torch 2.9.0 and torch_xla 2.9.0 on
#: CPUs: after its first computation a worker has 528 MiB of private memory if compiled, 264 MiB with torch alone.
COMPILED_WORKER, NATIVE_WORKER = 500, 250
MEBIBYTE = 1024 * 1024


def check(job: TrainingJob, image: str, memory: int | None = None) -> None:
    """Raises ClientFault for a launcher that `image` lacks, NoCapacity if the workers do not fit into memory.

    `memory`: bytes of this machine, or None to ask it. Images other than sagelet's bring their own launchers.
    """
    if not is_training_image(image):
        return
    for flag, name in REFUSED.items():
        if _enabled(job, flag):
            raise ClientFault(
                f"sagelet's training image has no launcher for distribution={{'{name}': ...}}. Use torch_distributed, "
                "pytorchddp or smdistributed, or pytorchxla in a job of the Training Compiler; for mpi, an image of "
                "your own that has mpirun and sshd"
            )
    count = workers(job)
    if count == 1:
        return
    floor = COMPILED_WORKER if _enabled(job, XLA) else NATIVE_WORKER
    needed = count * floor * MEBIBYTE
    there = machine_memory() if memory is None else memory
    if needed > there:
        raise NoCapacity(
            f"{aws_texts.NO_CAPACITY} (sagelet: {count} workers take at least {floor} MiB each before they have "
            f"a model, {_gib(needed)} in all; this machine has {_gib(there)}. Fewer workers would change the result: "
            "ask for fewer instances, or for a type with fewer GPUs)"
        )


def workers(job: TrainingJob) -> int:
    """Returns how many workers the image's launcher starts, or 1 if the job asks for no launcher."""
    if not any(_enabled(job, flag) for flag in LAUNCHERS):
        return 1
    return sum(len(group.hosts) * max(1, gpu_count(group.instance_type)) for group in _chosen(job))


def machine_memory() -> int:
    """Returns the bytes of this machine's memory."""
    import psutil  # Imported here because it takes 15 ms and only jobs with a launcher need it.

    return int(psutil.virtual_memory().total)


def _gib(size: int) -> str:
    return f"{size / 1024**3:.1f} GiB"


def _chosen(job: TrainingJob) -> list[InstanceGroup]:
    """Returns the instance groups that the launcher is for."""
    try:
        chosen = json.loads(job.spec.hyperparameters[GROUPS])
    except (KeyError, ValueError):
        chosen = None
    groups = list(job.spec.instance_groups)
    return [group for group in groups if group.name in chosen] if isinstance(chosen, list) else groups


def _enabled(job: TrainingJob, name: str) -> bool:
    """True if the hyperparameter `name` is on. The SDKs send `true` or `"true"`."""
    return str(job.spec.hyperparameters.get(name, "")).strip().strip("\"'").lower() in ("true", "1", "yes")
