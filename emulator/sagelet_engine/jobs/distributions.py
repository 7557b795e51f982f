"""What a job's `distribution=` needs and cannot have here: such a job fails before it starts and says why.

The launchers are the image's (images/runtime, workers/). Never fewer workers than AWS would start: that changes the
batch over all workers, and so the result.
"""

import json
from collections.abc import Mapping

from sagelet_engine import aws_texts
from sagelet_engine.errors import ClientFault
from sagelet_engine.images.variants import is_training_image
from sagelet_engine.instances.catalogue import gpu_count
from sagelet_engine.instances.gpus import NoCapacity
from sagelet_engine.jobs.record import InstanceGroup, TrainingJob

XLA = "sagemaker_pytorch_xla_multi_worker_enabled"
#: Hyperparameters by which the SDK asks for a launcher that our image has, and what `distribution=` calls it.
LAUNCHERS = {
    XLA: "pytorchxla",
    "sagemaker_distributed_dataparallel_enabled": "smdistributed",
    "sagemaker_pytorch_ddp_enabled": "pytorchddp",
    "sagemaker_torch_distributed_enabled": "torch_distributed",
}
#: Those that it has not.
REFUSED = {
    "sagemaker_mpi_enabled": "mpi",
    "sagemaker_parameter_server_enabled": "parameter_server",
    "sagemaker_multi_worker_mirrored_strategy_enabled": "multi_worker_mirrored_strategy",
}
#: Of `distribution={..., "instance_groups": [...]}`.
GROUPS = "sagemaker_distribution_instance_groups"

#: What one worker takes before it has a model, in MiB: measured with torch 2.9.0 and torch_xla 2.9.0 on CPUs (memory of
#: its own, after the first computation: 528 compiled, 264 with torch alone), rounded down.
COMPILED_WORKER, NATIVE_WORKER = 500, 250
MEBIBYTE = 1024 * 1024


def check(job: TrainingJob, image: str, memory: int | None = None) -> None:
    """Raises ClientFault for a launcher that `image` lacks, NoCapacity when the workers cannot fit.

    `memory`: bytes of this machine; None: those that it has. Images that are not ours bring their own launchers.
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
    """How many workers the image's launcher starts; 1 where none is asked for."""
    if not any(_enabled(job, flag) for flag in LAUNCHERS):
        return 1
    return sum(len(group.hosts) * max(1, gpu_count(group.instance_type)) for group in _chosen(job))


def machine_memory() -> int:
    """Bytes of this machine's memory."""
    import psutil  # 15 ms that only such a job pays

    return int(psutil.virtual_memory().total)


def _gib(size: int) -> str:
    return f"{size / 1024**3:.1f} GiB"


def _chosen(job: TrainingJob) -> list[InstanceGroup]:
    """The instance groups that the launcher is for."""
    try:
        chosen = json.loads(job.request["HyperParameters"][GROUPS])
    except (KeyError, ValueError):
        chosen = None
    groups = list(job.instance_groups)
    return [group for group in groups if group.name in chosen] if isinstance(chosen, list) else groups


def _enabled(job: TrainingJob, name: str) -> bool:
    """The SDKs send `true` or `"true"`."""
    asked: Mapping[str, str] = job.request.get("HyperParameters", {})
    return str(asked.get(name, "")).strip().strip("\"'").lower() in ("true", "1", "yes")
