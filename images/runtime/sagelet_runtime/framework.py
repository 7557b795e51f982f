"""Our SAGEMAKER_TRAINING_MODULE: prepares the environment of the user script and runs it through AWS's toolkit."""

import os
import platform
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sagemaker_training import entry_point, environment, errors

from sagelet_runtime import compilation, compiler, device, gpu, installed, uncompiled
from sagelet_runtime.say import say

MASTER_PORT = "7777"
LOOPBACK = "127.0.0.1"
STARTUP = str(Path(__file__).with_name("startup"))
NATIVE_LAUNCHER = "sagemaker_toolkit_native_launcher_enabled"

#: Framework parameters that ask for more than one worker, and what the SDK calls them.
DISTRIBUTIONS = {
    compiler.MULTI_WORKER: "pytorchxla",
    "sagemaker_distributed_dataparallel_enabled": "smdistributed",
    "sagemaker_pytorch_ddp_enabled": "pytorchddp",
    "sagemaker_torch_distributed_enabled": "torch_distributed",
    "sagemaker_mpi_enabled": "mpi",
}


def main() -> None:
    """Called by the toolkit once it has read /opt/ml/input/config."""
    run(environment.Environment())


def run(job: Any) -> None:
    """Runs the user script of `job`, a `sagemaker_training.environment.Environment`, as one worker.

    Raises the toolkit's ClientError and its subclasses, which become the failure file.
    """
    parameters = job.additional_framework_parameters
    name_image(os.environ)
    added = job.to_env_vars() | basic_environment(job, os.environ) | compiler_environment(job, os.environ)
    for name in requested_distributions(parameters):
        say(f"distribution {name} is requested; this host runs the script as one worker, without {name}'s launcher")
    entry_point.run(
        uri=job.module_dir,
        user_entry_point=job.user_entry_point,
        args=job.to_cmd_args(),
        env_vars=added,
        capture_error=not parameters.get(NATIVE_LAUNCHER),
    )


def requested_distributions(parameters: Mapping[str, object]) -> list[str]:
    return [name for flag, name in DISTRIBUTIONS.items() if compiler.parse_flag(flag, parameters.get(flag, False))]


def basic_environment(job: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """What `sagemaker_pytorch_container.training` sets, and unbuffered output as in AWS's images."""
    local = environ.get("SM_STUDIO_LOCAL_MODE", "").lower() == "true"
    added = {
        "MASTER_ADDR": _local_master(job) if local else job.master_hostname,
        # Hosts that are processes of one machine share its ports with other jobs.
        "MASTER_PORT": environ.get("SAGELET_MASTER_PORT", MASTER_PORT),
        "PYTHONUNBUFFERED": environ.get("PYTHONUNBUFFERED", "1"),
    }
    if not local:
        added |= {"NCCL_SOCKET_IFNAME": job.network_interface_name, "NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "WARN"}
    torch = installed.torch_version()
    if torch:
        added["SM_DLC_TORCH_VERSION"] = torch
    return added | thread_environment(environ)


def _local_master(job: Any) -> str:
    """Where all hosts are processes of one machine: loopback when they have no names, and for one host anyway."""
    if len(job.hosts) == 1:
        return LOOPBACK
    try:
        socket.gethostbyname(job.master_hostname)
    except OSError:
        return LOOPBACK
    return str(job.master_hostname)


def thread_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Sizes of thread pools where the cgroup allows fewer CPUs than there are."""
    limit = device.thread_limit()
    if limit is None:
        return {}
    return {name: str(limit) for name in ("OMP_NUM_THREADS", "PJRT_NPROC") if name not in environ}


def compiler_environment(job: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that put the script on XLA, or keep it off."""
    try:
        config = compiler.config_from_parameters(job.additional_framework_parameters)
        if not config.enabled:
            return native_environment(environ)
        return _compiled_environment(config, job, environ)
    except (compiler.CompilerConfigurationError, installed.TorchXlaUnavailable) as error:
        raise errors.ClientError(str(error)) from error


def native_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Accelerate and Transformers take an XLA device as soon as torch_xla can be imported, unless told not to."""
    return {} if "USE_TORCH_XLA" in environ else {"USE_TORCH_XLA": "0"}


def _compiled_environment(config: compiler.CompilerConfig, job: Any, environ: Mapping[str, str]) -> dict[str, str]:
    torch_xla = installed.require_torch_xla()
    added = compiler.configure(config, job.output_data_dir, environ, job.log_level)
    choice = device.choose_device(environ, gpu.gpu_count(environ, job.num_gpus), torch_xla)
    compilation.write(job.output_data_dir, job.current_host, choice)
    if not choice.compiled:
        return _uncompiled_environment(choice)
    say(f"compiled training on PJRT_DEVICE={choice.kind}: {choice.reason}")
    if len(job.hosts) > 1:
        say(f"each of the {len(job.hosts)} hosts is an XLA world of its own: torch_xla exchanges nothing between them")
    _put_startup_first()
    return {
        **added,
        **choice.environment,
        "PJRT_DEVICE": choice.kind,
        "USE_TORCH_XLA": environ.get("USE_TORCH_XLA", "1"),
        # On XLA devices other than TPUs accelerate asks the environment who is first on this host; when nobody is,
        # the Trainer prints no losses.
        "LOCAL_RANK": environ.get("LOCAL_RANK", "0"),
    }


def _uncompiled_environment(choice: device.DeviceChoice) -> dict[str, str]:
    """The job trains natively, which its log cannot overlook. The hook puts torch_xla's names on CUDA."""
    for line in ("=" * 100, f"NOT COMPILED: {choice.reason}", "The job trains natively.", "=" * 100):
        say(line)
    _put_startup_first()
    # PJRT_DEVICE: an import of torch_xla would else look for a device of its own.
    return {"USE_TORCH_XLA": "0", "PJRT_DEVICE": "CPU", uncompiled.NOT_COMPILED: choice.reason}


def _put_startup_first() -> None:
    """The toolkit makes the script's PYTHONPATH from our sys.path, and would put the code directory first."""
    for path in (environment.code_dir, STARTUP):
        if path in sys.path:
            sys.path.remove(path)
        sys.path.insert(0, path)


def name_image(environ: Mapping[str, str]) -> None:
    """Says what stands in for the image that the request names; its Python and torch are seldom these."""
    uri = environ.get("SAGELET_TRAINING_IMAGE")
    if not uri:
        return
    parts = [f"Python {platform.python_version()}"]
    parts += [f"{name} {found}" for name in ("torch", "torch_xla") if (found := installed.version(name))]
    say(f"{uri} is stood in for by {', '.join(parts)}")
