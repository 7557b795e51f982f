"""sagelet's SAGEMAKER_TRAINING_MODULE: prepares the user script's environment and runs it through AWS's toolkit."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from sagemaker_training import entry_point, environment, errors, files

from sagelet_runtime.base import compiler, image, installed, training_key
from sagelet_runtime.base.say import say
from sagelet_runtime.base.variables import COMPILE_CACHE, CONFIGURED, INDUCTOR, NOT_COMPILED
from sagelet_runtime.base.world import VARIABLE, World, gpus_of
from sagelet_runtime.dynamo import tiers
from sagelet_runtime.dynamo import xla as tracing
from sagelet_runtime.gpu import device, missing_gpu, trial
from sagelet_runtime.gpu import plugin as gpu
from sagelet_runtime.hugging_face import activation, names
from sagelet_runtime.inductor import cache as inductor_cache
from sagelet_runtime.inductor import choice as inductor
from sagelet_runtime.launch import compilation, device_consensus, invocation, known_speeds
from sagelet_runtime.reporting import writer
from sagelet_runtime.requirements import held_packages as requirements
from sagelet_runtime.workers import distribution, runners, worker_failures

MASTER_PORT = "7777"
LOOPBACK = "127.0.0.1"
STARTUP = str(Path(__file__).parents[1] / "startup")
#: Stand-ins for packages of AWS's native images, in jobs that ask for them.
NATIVE = str(Path(__file__).parents[1] / "native")
NATIVE_LAUNCHER = "sagemaker_toolkit_native_launcher_enabled"

#: The lines that AWS's module for PyTorch prints (sagemaker_pytorch_container/training.py).
INVOKING = {
    distribution.XLA: "Invoking PT-XLA Runner",
    distribution.DDP: "Invoking SMDataParallel for native PT DDP job",
    distribution.SMDDP: "Invoking SMDataParallel",
    distribution.TORCHRUN: "Invoking TorchDistributed...",
}


def main() -> None:
    """The toolkit calls this once it has read /opt/ml/input/config."""
    run(environment.Environment())


def run(job: Any) -> None:
    """Runs the user script of `job`, a `sagemaker_training.environment.Environment`, with the workers it asks for.

    Raises the toolkit's ClientError and its subclasses, which become the failure file.
    """
    parameters = job.additional_framework_parameters
    image.say_what_stands_in(os.environ)
    basic = basic_environment(job, os.environ)
    name = _distribution(job)
    world = distribution.world_of(job, os.environ, basic["MASTER_ADDR"], int(basic["MASTER_PORT"]))
    added = job.to_env_vars() | basic | compiler_environment(job, os.environ)
    on_xla = "PJRT_DEVICE" in added and not {INDUCTOR, NOT_COMPILED} & added.keys()
    added |= workers_environment(job, os.environ, name, world, on_xla=on_xla)
    added |= report_environment(job, os.environ)
    added |= training_environment(job, os.environ)
    added |= hugging_face_environment(os.environ)
    added |= stand_in_environment(job, os.environ)
    say_runner(name, job, world, added)
    # The toolkit's pip inherits this process's own variables.
    os.environ.update(requirements.constrain(environment.base_dir, os.environ))
    requirements.watch_the_toolkit(environment.base_dir, compiled=CONFIGURED in added and INDUCTOR not in added)
    invocation.hide_internals()
    entry_point.run(
        uri=job.module_dir,
        user_entry_point=job.user_entry_point,
        args=job.to_cmd_args(),
        env_vars=added,
        capture_error=not parameters.get(NATIVE_LAUNCHER),
        runner_type=runners.make(name, job, added, world),
    )


def _distribution(job: Any) -> str | None:
    try:
        name = distribution.chosen(job)
    except compiler.CompilerConfigurationError as error:
        raise errors.ClientError(str(error)) from error
    if name == distribution.MPI:
        raise errors.ClientError(
            "sagelet does not run distribution={'mpi': ...}: its image has no ssh, which mpirun needs to start hosts. "
            "Use {'torch_distributed': {'enabled': True}} or, in a compiled job, {'pytorchxla': {'enabled': True}}"
        )
    return name


def workers_environment(
    job: Any, environ: Mapping[str, str], name: str | None, world: World, *, on_xla: bool
) -> dict[str, str]:
    """Returns the variables that workers and their launchers need. Empty in a native job of one worker.

    `on_xla`: the workers train on an XLA device. Otherwise they do natively, compiled by Inductor or not at all.
    """
    compiled = compiler.config_from_parameters(job.additional_framework_parameters).enabled
    if name is None and not compiled:
        return {}
    # A launcher that the script starts (sm_dist) uses the user's GPU_NUM_DEVICES. A distribution uses all GPUs.
    asked = environ.get("GPU_NUM_DEVICES", "")
    known = world.with_workers(int(asked)) if name is None and asked.isdigit() and int(asked) else world
    _put_startup_first()
    if distribution.has_smddp(job.additional_framework_parameters):
        sys.path.insert(1, NATIVE)
    added = {
        "SM_NUM_GPUS": str(gpus_of(job.current_instance_type, environ, job.num_gpus)),
        VARIABLE: known.to_json(),
        worker_failures.DIRECTORY: os.path.join(environment.output_dir, "sagelet", "workers"),
    }
    if name == distribution.TORCHRUN:
        added |= device.shared_threads(environ, world.size)
    # Without it each worker of Accelerate on CPUs would train alone.
    if name is not None and not on_xla and not gpu.gpu_count(environ, job.num_gpus):
        added |= {names.USE_CPU: environ.get(names.USE_CPU, "true")}
    return added


def say_runner(name: str | None, job: Any, world: World, variables: Mapping[str, str]) -> None:
    """Prints AWS's line about the launcher, and sagelet's about the workers."""
    if name is None:
        if len(job.hosts) > 1 and "PJRT_DEVICE" in variables:
            many = f"each of {len(job.hosts)} hosts runs the script alone"
            say(f"{many}: torch_xla exchanges nothing between them, unless it starts a launcher that does (sm_dist)")
        return
    gpus = gpu.gpu_count(os.environ, job.num_gpus)
    say(distribution.announcement(name, world, job.current_instance_type, gpus, device.threads_of(world.size)))
    print(INVOKING[name], flush=True)


def basic_environment(job: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns what `sagemaker_pytorch_container.training` sets, and unbuffered output as in AWS's images."""
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
    return added | image.loading_environment(environ) | thread_environment(environ)


