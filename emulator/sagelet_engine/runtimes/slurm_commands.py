"""Slurm's commands: the only module that runs them. What they print is read in forms that are made for programs.

`squeue --json` is not used, although it is there: on Slurm 22.05 it heeds no filter, takes 4 KB a job of the whole
cluster, and its fields have changed their types with nearly every release since. `--Format` with separators of our own
is the same on all of them.
"""

import contextlib
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sagelet_engine.errors import RuntimeUnavailable
from sagelet_engine.runtimes.cluster import Refused
from sagelet_engine.runtimes.slurm_sizes import UNKNOWN_MEMORY, NodeKind

#: Between the fields of a line; in none of them.
SEPARATOR = "\x1f"
_JOB_FIELDS = ("JobID", "State", "Reason", "StartTime", "EndTime", "PreemptTime", "NodeList", "Comment")
#: Seconds that a command may take: a busy controller answers late.
PATIENCE = 60
#: What Slurm says when it cannot be asked, as opposed to what it does not want.
_UNAVAILABLE = (
    "Unable to contact slurm controller",
    "Connection refused",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Slurm temporarily unable to accept job",
    "Transport endpoint is not connected",
    "slurm_persist_conn",
    "Slurm backup controller in standby mode",
    "Unable to establish configuration source",
    "Resource temporarily unavailable",
    "Munge encode failed",
    "authentication",
    # Limits on how many may be in the queue: it has room again later.
    "Job violates accounting/QOS policy (job submit limit",
    "AssocMaxSubmitJobLimit",
    "QOSMaxSubmitJobPerUserLimit",
    "Maximum job count reached",
)
#: Options of sacct: what slurmdbd keeps, or else what JobCompType does (jobcomp/filetxt: one file for all jobs).
_ACCOUNTS = ((), ("--completion",))
#: What commands say of a job that the controller has forgotten.
_UNKNOWN_JOB = "Invalid job id specified"


@dataclass(frozen=True)
class SlurmJob:
    """A job of Slurm's as squeue knows it. Times are seconds since the epoch; None: not known, or not yet."""

    number: int
    state: str
    reason: str
    start: int | None
    end: int | None
    preempted: int | None
    nodes: str
    comment: str


