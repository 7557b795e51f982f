"""Environment variables that several parts of this package read.

Keep this module small: every Python of a job imports it.
"""

from collections.abc import Mapping

#: Set to "1" where the Training Compiler is configured.
CONFIGURED = "SM_TRAINING_COMPILER_CONFIGURED"
#: Set to the reason where a job that asks for the compiler is not compiled.
NOT_COMPILED = "SAGELET_NOT_COMPILED"
#: Set to the reason where Inductor compiles a job in place of XLA.
INDUCTOR = "SAGELET_INDUCTOR"
#: The directory of compiled programs that the engine gives to a host.
COMPILE_CACHE = "SAGELET_COMPILE_CACHE"


def is_on_xla(environ: Mapping[str, str]) -> bool:
    """True if torch_xla trains in a process of a job that asks for the compiler."""
    return NOT_COMPILED not in environ and INDUCTOR not in environ


def on_cpu(environ: Mapping[str, str]) -> bool:
    """True if XLA runs on CPUs: PJRT_DEVICE is CPU, or CPU_PLUGIN. torch_xla, too, compares what is before the `_`."""
    return environ.get("PJRT_DEVICE", "").partition("_")[0] == "CPU"