def _local_master(job: Any) -> str:
    """Returns the master's address where all hosts are processes of one machine.

    It is loopback for one host, and if the master's name cannot be resolved.
    """
    if len(job.hosts) == 1:
        return LOOPBACK
    try:
        socket.gethostbyname(job.master_hostname)
    except OSError:
        return LOOPBACK
    return str(job.master_hostname)


def thread_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns how threads wait for work, and the sizes of pools if the cgroup allows fewer CPUs than there are."""
    limit = device.thread_limit()
    added = {} if limit is None else dict.fromkeys(device.POOLS, str(limit))
    if not any(name in environ for name in device.SPINNING):
        added[device.SPINNING[0]] = device.SPINS
    return {name: value for name, value in added.items() if name not in environ}


def compiler_environment(job: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that put the script on XLA or keep it off. Raises the toolkit's ClientError."""
    try:
        config = compiler.config_from_parameters(job.additional_framework_parameters)
        if not config.enabled and not config.multi_worker:
            return native_environment(environ)
        return _compiled_environment(config, job, environ)
    except (
        compiler.CompilerConfigurationError,
        installed.TorchXlaUnavailable,
        device.UnknownClient,
        trial.UnknownSetting,
        device_consensus.HostsDisagree,
        inductor.UnknownCompiler,
        tracing.UnknownTracing,
        tiers.UnknownCount,
    ) as error:
        raise errors.ClientError(str(error)) from error


