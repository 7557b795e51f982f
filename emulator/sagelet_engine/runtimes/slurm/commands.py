"""Runs Slurm's commands. No other module does. It reads their output in formats that are made for programs.

`squeue --json` is not used, although it exists: on Slurm 22.05 it ignores filters, takes 4 KB for each job of the whole
cluster, and its fields have changed their types with nearly every release since. `--Format` with our own separators is
the same on all releases.
"""

import contextlib
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sagelet_engine.base.errors import RuntimeUnavailable
from sagelet_engine.model.cluster import Refused
from sagelet_engine.runtimes.slurm.sizes import UNKNOWN_MEMORY, NodeKind

#: Separates the fields of a line. No field contains it.
SEPARATOR = "\x1f"
_JOB_FIELDS = ("JobID", "State", "Reason", "StartTime", "EndTime", "PreemptTime", "NodeList", "Comment")
#: Seconds that a command may take. A busy controller answers late.
TIMEOUT_S = 60
#: Parts of Slurm's messages when it cannot answer now, as opposed to when it refuses.
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
    # Limits on the number of jobs in the queue: it will have room later.
    "Job violates accounting/QOS policy (job submit limit",
    "AssocMaxSubmitJobLimit",
    "QOSMaxSubmitJobPerUserLimit",
    "Maximum job count reached",
)
#: Options of sacct: none for slurmdbd's records, --completion for JobCompType's (jobcomp/filetxt: one file for all
#: jobs).
_ACCOUNTS = ((), ("--completion",))
#: Part of the message about a job that the controller has forgotten.
_UNKNOWN_JOB = "Invalid job id specified"


