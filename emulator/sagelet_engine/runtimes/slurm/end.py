"""Decides how a host of an allocation ended, from its own `exit.json` and from Slurm's state of the job."""

from dataclasses import dataclass, replace

from sagelet_engine.model.runtime import Observation
from sagelet_engine.runtimes.slurm import files
from sagelet_engine.runtimes.slurm.commands import SlurmJob

KILLED, TERMINATED = 137, 143
#: States in which the job's time was over.
TIME = frozenset({"TIMEOUT", "DEADLINE"})
NODES = frozenset({"NODE_FAIL", "BOOT_FAIL"})
#: States in which Slurm ended the hosts for a reason outside of them, so their exit codes do not count.
FAULTS = NODES | {"CANCELLED"}


@dataclass(frozen=True)
class Ended:
    """The end that a shim wrote, or a server in its place."""

    observation: Observation
    heard: str

    def is_own(self, asked: str) -> bool:
        """True if no state of Slurm's job could change this end. `asked`: the host's control file.

        False if Slurm may have signalled the host: its command may have ended of the signal before its shim got it.
        Also False if something else may have killed the host, such as the kernel for memory.
        """
        if files.SLURM_ENDS in self.heard + asked or files.SIGNAL in self.heard:
            return False
        told = self.observation
        return told.exit_code != KILLED or files.KILL in self.heard or told.out_of_memory


def end_of(ended: Ended | None, job: SlurmJob | None, state: str | None, asked: str, log: str) -> Observation:
    """Returns the end of a host whose allocation is over.

    `state`: the job's, from Slurm's controller or its accounting, or None if both have forgotten it. `asked`: the
    host's control file. `log`: the end of the allocation's log.
    """
    own = Observation(running=False) if ended is None else ended.observation
    heard = "" if ended is None else ended.heard
    number = "Slurm's job" if job is None else f"Slurm's job {job.number}"
    preempted = state == "PREEMPTED" or (job is not None and job.preempted is not None)
    if preempted:
        return replace(own, interrupted=True, error=f"{number} was preempted")
    # Slurm signals the script before every end. Without another cause, the time was over.
    if state in TIME or (files.SLURM_ENDS in heard and state not in FAULTS):
        return replace(own, time_over=True, error=f"the time limit of {number} was over")
    if state == "OUT_OF_MEMORY":
        return replace(own, out_of_memory=True, exit_code=own.exit_code or KILLED)
    if own.exit_code == KILLED and files.SIGNAL in heard and state not in FAULTS:
        # The container did not end with the others when Slurm signalled them, so it was killed. That was not a failure
        # of its own, and must not count as the cause of its peers' ends.
        return replace(own, exit_code=TERMINATED)
    if own.exit_code is not None and state not in FAULTS:
        return own
    if files.KILL in asked:
        return Observation(running=False, exit_code=KILLED)
    return Observation(running=False, error=own.error or _cause(number, state, job, log))


def _cause(number: str, state: str | None, job: SlurmJob | None, log: str) -> str:
    if state is None:
        return "Slurm has forgotten the job, and the host left no note of its end"
    if state in NODES:
        where = f" ({job.nodes})" if job is not None else ""
        return f"a node{where} failed under {number}: {state}"
    if state == "CANCELLED":
        return f"{number} was cancelled by somebody other than sagelet (scancel, or an administrator)"
    unseen = " and it said nothing; do the nodes see the data directory at the same path (--slurm-files)?"
    said = f". It said: {log}" if log else unseen
    return f"{number} ended ({state}) without a note from the host{said}"