def report_environment(job: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the directory in which the workers write their reports. It is beside output/data, which is the user's."""
    if writer.DIRECTORY in environ:
        return {}
    directory = os.path.join(os.path.dirname(job.output_data_dir), "sagelet")
    os.makedirs(directory, exist_ok=True)
    _put_startup_first()
    return {writer.DIRECTORY: directory}


def training_environment(job: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns what a worker makes the training's key of."""
    return {training_key.VARIABLE: f"{_shape(job, environ)}:{_code_directory(job)}"}


def _shape(job: Any, environ: Mapping[str, str]) -> str:
    gpus = gpu.gpu_count(environ, job.num_gpus)
    models = trial.gpu_models(environ) if gpus else None
    launchers = sorted(set(distribution.FLAGS) & set(job.additional_framework_parameters))
    hosts = [len(job.hosts), job.current_instance_type, inductor_cache.processor(), gpus, models, bool(launchers)]
    return training_key.shape(job.hyperparameters, repr(hosts))


def _code_directory(job: Any) -> str:
    """Returns where the scripts are, or will be: in jobs of SDK v3 a channel brings them."""
    if job.module_dir:
        return str(environment.code_dir)
    return os.path.join(environment.base_dir, "input", "data", "code")


def native_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Keeps Accelerate and Transformers off XLA. Without this they use XLA as soon as torch_xla can be imported."""
    return {} if "USE_TORCH_XLA" in environ else {"USE_TORCH_XLA": "0"}


def hugging_face_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables for scripts that use names of an older Transformers. For compiled and native jobs."""
    added = activation.environment(environ)
    if added:
        _put_startup_first()
    return added


def stand_in_environment(job: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables for scripts that ask for a GPU of their instance type where this host has none."""
    gpus = gpu.gpu_count(environ, job.num_gpus)
    missing_gpu.say_unused(gpus, installed.torch_has_cuda())
    added = missing_gpu.environment(job.current_instance_type, environ, gpus)
    if added:
        _put_startup_first()
    return added


def _compiled_environment(config: compiler.CompilerConfig, job: Any, environ: Mapping[str, str]) -> dict[str, str]:
    chosen, traced_once = inductor.chosen(environ), tracing.is_chosen(environ)
    # Inductor needs no torch_xla, and so no exact torch.
    torch_xla = "" if chosen == inductor.INDUCTOR else installed.require_torch_xla()
    if config.enabled:
        added = compiler.configure(config, job.output_data_dir, environ, job.log_level)
    else:
        added = {CONFIGURED: "1"}
        say("the compiler is not enabled, but distribution pytorchxla runs its workers on PyTorch/XLA all the same")
    gpus = gpu.gpu_count(environ, job.num_gpus)
    if chosen == inductor.AUTO:
        chosen, reason = _soonest(job, environ, gpus)
        if chosen == known_speeds.NATIVE:
            native = device.DeviceChoice("CUDA" if gpus else "CPU", reason, compiled=False)
            return _native_environment(native, job, environ)
    if chosen == inductor.INDUCTOR:
        choice = device.DeviceChoice("CUDA" if gpus else "CPU", f"{inductor.VARIABLE} is {inductor.INDUCTOR}")
        return {**added, **_inductor_environment(choice, job, environ)}
    choice = _agreed(device.choose_device(environ, gpus, torch_xla), job, environ)
    if not choice.compiled and chosen == inductor.XLA:
        return _native_environment(choice, job, environ)
    if not choice.compiled:
        return {**added, **_inductor_environment(choice, job, environ)}
    compilation.write(job.output_data_dir, job.current_host, choice)
    # Nothing has been compiled yet. The report says what was: scripts may train without torch_xla.
    say(f"XLA compiles what runs on its device, PJRT_DEVICE={choice.kind}: {choice.reason}")
    if tracing.is_tiered(environ):
        say("models are traced at each step, and once by Dynamo where that pays")
    if traced_once:
        say("Dynamo traces models once, in place of at each step")
    _put_startup_first()
    return {
        **added,
        **choice.environment,
        "PJRT_DEVICE": choice.kind,
        "USE_TORCH_XLA": environ.get("USE_TORCH_XLA", "1"),
        # On XLA devices other than TPUs, accelerate reads from the environment which worker is first on this host. If
        # none is, the Trainer prints no losses.
        "LOCAL_RANK": environ.get("LOCAL_RANK", "0"),
    }


def _soonest(job: Any, environ: Mapping[str, str], gpus: int) -> tuple[str, str]:
    """Returns what SAGELET_COMPILER=auto takes, and why, and says so."""
    # Hosts may be of several kinds, and then would not take the same.
    if len(job.hosts) > 1:
        choice = known_speeds.Choice(inductor.XLA, "with several hosts it is always XLA")
    else:
        if job.module_dir:
            # entry_point.run leaves a directory with files as it is.
            files.download_and_extract(job.module_dir, environment.code_dir)
        directory = Path(_code_directory(job))
        key = training_key.key(_shape(job, environ), directory)
        cache = environ.get(COMPILE_CACHE)
        runs = known_speeds.read(Path(cache), key, environ) if cache is not None else {}
        texts = (text for _, text in training_key.scripts(directory))
        choice = known_speeds.choose(runs, job.hyperparameters, texts, gpus)
    say(f"{inductor.VARIABLE}={inductor.AUTO} trains {known_speeds.NAMES[choice.compiler]}: {choice.reason}")
    return choice.compiler, choice.reason


def _agreed(choice: device.DeviceChoice, job: Any, environ: Mapping[str, str]) -> device.DeviceChoice:
    """Returns the device of this host after the distribution's hosts have agreed. Raises HostsDisagree."""
    hosts = job.distribution_hosts
    if not device_consensus.wanted(hosts, job.current_host, environ):
        return choice
    basic = basic_environment(job, environ)
    address, port = basic["MASTER_ADDR"], basic["MASTER_PORT"]
    return device_consensus.agreed(choice, device_consensus.meeting_of(hosts, job.current_host, address, port, environ))


def _native_environment(choice: device.DeviceChoice, job: Any, _environ: Mapping[str, str]) -> dict[str, str]:
    """Says conspicuously in the log that the job trains natively. The hook puts torch_xla's names on CUDA."""
    compilation.write(job.output_data_dir, job.current_host, choice)
    _say_between_lines(f"NOT COMPILED: {choice.reason}", "The job trains natively.")
    _put_startup_first()
    # Without PJRT_DEVICE an import of torch_xla would look for a device of its own.
    return {"USE_TORCH_XLA": "0", "PJRT_DEVICE": "CPU", NOT_COMPILED: choice.reason}


def _inductor_environment(choice: device.DeviceChoice, job: Any, environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of a job that Inductor compiles, or that trains natively where Inductor cannot work.

    `choice`: not compiled if XLA was tried and does not work.
    """
    gpus = gpu.gpu_count(environ, job.num_gpus)
    problem = inductor.problem(environ, on_gpus=bool(gpus) and installed.torch_has_cuda())
    if problem is not None:
        reason = problem if choice.compiled else f"{choice.reason}; {problem}"
        return _native_environment(replace(choice, reason=reason, compiled=False), job, environ)
    reason = f"Inductor in place of XLA: {choice.reason}"
    compilation.write(job.output_data_dir, job.current_host, replace(choice, reason=reason, compiled=True))
    if choice.compiled:
        say(f"the models that the script calls are compiled by {reason}")
    else:
        native = f"{inductor.VARIABLE}={inductor.XLA} in the job's Environment trains it natively"
        _say_between_lines(f"NOT COMPILED BY XLA: {choice.reason}", f"Inductor compiles the job instead; {native}.")
    _put_startup_first()
    added = {"USE_TORCH_XLA": "0", "PJRT_DEVICE": "CPU", INDUCTOR: reason}
    return added | inductor_cache.environment(environ, environment.base_dir)


def _say_between_lines(*lines: str) -> None:
    rule = "=" * 100
    for line in (rule, *lines, rule):
        say(line)


def _put_startup_first() -> None:
    """Puts STARTUP first on sys.path, then the code directory.

    The toolkit makes the script's PYTHONPATH from sys.path, and would put the code directory first.
    """
    for path in (environment.code_dir, STARTUP):
        if path in sys.path:
            sys.path.remove(path)
        sys.path.insert(0, path)
