"""Environment variables that several parts of this package read.

Keep this module small: every Python of a job imports it.
"""

#: Set to "1" where the Training Compiler is configured.
CONFIGURED = "SM_TRAINING_COMPILER_CONFIGURED"
#: Set to the reason where a job that asks for the compiler is not compiled by XLA.
NOT_COMPILED = "SAGELET_NOT_COMPILED"
#: Set to "1" beside NOT_COMPILED where Inductor compiles the job instead.
INDUCTOR = "SAGELET_INDUCTOR"
