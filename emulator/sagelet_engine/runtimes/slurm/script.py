"""Makes the batch script of an allocation and sbatch's options. Pure functions, tested against recorded texts."""

import shlex
import string
from collections.abc import Sequence
from pathlib import Path

from sagelet_engine.model.cluster import AllocationRequest
from sagelet_engine.runtimes.slurm import files
from sagelet_engine.runtimes.slurm.rules import Placement

#: The beginning of each comment. sagelet finds its Slurm jobs by their comments.
MARK = "sagelet"
SHIM = Path(__file__).with_name("shim.py")
#: Seconds that nodes wait for the server to bring the job's data before they are given back.
TIMEOUT_S = 3600
#: How many times a second the script looks for `go.json`.
LOOKS = 5
#: Seconds added to the time limit. Slurm may signal a minute early, and sagelet itself ends the job while it runs.
SLACK_SECONDS = 120

_SCRIPT = string.Template("""\
#!/bin/sh
# Made by sagelet: one allocation, with the shim of one host on each node.
${prologue}cd $directory || exit 70
# A crash in the middle of sbatch may submit this script twice. The second one ends at once.
mkdir $claimed 2>/dev/null || exit 0

scontrol show hostnames "$$SLURM_JOB_NODELIST" >$nodes || exit 71
sinfo --noheader --Node --nodes="$$SLURM_JOB_NODELIST" --format='%N %o' | sort -u >$addresses || exit 71

# Slurm is about to end the job: its time is over, or it is preempted. Only the commands of its hosts get the signal.
# Before they run the script just ends.
task=
ending() {
    [ -n "$$task" ] || exit 143
    while IFS= read -r control; do printf $slurm_ends >>"$$control"; done <$controls
}
trap ending TERM

# The nodes are there; now sagelet brings the data.
looks=0
until ls >/dev/null && [ -e $go ]; do
    looks=$$((looks + 1))
    [ $$looks -lt $patience ] || exit 75
    sleep $pause
done

# A signal ends `wait`, but not the task.
await() {
    while :; do
        wait "$$task"
        code=$$?
        kill -0 "$$task" 2>/dev/null || break
    done
}

# Since Slurm 22.05 a step does not get the CPUs of its job by itself.
srun --export=ALL --kill-on-bad-exit=1 --ntasks-per-node=1 \\
    $${SLURM_CPUS_PER_TASK:+--cpus-per-task="$$SLURM_CPUS_PER_TASK"} $shim &
task=$$!
await
${epilogue}exit "$$code"
""")


#: Slurm kills the shims of the other nodes when one has failed.
_EPILOGUE = string.Template("""\
end=$$code
if [ "$$end" != 0 ]; then
    srun --export=ALL --ntasks-per-node=1 $afterwards &
    task=$$!
    await
fi
code=$$end
""")


def script(
    directory: Path, python: str, prologue: str = "", around: Sequence[str] = (), afterwards: Sequence[str] = ()
) -> str:
    """Returns the batch script. `python` is the nodes' interpreter; `around` is the command that runs the shim.

    `afterwards` runs on each node when a shim has failed.
    """
    shim = [*around, python, "-I", "-S", str(SHIM), str(directory)]
    return _SCRIPT.substitute(
        prologue=prologue,
        epilogue=_EPILOGUE.substitute(afterwards=shlex.join(afterwards)) if afterwards else "",
        directory=shlex.quote(str(directory)),
        claimed=files.CLAIMED,
        nodes=files.NODES,
        addresses=files.ADDRESSES,
        slurm_ends=files.SLURM_ENDS,
        controls=files.CONTROLS,
        go=files.GO,
        patience=TIMEOUT_S * LOOKS,
        pause=1 / LOOKS,
        shim=shlex.join(shim),
    )


def options(
    order: AllocationRequest,
    placement: Placement,
    directory: Path,
    owner: str,
    size: Sequence[str] = (),
    *,
    shared: bool = True,
) -> list[str]:
    """Returns options of sbatch. The user's own come last, so they win. `shared`: the nodes see the directory.

    `size`: see `slurm/sizes.py`.
    """
    return [
        f"--job-name={order.job_name}",
        f"--comment={key(owner, order.job_id)}",
        f"--nodes={len(order.instance_types)}",
        "--ntasks-per-node=1",
        # Another attempt is another Slurm job.
        "--no-requeue",
        f"--chdir={directory if shared else '/'}",
        f"--output={directory / files.LOG if shared else '/dev/null'}",
        "--open-mode=append",
        # The job must not get the rest of the server's environment, which may hold keys.
        "--export=PATH,LANG",
        *_limit(order),
        *([f"--gres=gpu:{order.gpus}"] if order.gpus and "gres" not in placement.places else []),
        *size,
        *placement.options,
    ]


def key(owner: str, job_id: str) -> str:
    """Returns the comment by which an allocation is found."""
    return f"{MARK}:{owner}:{job_id}"


def job_id_of(comment: str, owner: str) -> str | None:
    """Returns the job id in a comment, or None if the job is not this server's."""
    mark, _, rest = comment.partition(":")
    whose, _, job_id = rest.partition(":")
    return job_id if mark == MARK and whose == owner and job_id else None


def _limit(order: AllocationRequest) -> Sequence[str]:
    """Returns the time limit, in Slurm's minutes. Slurm ends the job if sagelet does not."""
    grace = f"--signal=B:TERM@{min(max(order.grace_seconds, 1), 65535)}"
    if order.seconds is None:
        return [grace]
    minutes = -(-(order.seconds + order.grace_seconds + SLACK_SECONDS) // 60)
    return [grace, f"--time={minutes}"]
