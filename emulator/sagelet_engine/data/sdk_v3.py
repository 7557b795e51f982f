"""Jobs of the SageMaker SDK v3, whose driver replaces AWS's toolkit.

The toolkit would have read the hyperparameters of the Training Compiler; the driver turns them into command line flags,
which a strict argparse refuses. So they are hidden from the driver and reach `sagelet_runtime.command` instead, which
prepares what the toolkit would have prepared and then runs the driver.
"""

import json
from collections.abc import Mapping

from sagelet_engine.images.resolve import facts_of
from sagelet_engine.images.variants import is_training_image
from sagelet_engine.model.spec import TrainingSpec
from sagelet_engine.model.training import TrainingJob

#: The channel that ModelTrainer puts its driver into.
DRIVER_CHANNEL = "sm_drivers"
ENABLED, DEBUG = "sagemaker_training_compiler_enabled", "sagemaker_training_compiler_debug_mode"
#: The Training Compiler of the training image reads these (images/runtime, compiler.py).
COMPILER_KEYS = (ENABLED, DEBUG, "sagemaker_pytorch_xla_multi_worker_enabled")
#: The variable that brings them to `sagelet_runtime.command`, as JSON.
VARIABLE = "SAGELET_COMPILER_PARAMETERS"
COMMAND = ("python3", "-m", "sagelet_runtime.command")


def has_driver(spec: TrainingSpec) -> bool:
    """True if SDK v3's driver is the entry point."""
    return bool(spec.entrypoint) and any(channel.name == DRIVER_CHANNEL for channel in spec.channels)


def is_driven(job: TrainingJob) -> bool:
    """True if the driver runs in an image that has sagelet_runtime. Known only once the image is."""
    return has_driver(job.spec) and is_training_image(job.image)


def entrypoint(job: TrainingJob) -> tuple[str, ...]:
    """Returns the job's ContainerEntrypoint, run by `sagelet_runtime.command` if necessary."""
    asked = job.spec.entrypoint
    return (*COMMAND, *asked) if is_driven(job) else asked


def environment(job: TrainingJob) -> dict[str, str]:
    return {VARIABLE: json.dumps(compiler_parameters(job.spec))} if is_driven(job) else {}


def hyperparameters(job: TrainingJob) -> Mapping[str, str]:
    """Returns what the container finds in hyperparameters.json."""
    asked = job.spec.hyperparameters
    if not is_driven(job):
        return asked
    return {name: value for name, value in asked.items() if name not in COMPILER_KEYS}


def compiler_parameters(spec: TrainingSpec) -> dict[str, str]:
    """Returns the compiler's parameters from the hyperparameters, otherwise from Environment, where their names are in
    capitals.

    If neither has any, an image of the Training Compiler still compiles: nobody names that image for another reason.
    """
    asked = {name.lower(): value for name, value in spec.environment.items() if name.isupper()}
    asked |= spec.hyperparameters
    default = {ENABLED: "true"} if facts_of(spec.image).training_compiler else {}
    return default | {name: asked[name] for name in COMPILER_KEYS if name in asked}
