"""How the world of workers fails."""


class WorldError(RuntimeError):
    """The workers cannot go on together. The message says which worker, and where to look."""


class WorkersDisagree(WorldError):
    """Workers called different collectives at the same point, or the same one on tensors of different shapes."""


class WorkerLost(WorldError):
    """A worker ended, or did not come in time, while others waited for it in a collective."""


class NotAcrossProcesses(NotImplementedError):
    """A feature of torch_xla that needs collectives inside a compiled program, which PJRT's CPU client has not."""
