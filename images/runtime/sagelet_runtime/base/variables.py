"""Environment variables that several parts of this package read.

Keep this module small: every Python of a job imports it.
"""

from collections.abc import Mapping

#: Set to "1" where the Training Compiler is configured.
CONFIGURED = "SM_TRAINING_COMPILER_CONFIGURED"
#: Set to the reason where a job that asks for the compiler is not compiled by XLA.
NOT_COMPILED = "SAGELET_NOT_COMPILED"
#: Set to "1" beside NOT_COMPILED where Inductor compiles the job instead.
INDUCTOR = "SAGELET_INDUCTOR"


def on_cpu(environ: Mapping[str, str]) -> bool:
    """True if XLA runs on CPUs: PJRT_DEVICE is CPU, or CPU_PLUGIN. torch_xla, too, compares what is before the `_`."""
    return environ.get("PJRT_DEVICE", "").partition("_")[0] == "CPU"