class Slurm:
    """The commands of the Slurm that SLURM_CONF, or this machine, is configured for."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """`environment`: in place of this process's own."""
        self._environment = environment
        #: How often each command was run.
        self.calls: Counter[str] = Counter()
        self._guard = threading.Lock()

    def submit(self, options: Sequence[str], script: str, *, hold: int) -> int:
        """sbatch; the number of the new job. Raises Refused.

        `hold` is an open file that the command holds open: whoever locks it knows that none is under way.
        """
        said = self._run("sbatch", "--parsable", *options, given=script, hold=(hold,))
        return int(said.strip().split(";")[0])

    def jobs(self) -> list[SlurmJob]:
        """All jobs of this user that the controller remembers, ended ones among them."""
        columns = ",".join(f"{field}:{SEPARATOR}" for field in _JOB_FIELDS)
        said = self._run("squeue", "--noheader", "--me", "--states=all", f"--Format={columns}")
        return [_job(line) for line in said.splitlines() if SEPARATOR in line]

    def state(self, number: int) -> str | None:
        """Of one job; None where the controller has forgotten it."""
        said = self._of_one("squeue", "--noheader", "--states=all", f"--jobs={number}", "--Format=State")
        return said.strip() or None

    def accounted(self, number: int) -> str | None:
        """The state of a job that the controller has forgotten, from the accounts; None where they have it not."""
        for accounts in _ACCOUNTS:
            with contextlib.suppress(Refused):  # "Slurm accounting storage is disabled"
                lines = self._sacct(accounts, number).splitlines()
                # `CANCELLED by 1000`; of several, a controller that lost its state has used the number before.
                if words := [line.split()[0] for line in lines if line.strip()]:
                    return words[-1]
        return None

    def keeps_accounts(self) -> bool:
        """Whether jobs can be asked for that the controller has forgotten."""
        for accounts in _ACCOUNTS:
            with contextlib.suppress(Refused):
                self._sacct(accounts, 1)
                return True
        return False

    def _sacct(self, accounts: Sequence[str], number: int) -> str:
        shape = ("--noheader", "--parsable2", "--allocations", "--format=State")
        return self._run("sacct", *accounts, *shape, f"--jobs={number}")

    def cancel(self, number: int) -> None:
        """scancel; a job that is gone is no error."""
        self._of_one("scancel", "--quiet", str(number))

    def _of_one(self, *command: str) -> str:
        """What a command says of one job; nothing of a job that the controller has forgotten."""
        try:
            return self._run(*command)
        except Refused as error:
            if _UNKNOWN_JOB not in str(error):
                raise RuntimeUnavailable(str(error)) from error
            return ""

    def node_kinds(self) -> list[NodeKind]:
        """What the nodes of each partition have; of those that do not work, too."""
        columns = ",".join(f"{field}:{SEPARATOR}" for field in ("Partition", "PartitionName", "Gres", "CPUs", "Memory"))
        # Not the least of several with a plus behind.
        said = self._run("sinfo", "--noheader", "--exact", f"--Format={columns}")
        fields = ([one.strip() for one in line.split(SEPARATOR)] for line in said.splitlines() if SEPARATOR in line)
        return [
            NodeKind(name, marked.endswith("*"), gpus_in(gres), _number(cpus) or 1, _number(memory) or UNKNOWN_MEMORY)
            for marked, name, gres, cpus, memory, *_ in fields
        ]

    def node_hosts(self) -> set[str]:
        """The host names of all nodes."""
        return set(self._run("sinfo", "--noheader", "--Node", "--Format=NodeHost:256").split())

    def version(self) -> str:
        return self._run("sinfo", "--version").split()[-1]

    def settings(self) -> dict[str, str]:
        """The controller's configuration. Raises RuntimeUnavailable when it does not answer."""
        lines = self._run("scontrol", "show", "config").splitlines()
        pairs = (line.partition("=") for line in lines)
        return {name.strip(): value.strip() for name, _, value in pairs if value}

    def _run(self, command: str, *arguments: str, given: str = "", hold: tuple[int, ...] = ()) -> str:
        """What the command printed. Raises RuntimeUnavailable or Refused, with Slurm's own words."""
        with self._guard:
            self.calls[command] += 1
        # Times as seconds since the epoch, texts in English.
        environment = {**(self._environment or os.environ), "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
        # Options of this user's habit must not change ours.
        environment = {name: value for name, value in environment.items() if not name.startswith(_HABITS)}
        try:
            done = subprocess.run(
                [command, *arguments], env=environment, input=given, capture_output=True, text=True,
                timeout=PATIENCE, pass_fds=hold,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise Refused(f"{command} is not installed: it comes with Slurm's client programs") from error
        except subprocess.TimeoutExpired as error:
            raise RuntimeUnavailable(f"Slurm: {command} got no answer within {PATIENCE} s") from error
        if done.returncode == 0:
            return done.stdout
        words = _words(command, done.stderr)
        if any(text in words for text in _UNAVAILABLE):
            raise RuntimeUnavailable(f"Slurm: {words}")
        raise Refused(f"Slurm: {words}")


_HABITS = ("SBATCH_", "SQUEUE_", "SCANCEL_", "SINFO_", "SACCT_")


def _words(command: str, said: str) -> str:
    """`sbatch: error: Batch job submission failed: Invalid partition` without the programs' names."""
    lines = [line.removeprefix(f"{command}: ").removeprefix("error: ").strip() for line in said.splitlines()]
    # The last says most, and repeats the others.
    return next((line for line in reversed(lines) if line), f"{command} failed without a word")


def _job(line: str) -> SlurmJob:
    values = [value.strip() for value in line.split(SEPARATOR)]
    number, state, reason, start, end, preempted, nodes, comment = values[: len(_JOB_FIELDS)]
    return SlurmJob(
        int(number), state, reason, _number(start), _number(end), _number(preempted), nodes, comment
    )  # fmt: skip


def _number(text: str) -> int | None:
    """`N/A`, `NONE`, `Unknown`: None."""
    return int(text) if text.isdigit() else None


def gpus_in(gres: str) -> int:
    """Of `gpu:a100:8(S:0-1),gpu:t4:2` eight: one kind of GPU at a time."""
    counts = [entry.partition("(")[0].split(":") for entry in gres.split(",")]
    return max((int(words[-1]) for words in counts if words[0] == "gpu" and words[-1].isdigit()), default=0)
