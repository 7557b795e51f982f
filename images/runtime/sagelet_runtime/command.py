"""`python -m sagelet_runtime.command COMMAND ARGUMENT...`: runs a command prepared as AWS's toolkit prepares a script.

SDK v3's jobs replace the entry point, so neither the toolkit nor `framework.main` runs. This module sets up the
environment that `framework.main` would have set up, then execs the command. Signals and exit code are the command's.
"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from sagemaker_training import environment, errors, files

from sagelet_runtime.base import compiler, image
from sagelet_runtime.base.world import gpus_of
from sagelet_runtime.entry import sdk_v3
from sagelet_runtime.launch import framework
from sagelet_runtime.requirements import driver_install
from sagelet_runtime.requirements import held_packages as requirements

#: JSON object with the hyperparameters that the Training Compiler reads.
PARAMETERS = "SAGELET_COMPILER_PARAMETERS"


def main() -> NoReturn:
    """Prepares the environment and becomes the command.

    Exits 1, with a failure file, if the compiler's configuration is wrong or torch_xla is missing.
    """
    image.say_what_stands_in(os.environ)
    try:
        added = prepared_environment(os.environ)
    except errors.ClientError as error:
        files.write_failure_file(str(error))
        print(error, file=sys.stderr)
        sys.exit(1)
    kept = {name: value for name, value in os.environ.items() if name != PARAMETERS}
    sys.stdout.flush()
    os.execvpe(sys.argv[1], sys.argv[1:], kept | added)


def prepared_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables to add. Raises the toolkit's ClientError."""
    resources, gpus = environment.read_resource_config(), environment.num_gpus()
    job = SimpleNamespace(
        additional_framework_parameters=json.loads(environ.get(PARAMETERS, "{}")),
        output_data_dir=environment.output_data_dir,
        log_level=int(environ.get("SM_LOG_LEVEL", "20")),
        num_gpus=gpus,
        hosts=resources["hosts"],
        distribution_hosts=resources["hosts"],
        master_hostname=resources["hosts"][0],
        network_interface_name=resources.get("network_interface_name", "eth0"),
        current_host=resources["current_host"],
        current_instance_type=resources["current_instance_type"],
        hyperparameters=environment.read_hyperparameters(),
        # A channel brings the scripts.
        module_dir="",
    )
    added = image.loading_environment(environ) | framework.thread_environment(environ)
    added |= framework.compiler_environment(job, environ)
    drivers = Path(environment.base_dir, "input", "data", "sm_drivers")
    workers = sdk_v3.prepare(drivers, resources, environ, gpus)
    if workers is None:
        _refuse_workers(job.additional_framework_parameters, resources, environ, gpus)
    added |= framework.hugging_face_environment(environ)
    # PYTHONPATH brings the hooks. In a job that needs none, its sitecustomize does nothing.
    path = os.pathsep.join(filter(None, [framework.STARTUP, environ.get("PYTHONPATH", "")]))
    added |= framework.report_environment(job, environ)
    added |= framework.training_environment(job, environ)
    added |= framework.stand_in_environment(job, environ)
    added |= requirements.constrain(environment.base_dir, environ)
    added |= {driver_install.VARIABLE: " ".join(requirements.kept())}
    return added | (workers or {}) | {"PYTHONPATH": path}


def _refuse_workers(
    parameters: Mapping[str, Any], resources: Mapping[str, Any], environ: Mapping[str, str], found: int
) -> None:
    """Raises ClientError if several workers are asked for.

    The plain driver starts one process on each host, and torch_xla would not join them.
    """
    count = len(resources["hosts"]) * max(1, gpus_of(resources["current_instance_type"], environ, found))
    if count > 1 and compiler.parse_flag(compiler.MULTI_WORKER, parameters.get(compiler.MULTI_WORKER, False)):
        raise errors.ClientError(
            f"{compiler.MULTI_WORKER} asks for {count} workers, and SDK v3's driver starts one on each host, "
            "which would train a model of its own. Use ModelTrainer(distributed=Torchrun())"
        )


if __name__ == "__main__":
    main()
