"""Errors of training with several workers."""


class WorldError(RuntimeError):
    """The workers cannot go on together. The message says which worker, and where to look."""


class WorkersDisagree(WorldError):
    """Workers called different collectives at the same point, or the same collective on tensors of different shapes."""


class WorkerLost(WorldError):
    """A worker ended, or did not arrive in time, while others waited for it."""


class NotAcrossProcesses(NotImplementedError):
    """A feature of torch_xla needs collectives inside a compiled program, which PJRT's CPU client does not have."""