@dataclass(frozen=True)
class SlurmJob:
    """A Slurm job as squeue reports it. Times are seconds since the epoch, or None if not known yet."""

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
        """`environment` replaces this process's own."""
        self._environment = environment
        #: Number of runs of each command.
        self.calls: Counter[str] = Counter()
        self._guard = threading.Lock()

    def submit(self, options: Sequence[str], script: str, *, hold: int) -> int:
        """Runs sbatch and returns the number of the new job. Raises Refused.

        `hold` is an open file that the command keeps open. A process that can lock it knows that no sbatch runs.
        """
        said = self._run("sbatch", "--parsable", *options, given=script, hold=(hold,))
        return int(said.strip().split(";")[0])

    def jobs(self) -> list[SlurmJob]:
        """Returns all jobs of this user that the controller remembers, including ended ones."""
        columns = ",".join(f"{field}:{SEPARATOR}" for field in _JOB_FIELDS)
        said = self._run("squeue", "--noheader", "--me", "--states=all", f"--Format={columns}")
        return [_job(line) for line in said.splitlines() if SEPARATOR in line]

    def state(self, number: int) -> str | None:
        """Returns the state of one job, or None if the controller has forgotten it."""
        said = self._of_one("squeue", "--noheader", "--states=all", f"--jobs={number}", "--Format=State")
        return said.strip() or None

    def accounted(self, number: int) -> str | None:
        """Returns the state of a job that the controller has forgotten, from accounting. None if it is not there."""
        for accounts in _ACCOUNTS:
            with contextlib.suppress(Refused):  # "Slurm accounting storage is disabled"
                lines = self._sacct(accounts, number).splitlines()
                # Such as `CANCELLED by 1000`. Several lines: a controller that lost its state has reused the number.
                if words := [line.split()[0] for line in lines if line.strip()]:
                    return words[-1]
        return None

    def keeps_accounts(self) -> bool:
        """True if accounting knows jobs that the controller has forgotten."""
        for accounts in _ACCOUNTS:
            with contextlib.suppress(Refused):
                self._sacct(accounts, 1)
                return True
        return False

    def _sacct(self, accounts: Sequence[str], number: int) -> str:
        shape = ("--noheader", "--parsable2", "--allocations", "--format=State")
        return self._run("sacct", *accounts, *shape, f"--jobs={number}")

    def cancel(self, number: int) -> None:
        """Runs scancel. A job that is gone is not an error."""
        self._of_one("scancel", "--quiet", str(number))

    def _of_one(self, *command: str) -> str:
        """Returns the output of a command about one job. Empty if the controller has forgotten the job."""
        try:
            return self._run(*command)
        except Refused as error:
            if _UNKNOWN_JOB not in str(error):
                raise RuntimeUnavailable(str(error)) from error
            return ""

    def node_kinds(self) -> list[NodeKind]:
        """Returns what the nodes of each partition have, including nodes that do not work."""
        columns = ",".join(f"{field}:{SEPARATOR}" for field in ("Partition", "PartitionName", "Gres", "CPUs", "Memory"))
        # Exact values; without --exact sinfo prints the least of several and a plus.
        said = self._run("sinfo", "--noheader", "--exact", f"--Format={columns}")
        fields = ([one.strip() for one in line.split(SEPARATOR)] for line in said.splitlines() if SEPARATOR in line)
        return [
            NodeKind(name, marked.endswith("*"), gpus_in(gres), _number(cpus) or 1, _number(memory) or UNKNOWN_MEMORY)
            for marked, name, gres, cpus, memory, *_ in fields
        ]

    def node_hosts(self) -> set[str]:
        """Returns the host names of all nodes."""
        return set(self._run("sinfo", "--noheader", "--Node", "--Format=NodeHost:256").split())

    def version(self) -> str:
        return self._run("sinfo", "--version").split()[-1]

    def settings(self) -> dict[str, str]:
        """Returns the controller's configuration. Raises RuntimeUnavailable if it does not answer."""
        lines = self._run("scontrol", "show", "config").splitlines()
        pairs = (line.partition("=") for line in lines)
        return {name.strip(): value.strip() for name, _, value in pairs if value}

    def _run(self, command: str, *arguments: str, given: str = "", hold: tuple[int, ...] = ()) -> str:
        """Returns what the command printed. Raises RuntimeUnavailable or Refused, with Slurm's own words."""
        with self._guard:
            self.calls[command] += 1
        # Times as seconds since the epoch, texts in English.
        environment = {**(self._environment or os.environ), "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}
        # The user's own default options must not change sagelet's.
        environment = {name: value for name, value in environment.items() if not name.startswith(_HABITS)}
        try:
            done = subprocess.run(
                [command, *arguments], env=environment, input=given, capture_output=True, text=True,
                timeout=TIMEOUT_S, pass_fds=hold,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise Refused(f"{command} is not installed: it comes with Slurm's client programs") from error
        except subprocess.TimeoutExpired as error:
            raise RuntimeUnavailable(f"Slurm: {command} got no answer within {TIMEOUT_S} s") from error
        if done.returncode == 0:
            return done.stdout
        words = _words(command, done.stderr)
        if any(text in words for text in _UNAVAILABLE):
            raise RuntimeUnavailable(f"Slurm: {words}")
        raise Refused(f"Slurm: {words}")


_HABITS = ("SBATCH_", "SQUEUE_", "SCANCEL_", "SINFO_", "SACCT_")


def _words(command: str, said: str) -> str:
    """Removes the programs' names from `sbatch: error: Batch job submission failed: Invalid partition`."""
    lines = [line.removeprefix(f"{command}: ").removeprefix("error: ").strip() for line in said.splitlines()]
    # The last line says most, and repeats the others.
    return next((line for line in reversed(lines) if line), f"{command} failed without a message")


def _job(line: str) -> SlurmJob:
    values = [value.strip() for value in line.split(SEPARATOR)]
    number, state, reason, start, end, preempted, nodes, comment = values[: len(_JOB_FIELDS)]
    return SlurmJob(
        int(number), state, reason, _number(start), _number(end), _number(preempted), nodes, comment
    )  # fmt: skip


def _number(text: str) -> int | None:
    """Returns a number, or None for `N/A`, `NONE` and `Unknown`."""
    return int(text) if text.isascii() and text.isdigit() else None


def gpus_in(gres: str) -> int:
    """Returns the most GPUs of one kind: 8 for `gpu:a100:8(S:0-1),gpu:t4:2`."""
    counts = [entry.partition("(")[0].split(":") for entry in gres.split(",")]
    return max(
        (int(words[-1]) for words in counts if words[0] == "gpu" and words[-1].isascii() and words[-1].isdigit()),
        default=0,
    )
