"""What sbatch is given, word for word."""

from pathlib import Path

import pytest

from sagelet_engine.model.cluster import AllocationRequest
from sagelet_engine.runtimes.slurm import script as slurm_script
from sagelet_engine.runtimes.slurm.rules import Placement

DIRECTORY = Path("/shared/sagelet/a b")
SHIM = f"/usr/bin/python3 -I -S {slurm_script.SHIM} '{DIRECTORY}'"
SCRIPT = f"""\
#!/bin/sh
# Made by sagelet: one allocation, with the shim of one host on each node.
cd '/shared/sagelet/a b' || exit 70
# A crash in the middle of sbatch may submit this script twice. The second one ends at once.
mkdir claimed 2>/dev/null || exit 0

scontrol show hostnames "$SLURM_JOB_NODELIST" >nodes || exit 71
sinfo --noheader --Node --nodes="$SLURM_JOB_NODELIST" --format='%N %o' | sort -u >addresses || exit 71

# Slurm is about to end the job: its time is over, or it is preempted. Only the commands of its hosts get the signal.
# Before they run the script just ends.
task=
ending() {{
    [ -n "$task" ] || exit 143
    while IFS= read -r control; do printf S >>"$control"; done <controls
}}
trap ending TERM

# The nodes are there; now sagelet brings the data.
looks=0
until ls >/dev/null && [ -e go.json ]; do
    looks=$((looks + 1))
    [ $looks -lt 18000 ] || exit 75
    sleep 0.2
done

# A signal ends `wait`, but not the task.
await() {{
    while :; do
        wait "$task"
        code=$?
        kill -0 "$task" 2>/dev/null || break
    done
}}

# Since Slurm 22.05 a step does not get the CPUs of its job by itself.
srun --export=ALL --kill-on-bad-exit=1 --ntasks-per-node=1 \\
    ${{SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"}} {SHIM} &
task=$!
await
exit "$code"
"""


def test_the_script() -> None:
    assert slurm_script.script(DIRECTORY, "/usr/bin/python3") == SCRIPT


def test_what_a_failed_shim_may_leave_is_cleared_away_on_every_node() -> None:
    text = slurm_script.script(DIRECTORY, "/usr/bin/python3", afterwards=("clear", "a b"))
    assert text.startswith(SCRIPT.removesuffix('exit "$code"\n'))
    assert text.endswith("""\
end=$code
if [ "$end" != 0 ]; then
    srun --export=ALL --ntasks-per-node=1 clear 'a b' &
    task=$!
    await
fi
code=$end
exit "$code"
""")


def options(placement: Placement | None = None, **changes: object) -> list[str]:
    order = AllocationRequest(
        **{"job_id": "j-2", "job_name": "bert", "instance_types": ("ml.p3.8xlarge",) * 2, **changes}
    )
    return slurm_script.options(order, placement or Placement(), Path("/d"), "owner")


def test_the_options_of_an_order() -> None:
    assert options(gpus=4, seconds=3600, grace_seconds=120) == [
        "--job-name=bert",
        "--comment=sagelet:owner:j-2",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--no-requeue",
        "--chdir=/d",
        "--output=/d/slurm.log",
        "--open-mode=append",
        "--export=PATH,LANG",
        "--signal=B:TERM@120",
        # An hour, the grace, and two minutes in which sagelet comes first.
        "--time=64",
        "--gres=gpu:4",
    ]


def test_what_the_rules_choose_comes_last_and_its_gres_is_the_only_one() -> None:
    placement = Placement({"partition": "gpu", "gres": "gpu:a100:4", "memory": "64G"}, ("--exclusive",))
    assert options(placement, gpus=4)[-4:] == ["--partition=gpu", "--gres=gpu:a100:4", "--mem=64G", "--exclusive"]
    assert "--gres=gpu:4" not in options(placement, gpus=4)


def test_an_order_without_a_limit_or_gpus_asks_for_neither() -> None:
    assert not [option for option in options() if option.startswith(("--time", "--gres"))]


@pytest.mark.parametrize(
    ("comment", "job_id"),
    [
        ("sagelet:owner:j-2", "j-2"),
        ("sagelet:other:j-2", None),
        ("sagelet:owner:", None),
        ("", None),
        ("of:owner:j-2", None),
    ],
)
def test_orders_are_told_by_their_comment(comment: str, job_id: str | None) -> None:
    assert slurm_script.job_id_of(comment, "owner") == job_id
