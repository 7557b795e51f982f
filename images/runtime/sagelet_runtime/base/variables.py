"""Environment variables that several parts of this package read.

Keep this module small: every Python of a job imports it.
"""

from collections.abc import Mapping

#: Set to "1" where the Training Compiler is configured.
CONFIGURED = "SM_TRAINING_COMPILER_CONFIGURED"
#: Set to the reason where a job that asks for the compiler is not compiled.
NOT_COMPILED = "SAGELET_NOT_COMPILED"


def on_cpu(environ: Mapping[str, str]) -> bool:
    """True if XLA runs on CPUs: PJRT_DEVICE is CPU, or CPU_PLUGIN. torch_xla, too, compares what is before the `_`."""
    return environ.get("PJRT_DEVICE", "").partition("_")[0] == "CPU"
