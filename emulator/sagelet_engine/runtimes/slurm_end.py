"""How a host of an allocation ended: its own last word, and Slurm's."""

from dataclasses import dataclass, replace

from sagelet_engine.runtimes import slurm_files as files
from sagelet_engine.runtimes.port import Observation
from sagelet_engine.runtimes.slurm_commands import SlurmJob

KILLED, TERMINATED = 137, 143
#: The job's time was over.
TIME = frozenset({"TIMEOUT", "DEADLINE"})
NODES = frozenset({"NODE_FAIL", "BOOT_FAIL"})
#: Slurm ended the hosts for what is not their doing: the codes that they ended with say nothing.
FAULTS = NODES | {"CANCELLED"}


@dataclass(frozen=True)
class Ended:
    """What a keeper wrote, or a server in its place."""

    observation: Observation
    heard: str

    def is_own(self, asked: str) -> bool:
        """Nothing that Slurm may say of its job could change it. `asked`: the host's control file.

        It could where Slurm itself had signalled the host, which its command may have heeded and ended of before its
        keeper heard of it; or where somebody else may have killed it, as the kernel does for memory.
        """
        if files.SLURM_ENDS in self.heard + asked or files.SIGNAL in self.heard:
            return False
        told = self.observation
        return told.exit_code != KILLED or files.KILL in self.heard or told.out_of_memory


def end_of(ended: Ended | None, job: SlurmJob | None, state: str | None, asked: str, log: str) -> Observation:
    """The end of a host whose allocation is over.

    `state`: of the job, from Slurm's controller or its accounting; None: both have forgotten it. `asked`: the host's
    control file. `log`: the end of what the allocation said.
    """
    own = Observation(running=False) if ended is None else ended.observation
    heard = "" if ended is None else ended.heard
    number = "Slurm's job" if job is None else f"Slurm's job {job.number}"
    preempted = state == "PREEMPTED" or (job is not None and job.preempted is not None)
    if preempted:
        return replace(own, interrupted=True, error=f"{number} was preempted")
    # Slurm signals the script before every end: it is the time's unless there was another cause.
    if state in TIME or (files.SLURM_ENDS in heard and state not in FAULTS):
        return replace(own, time_over=True, error=f"the time limit of {number} was over")
    if state == "OUT_OF_MEMORY":
        return replace(own, out_of_memory=True, exit_code=own.exit_code or KILLED)
    if own.exit_code == KILLED and files.SIGNAL in heard and state not in FAULTS:
        # A container that did not end with the others when Slurm told it to. To be killed was not its failure: one that
        # fails so is taken for the cause of its peers' ends.
        return replace(own, exit_code=TERMINATED)
    if own.exit_code is not None and state not in FAULTS:
        return own
    if files.KILL in asked:
        return Observation(running=False, exit_code=KILLED)
    return Observation(running=False, error=own.error or _cause(number, state, job, log))


def _cause(number: str, state: str | None, job: SlurmJob | None, log: str) -> str:
    if state is None:
        return "Slurm has forgotten the job, and the host left no word of its end"
    if state in NODES:
        where = f" ({job.nodes})" if job is not None else ""
        return f"a node{where} failed under {number}: {state}"
    if state == "CANCELLED":
        return f"{number} was cancelled by somebody else than sagelet (scancel, or an administrator)"
    unseen = " and it said nothing; do the nodes see the data directory at the same path (--slurm-files)?"
    said = f". It said: {log}" if log else unseen
    return f"{number} ended ({state}) without a word of the host{said}"
