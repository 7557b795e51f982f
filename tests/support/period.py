"""Runs training scripts of 2021 to 2024 (tests/period/scripts) as jobs of one host, natively or compiled."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from support.training_host import Ended, TrainingHost
from support.xla_workers import TINY

SCRIPTS = Path(__file__).parents[1] / "period" / "scripts"
REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
#: Instance types by number of workers: one for each GPU.
INSTANCES = {1: "ml.p3.2xlarge", 2: "ml.p3.8xlarge", 4: "ml.p3.8xlarge"}
COMPILED = {"sagemaker_training_compiler_enabled": "true", "sagemaker_training_compiler_debug_mode": "false"}
#: Flags of `distribution=`. The key says whether the job is compiled.
DISTRIBUTION = {
    False: {"sagemaker_torch_distributed_enabled": "true"},
    True: {"sagemaker_pytorch_xla_multi_worker_enabled": "true"},
}


@dataclass(frozen=True)
class PeriodScript:
    """One script, and the settings of its job."""

    #: Its directory, named for the script and its year.
    name: str
    program: str
    #: Family and tag of the Deep Learning Container that it ran in.
    family: str
    tag: str
    #: `{data}`: the directory of the channels. `{model}`: that of the model. `{batch}`: a worker's share of `batch`.
    hyperparameters: dict[str, str] = field(default_factory=dict)
    #: Lines with its losses and metrics, as regular expressions.
    says: tuple[str, ...] = ()
    #: Lines that the script itself omits where accelerate reports a TPU. Accelerate takes XLA for one.
    not_on_tpu: str = ""
    #: The rows of a step, of all workers together.
    batch: int = 4
    channels: tuple[str, ...] = ()
    #: The allowed relative difference of losses (docs/explanation/same-model.md).
    tolerance: float = 1e-5
    #: True if it uses torch_xla in any job. Its native training is torch_xla's names on the native device.
    xla_only: bool = False
    #: True if one worker on the whole batch and four on a quarter each log the same losses and metrics.
    same_over_workers: bool = True
    #: Workers of its larger job.
    several: int = 4
    #: Workers of its larger job in CI. 0 if CI does not run it.
    several_in_ci: int = 0
    #: False if Python itself runs its jobs: a script of one worker, and one of torchrun.
    forked: bool = True


@dataclass(frozen=True)
class Run:
    ended: Ended
    base: Path


def run(script: PeriodScript, base: Path, data: Path, *, compiled: bool, workers: int) -> Run:
    """Runs the job of `script` to its end. `data`: the directory that period_data wrote."""
    host = TrainingHost(base, instance_type=INSTANCES[workers], channels=script.channels, forked=script.forked)
    shutil.copytree(SCRIPTS / script.name, base / "code")
    for channel in script.channels:
        shutil.copytree(data / channel, host.data / channel)
    places = {"data": str(host.data), "model": str(host.model), "batch": str(script.batch // workers)}
    given = {name: value.format(**places) for name, value in script.hyperparameters.items()}
    host.environment |= _environment(script, compiled=compiled, workers=workers)
    flags = (COMPILED if compiled else {}) | (DISTRIBUTION[compiled] if workers > 1 else {})
    return Run(host.run({**given, **flags}, script.program), base)


def _environment(script: PeriodScript, *, compiled: bool, workers: int) -> dict[str, str]:
    environment = {
        "SAGELET_TRAINING_IMAGE": f"{REGISTRY}/{script.family}{'-trcomp' if compiled else ''}-training:{script.tag}",
        "SAGELET_INSTANCE_GPUS": f'{{"{INSTANCES[workers]}": {workers}}}',
        **TINY,
        "HF_HUB_OFFLINE": "1",
    }
    if script.xla_only and not compiled:
        environment |= {"SAGELET_NOT_COMPILED": "the test compares with the native training", "PJRT_DEVICE": "CPU"}
    return environment
