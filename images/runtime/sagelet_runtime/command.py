"""`python -m sagelet_runtime.command COMMAND ARGUMENT...`: a command in place of the toolkit, prepared as by it.

SDK v3's jobs replace the entry point, so the toolkit does not run and `framework.main` neither. This sets up what
that would have set up around the script, and becomes the command: signals and exit code are the command's own.
"""

import json
import os
import sys
from collections.abc import Mapping
from types import SimpleNamespace
from typing import NoReturn

from sagemaker_training import environment, errors, files

from sagelet_runtime import framework

#: JSON object of the hyperparameters that the Training Compiler reads.
PARAMETERS = "SAGELET_COMPILER_PARAMETERS"


def main() -> NoReturn:
    """Exits 1, with a failure file, where the compiler's configuration is wrong or torch_xla is not there."""
    framework.name_image(os.environ)
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
    """Variables to add. Raises the toolkit's ClientError."""
    resources = environment.read_resource_config()
    job = SimpleNamespace(
        additional_framework_parameters=json.loads(environ.get(PARAMETERS, "{}")),
        output_data_dir=environment.output_data_dir,
        log_level=int(environ.get("SM_LOG_LEVEL", "20")),
        num_gpus=environment.num_gpus(),
        hosts=resources["hosts"],
        current_host=resources["current_host"],
    )
    # The hook of a compiled job; in any other its sitecustomize does nothing.
    path = os.pathsep.join(filter(None, [framework.STARTUP, environ.get("PYTHONPATH", "")]))
    added = framework.thread_environment(environ) | framework.compiler_environment(job, environ)
    return added | {"PYTHONPATH": path}


if __name__ == "__main__":
    main()
